// Small drawing tools of the inner levels: text, ribbons, and vectors as rows of small bars.

import { draw } from "../dom.js";

export const text = (x, y, content, kind = "", more = {}) => draw("text", { x, y, class: kind, ...more }, content);
export const clamp = (value, low = 0, high = 1) => Math.min(high, Math.max(low, value));
export const ease = (t) => (t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2);
export const largest = (numbers) => numbers.indexOf(Math.max(...numbers));

// A minus sign as long as a plus.
export const signed = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

// A ribbon from one point to another, leaving and arriving sideways.
export function ribbonPath(x1, y1, x2, y2, bend = 0.55) {
  const reach = (x2 - x1) * bend;
  return `M${x1} ${y1}C${x1 + reach} ${y1} ${x2 - reach} ${y2} ${x2} ${y2}`;
}

// A vector as bars around a line: up is more than 0, down is less. `most` is the number of a full bar.
export function vectorPath(values, { x, y, width, height, most }) {
  const wide = width / values.length;
  return values.map((value, i) => {
    const tall = (value / (most || 1)) * height / 2;
    const left = (x + i * wide + wide * 0.12).toFixed(2);
    return `M${left} ${y}h${(wide * 0.76).toFixed(2)}v${(-tall).toFixed(2)}h${(-wide * 0.76).toFixed(2)}z`;
  }).join("");
}

// Pixels of a bar with room for its number if that is large, for any number, and for two decimals.
const [TIGHT, ROOMY, WIDE] = [22, 32, 40];
const figureOf = (value, digits) => String(Number(value.toFixed(digits)) + 0).replace("-", "−");

// The numbers of a vector beside its bars, on the other side of the line, where there is room for them.
export function vectorNumbers(values, { x, y, width }) {
  const each = width / values.length;
  if (each < TIGHT) return [];
  const digits = each < WIDE ? 1 : 2;
  const least = each < ROOMY ? 0.12 * peak(values) : 0;
  const numbers = values.map((value, i) => ({ value, at: x + (i + 0.5) * each }));
  return numbers.filter(({ value }) => Math.abs(value) >= least).map(({ value, at }) =>
    text(at, y + (value < 0 ? -4 : 12), figureOf(value, digits), "number", { "text-anchor": "middle" })
  );
}

const LEAST_BAR = 1.2; // pixels

// A vector with no more numbers than there is room for bars: of each few the largest, or of products their sum.
export function fewer(values, width, adds = false) {
  const each = Math.ceil((values.length * LEAST_BAR) / width);
  if (each < 2) return values;
  const count = Math.ceil(values.length / each);
  const join = adds
    ? (some) => some.reduce((sum, one) => sum + one, 0)
    : (some) => some.reduce((one, other) => (Math.abs(other) > Math.abs(one) ? other : one));
  return Array.from({ length: count }, (_, i) => join(values.slice(i * each, (i + 1) * each)));
}

export const peak = (...vectors) => Math.max(1e-9, ...vectors.flat().map(Math.abs));

// An SVG that fills its level.
export function canvasOf({ width, height }, label) {
  return draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label });
}

// Something in an SVG that opens by click and by key.
export function opener(label, onOpen, ...children) {
  const group = draw(
    "g",
    { class: "opener", role: "button", tabindex: 0, "aria-label": label, onclick: onOpen },
    ...children,
  );
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    event.stopPropagation();
    onOpen();
  });
  return group;
}
