// The lines of a feed-forward part: a unit with its products, its sum, its activation, what it writes and its worth.

import { draw } from "../dom.js";
import { formatNumber } from "../token_text.js";
import { clamp, fewer, opener, peak, signed, text, vectorPath } from "./draw_tools.js";
import { effectText } from "./feed_forward_text.js";

const ROOM = 30; // pixels: a line with room for a figure and a bar under it

// A bar around the middle of a column: to the right is more than 0.
function middleBar(value, most, { x, width, y, kind }) {
  const across = (width / 2) * Math.abs(value) / most;
  const left = x + width / 2 - (value < 0 ? across : 0);
  return draw("rect", { x: left, y, width: across, height: 5, rx: 2, class: kind });
}

const vectorAt = (values, { x, width, height, most, kind }) => {
  const shown = fewer(values, width);
  return draw("path", { d: vectorPath(shown, { x, y: 0, width, height, most }), class: `vector ${kind}` });
};

// A column's figure with its bar under it.
function figure(level, value, label, { x, width, y, most, kind }) {
  const dy = level.high < ROOM ? 3 : -1;
  const place = { x, width, y: y + 5, kind };
  return draw(
    "g",
    {},
    middleBar(value, most, place),
    text(x + width / 2, y + dy, label, level.high < ROOM ? "figure close" : "figure", { "text-anchor": "middle" }),
  );
}

// What a unit writes, and what it was worth: the right part of a line.
function writtenParts(level, writes, effect, y) {
  const { at, high, most, lane } = level;
  const width = at.effect - at.value - at.gap;
  const value = vectorAt(writes, {
    x: at.value,
    width,
    height: Math.min(high, 44) * 0.8,
    most: most.value,
    kind: lane.side,
  });
  const room = at.end - at.effect;
  const kind = effect < 0 ? "effect-bar hinders" : "effect-bar";
  const worth = effect === null
    ? null
    : figure(level, effect, effectText(effect), { x: at.effect, width: room, y, most: most.effect, kind });
  return { value, worth };
}

// What goes in, times W_1, and what that gives: the left part of a line.
function computedParts(level, unit, y) {
  const { at, high, most, found } = level;
  const width = at.before - at.meet - at.gap;
  const products = fewer(unit.gate.W.map((W, j) => W * found.input[j]), width, true);
  const bars = { x: at.meet, y, width, height: Math.min(high, 44) * 0.75, most: peak(products) };
  const column = (x, next) => ({ x, width: next - x - at.gap, y });
  const sum = { ...column(at.before, at.hidden), most: most.before, kind: "score-bar" };
  const hidden = { ...column(at.hidden, at.value), most: most.hidden, kind: "hidden-bar" };
  return {
    product: at.isTall ? null : draw("path", { d: vectorPath(products, bars), class: "product" }),
    sum: figure(level, unit.gate.value, signed(unit.gate.value), sum),
    hidden: figure(level, unit.hidden, signed(unit.hidden), hidden),
  };
}

// `level` is the FeedForwardLevel that the line is drawn in.
export function unitLine(level, unit, i) {
  const { at, high } = level;
  const y = level.top + (i + 0.5) * high;
  const back = draw("rect", { x: 0, y: y - high / 2, width: level.size.width, height: high, rx: 8, class: "row-back" });
  const name = text(at.isTall ? 2 : at.meet - 12, y, at.isTall ? unit.unit : `unit ${unit.unit}`, "token", {
    "text-anchor": at.isTall ? "start" : "end",
    dy: 5,
    "font-size": at.isTall ? 12 : 14,
  });
  const { product, sum, hidden } = computedParts(level, unit, y);
  const { value, worth } = writtenParts(level, unit.writes, unit.effect, y);
  const last = worth ?? text(at.effect, y + 4, formatNumber(unit.size, 3), "figure close");
  const told = worth ? `worth ${effectText(unit.effect)}` : `length ${formatNumber(unit.size, 3)}`;
  const label = `unit ${unit.unit}: sum ${signed(unit.gate.value)}, hidden ${signed(unit.hidden)}, ${told}`;
  const open = () => level.stage.open({ level: 4, unit: unit.unit });
  const group = opener(label, open, ...[back, name, product, sum, hidden, value, last].filter((one) => one));
  const line = { group, value, writes: unit.writes, isIn: true };
  line.show = (met, active, flown) => {
    for (const part of product ? [product, sum] : [sum]) part.style.opacity = met;
    for (const part of [hidden, last]) part.style.opacity = active;
    moveDown(line, level, { y, active, flown });
  };
  return line;
}

// What has been written goes down to the sum.
function moveDown(line, level, { y, active, flown }) {
  const isMoving = flown > 0 && flown < 1;
  line.value.style.opacity = active * (1 - 0.55 * flown);
  line.value.setAttribute("transform", `translate(0 ${isMoving ? y + (level.foot - y) * flown : y})`);
  line.isIn = flown >= 1;
}

// The units that are not listed, or the bias: only what they write together, and its worth.
export function otherLine(level, name, { writes, effect }, i) {
  const { at, high } = level;
  const y = level.top + (i + 0.5) * high;
  const title = text(at.isTall ? 2 : at.value - 12, y, name, "note", {
    "text-anchor": at.isTall ? "start" : "end",
    dy: 5,
  });
  const { value, worth } = writtenParts(level, writes, effect, y);
  const group = draw("g", {}, ...[title, value, worth].filter((one) => one));
  const line = { group, value, writes, isIn: true };
  line.show = (_, active, flown) => {
    moveDown(line, level, { y, active, flown });
    if (worth) worth.style.opacity = active;
  };
  return line;
}

// The activation function over the sums that come to it, with each listed unit's point on it.
export function activationCurve({ found, at, top }) {
  const [left, right] = [at.before + 6, at.value - at.gap - 6];
  const [high, low] = [14, top - 34];
  const xs = found.curve.map(([x]) => x);
  const ys = found.curve.map(([, y]) => y);
  const [least, most] = [Math.min(...ys, 0), Math.max(...ys)];
  const place = (x, y) => [
    left + ((x - xs[0]) / (xs.at(-1) - xs[0])) * (right - left),
    low - ((y - least) / (most - least)) * (low - high),
  ];
  const d = found.curve.map((point, i) => `${i ? "L" : "M"}${place(...point).map((one) => one.toFixed(1))}`).join("");
  const [zeroX, zeroY] = place(0, 0);
  const points = found.units.map((unit) => {
    const [cx, cy] = place(unit.gate.value, unit.active);
    return draw("circle", { cx, cy, r: 3.2, class: "curve-point" });
  });
  const nodes = [
    draw("line", { x1: left, x2: right, y1: zeroY, y2: zeroY, class: "sum-line" }),
    draw("line", { x1: zeroX, x2: zeroX, y1: high, y2: low, class: "sum-line" }),
    draw("path", { d, class: "curve" }),
    text(left + 2, high + 8, found.activation, "note"),
    ...points,
  ];
  const show = (active) => points.forEach((point) => (point.style.opacity = clamp(active)));
  return { nodes, show };
}
