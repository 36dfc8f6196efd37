// Elements of the page. Strings go in as text, never as markup.

// An element by its name, with attributes, listeners (on…) and children.
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// The same for SVG.
export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) element.setAttribute(name, String(value));
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const card = (...children) => make("div", { class: "card" }, ...children);
export const row = (...children) => make("div", { class: "row" }, ...children);
export const hint = (...children) => make("p", { class: "hint" }, ...children);
export const button = (label, onclick, attributes = {}) => make("button", { ...attributes, onclick }, label);
export const columnHead = (content, attributes = {}) => make("th", { scope: "col", ...attributes }, content);
export const rowHead = (content) => make("th", { scope: "row" }, content);

// A word that the glossary explains on hover and on focus.
export const term = (word, text = word) => make("dfn", { "data-word": word }, text);

// A table in a box of its own that scrolls; `caption` may be left out.
export function scrollTable(heads, rows, caption = null) {
  const head = make("thead", {}, make("tr", {}, heads));
  return make("div", { class: "scroll" }, make("table", {}, caption, head, make("tbody", {}, rows)));
}

// The path of a layer, which may be broken at its dots.
export function layerPath(name) {
  const parts = name.split(".").flatMap((part, i) => (i ? [make("wbr"), `.${part}`] : [part]));
  return make("span", { class: "path" }, ...parts);
}
