// Words as they are shown: what a person cannot see gets a sign, and everything goes in as text, never as markup.

const NAMED = { "\n": "‹\\n›", "\r": "‹\\r›", "\t": "‹\\t›" };
const UNSEEN = /[\p{C}\p{Z}]/u, BLANK = new Set("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5"), MARK = /\p{M}/u, AROUND = /\p{Me}/u;
const MARKS = 3, LONGEST = 240, SHORT = 24;
const code = (sign) => `‹U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;

// A token as a reader may see it, the same as in the terminal and in exported pictures: what steers, hides or breaks lines comes as
// ‹U+202E›, spaces at its edges as ·.
export function visible(token) {
  if (!token) return "‹empty›";
  const bare = token.replace(/^ +| +$/g, "");
  if (!bare) return token.length === 1 ? "‹space›" : `‹${token.length} spaces›`;
  const all = [...token], cut = all.length <= LONGEST ? token : `${all.slice(0, LONGEST).join("")}…`;
  const before = cut.length - cut.replace(/^ +/, "").length, after = cut.length - cut.replace(/ +$/, "").length;
  let marks = MARKS, seen = "";
  for (const sign of cut.slice(before, cut.length - after)) {
    if (MARK.test(sign) && !BLANK.has(sign)) { seen += marks < MARKS && !AROUND.test(sign) ? sign : code(sign); marks += 1; continue; }
    marks = 0;
    seen += NAMED[sign] ?? (sign === " " || !(UNSEEN.test(sign) || BLANK.has(sign)) ? sign : code(sign));
  }
  return "·".repeat(before) + seen + "·".repeat(after);
}

// The same, short enough for a label.
export function shown(token) {
  const seen = [...visible(token)];
  return seen.length > SHORT ? `${seen.slice(0, SHORT - 1).join("")}…` : seen.join("");
}

// What a row is called: the token it reads, and in brackets the one that comes next.
export const named = (reads, next) => (next === undefined || next === null ? shown(reads) : `${shown(reads)} (${shown(next)})`);

// What the signs in some tokens mean; nothing where they have none.
const SIGNS = [[/^·|·$/, "· is a space: it belongs to the token"], [/^<s>$/, "<s> begins a text"], [/^<\/s>$/, "</s> ends it"], [/^##/, "## goes on with the word before"],
  [/‹\\n›/, "‹\\n› is a new line"], [/\\x[0-9a-f]{2}/, "\\x… is a part of a letter"]];
export const signs = (tokens) => {
  const seen = tokens.map(visible);
  return SIGNS.filter(([sign]) => seen.some((token) => sign.test(token))).map(([, meaning]) => meaning).join("; ");
};

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

// The path of a layer, which may be broken at its dots.
export const path = (name) => make("span", { class: "path" }, ...name.split(".").flatMap((part, i) => (i ? [make("wbr"), `.${part}`] : [part])));

export const percent = (share) => (share >= 0.0995 ? `${(100 * share).toFixed(0)} %` : share >= 0.001 ? `${(100 * share).toFixed(1)} %` : `${(100 * share).toPrecision(1)} %`);
export const number = (value, digits = 4) => (value === null ? "masked" : Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(1) : value.toFixed(digits));
