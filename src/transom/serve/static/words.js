// Words as they are shown: what a person cannot see gets a sign, and everything goes in as text, never as markup.

const SPECIAL = { "<s>": "⟨start⟩", "</s>": "⟨end⟩", "<pad>": "⟨padding⟩", "<unk>": "⟨unknown⟩", "[CLS]": "⟨CLS⟩", "[SEP]": "⟨SEP⟩" };
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const LONGEST = 24;

export function shown(token) {
  if (token in SPECIAL) return SPECIAL[token];
  const bare = token.replace(/^[Ġ▁]/u, "").replace(/^ /, "");
  const seen = (bare || "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(HIDDEN, "�");
  return seen.length > LONGEST ? `${seen.slice(0, LONGEST - 1)}…` : seen;
}

// An element by its name, with attributes, listeners (on…) and children; strings become text.
export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) element.setAttribute(name, String(value));
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const percent = (share) => (share >= 0.0995 ? `${(100 * share).toFixed(0)} %` : share >= 0.001 ? `${(100 * share).toFixed(1)} %` : `${(100 * share).toPrecision(1)} %`);
export const number = (value, digits = 4) => (value === null ? "masked" : Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(1) : value.toFixed(digits));
