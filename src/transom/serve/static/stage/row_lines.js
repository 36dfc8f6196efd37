// The lines of a row: a key with its products, its score, its weight and its value.

import { draw } from "../dom.js";
import { formatNumber, wordOf } from "../token_text.js";
import { opener, peak, signed, text, vectorPath } from "./draw_tools.js";

// `level` is the RowLevel that the line is drawn in. A masked key opens nothing.
export function keyLine(level, key, i) {
  const { at, high } = level;
  const y = level.top + (i + 0.5) * high;
  const isOpen = key.score !== null;
  const side = level.sides.keys.side;
  const place = at.isTall ? { x: 2, "text-anchor": "start" } : { x: at.keys - 18, "text-anchor": "end" };
  const name = text(place.x, y, wordOf(key.token), `token ${side}`, {
    ...place,
    dy: 5,
    "font-size": at.isTall ? 12 : 15,
  });
  const back = draw("rect", { x: 0, y: y - high / 2, width: level.size.width, height: high, rx: 8, class: "row-back" });
  const parts = { ...scoreParts(level, key, y), ...weightParts(level, key, y) };
  const numbers = isOpen ? `score ${signed(key.score)}, weight ${formatNumber(key.weight, 3)}` : "masked";
  const children = [back, name, ...Object.values(parts).filter((part) => part !== null)];
  const label = `key ${key.key}, ${wordOf(key.token)}: ${numbers}`;
  const group = isOpen
    ? opener(label, () => level.stage.open({ level: 5, key: key.key }), ...children)
    : draw("g", { class: "masked-key" }, ...children);
  return { ...parts, group, y, isOpen, weightValue: key.weight, V: key.V };
}

// The key as a vector, its products with the query, and what they add up to.
function scoreParts({ at, high, most, found, sides }, key, y) {
  const isOpen = key.score !== null;
  const bars = { x: at.keys, y, width: at.score - at.keys - at.gap, height: Math.min(high, 48) * 0.75 };
  const half = (at.weight - at.score - at.gap) / 2;
  const across = isOpen ? (half * Math.abs(key.score)) / most.score : 0;
  const left = at.score + half - (key.score < 0 ? across : 0);
  const products = key.K.map((one, j) => one * found.Q[j]);
  const label = isOpen ? signed(key.score, at.isTall ? 1 : 2) : "masked";
  return {
    key: draw("path", { d: vectorPath(key.K, { ...bars, most: peak(key.K) }), class: `vector ${sides.keys.side}` }),
    product: isOpen
      ? draw("path", { d: vectorPath(products, { ...bars, most: most.product }), class: "product" })
      : null,
    scoreBar: draw("rect", { x: left, y: y + 5, width: across, height: 6, rx: 3, class: "score-bar" }),
    score: text(at.score + half, y - 2, label, isOpen ? "figure" : "note", { "text-anchor": "middle" }),
  };
}

function weightParts({ at, high, most, sides }, key, y) {
  const bars = { x: at.value, y: 0, width: at.end - at.value, height: Math.min(high, 48) * 0.8, most: most.value };
  const d = vectorPath(key.V.map((one) => one * key.weight), bars);
  return {
    weightBar: draw("rect", { x: at.weight, y: y + 5, height: 8, rx: 4, class: `square ${sides.rows.side}` }),
    weight: text(at.weight, y - 2, key.score === null ? "" : formatNumber(key.weight, 3), "figure"),
    value: draw("path", { d, class: `vector ${sides.keys.side}` }),
  };
}
