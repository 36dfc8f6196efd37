// Tokens and numbers as they are shown: what a person cannot see gets a sign.

const NAMED = { "\n": "‹\\n›", "\r": "‹\\r›", "\t": "‹\\t›" };
const INVISIBLE = /[\p{C}\p{Z}]/u;
const BLANK = new Set("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5");
const MARK = /\p{M}/u;
const ENCLOSING_MARK = /\p{Me}/u;
const MOST_MARKS = 3;
const LONGEST = 240;
const LABEL_LENGTH = 24;

const codePoint = (sign) => `‹U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;

// A token as a reader may see it, the same as in the terminal and in exported pictures: what steers, hides or breaks
// lines comes as ‹U+202E›, spaces at its edges as ·.
export function makeVisible(token) {
  if (!token) return "‹empty›";
  if (!token.replace(/^ +| +$/g, "")) return token.length === 1 ? "‹space›" : `‹${token.length} spaces›`;
  const signs = [...token];
  const cut = signs.length <= LONGEST ? token : `${signs.slice(0, LONGEST).join("")}…`;
  const before = cut.length - cut.replace(/^ +/, "").length;
  const after = cut.length - cut.replace(/ +$/, "").length;
  return "·".repeat(before) + visibleSigns(cut.slice(before, cut.length - after)) + "·".repeat(after);
}

function visibleSigns(text) {
  let marks = MOST_MARKS;
  let found = "";
  for (const sign of text) {
    if (MARK.test(sign) && !BLANK.has(sign)) {
      found += marks < MOST_MARKS && !ENCLOSING_MARK.test(sign) ? sign : codePoint(sign);
      marks += 1;
    } else {
      const visible = sign === " " || !(INVISIBLE.test(sign) || BLANK.has(sign));
      found += NAMED[sign] ?? (visible ? sign : codePoint(sign));
      marks = 0;
    }
  }
  return found;
}

// The same, short enough for a label.
export function displayToken(token) {
  const signs = [...makeVisible(token)];
  return signs.length > LABEL_LENGTH ? `${signs.slice(0, LABEL_LENGTH - 1).join("")}…` : signs.join("");
}

// The same where tokens stand alone, each at its own place: a space before it goes without saying.
export const wordOf = (token) => dropSpace(displayToken(token));

export const dropSpace = (label) => label.replace(/^(\(?)·(?=[^·])/, "$1");

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";

// The place of a token that comes more than once; else nothing.
export function placeSign(tokens, index) {
  const isRepeated = tokens.indexOf(tokens[index]) !== tokens.lastIndexOf(tokens[index]);
  return isRepeated ? [...String(index)].map((digit) => SUBSCRIPTS[digit]).join("") : "";
}

// The token at a place; one that comes more than once has its place beside it.
export const wordAt = (tokens, index) => `${wordOf(tokens[index] ?? "")}${placeSign(tokens, index)}`;

// A row by the token it reads, and in brackets the one that comes next.
export function rowName(reads, next) {
  const known = next !== undefined && next !== null;
  return known ? `${wordOf(reads)} (${wordOf(next)})` : wordOf(reads);
}

const SIGNS = [
  [/^·|·$/, "· is a space: it belongs to the token"],
  [/^<s>$/, "<s> begins a text"],
  [/^<\/s>$/, "</s> ends it"],
  [/^##/, "## continues the word before"],
  [/‹\\n›/, "‹\\n› is a new line"],
  [/\\x[0-9a-f]{2}/, "\\x… is a part of a letter"],
];

// What the signs in some tokens mean; empty where they have none.
export function tokenLegend(tokens) {
  const visible = tokens.map(makeVisible);
  const used = SIGNS.filter(([sign]) => visible.some((token) => sign.test(token)));
  return used.map(([, meaning]) => meaning).join("; ");
}

export function formatPercent(share) {
  if (share >= 0.995 && share < 1) return share < 0.9995 ? `${(100 * share).toFixed(1)} %` : "> 99.9 %";
  if (share >= 0.0995) return `${(100 * share).toFixed(0)} %`;
  return share >= 0.001 ? `${(100 * share).toFixed(1)} %` : `${(100 * share).toPrecision(1)} %`;
}

// One format: so many digits after the point, and of what would be only zeros, on which side of which bound it lies.
export function formatNumber(value, digits = 4) {
  if (value === null) return "masked";
  if (Math.abs(value) >= 1e5) return value.toExponential(1);
  const least = 10 ** -digits;
  if (value === 0 || Math.abs(value) >= least / 2) return value.toFixed(digits);
  return value > 0 ? `<${least.toFixed(digits)}` : `>-${least.toFixed(digits)}`;
}
