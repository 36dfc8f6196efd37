// The lines of a row: a key with its products, its score, its weight and its value.

import { draw } from "../dom.js";
import { formatNumber, wordAt, wordOf } from "../token_text.js";
import { opener, peak, signed, text, vectorNumbers, vectorPath } from "./draw_tools.js";

// `level` is the RowLevel that the line is drawn in. A masked key opens nothing.
export function keyLine(level, key, i) {
  const { at, high } = level;
  const y = level.top + (i + 0.5) * high;
  const isOpen = key.score !== null;
  const side = level.sides.keys.side;
  const place = at.isTall ? { x: 2, "text-anchor": "start" } : { x: at.keys - 18, "text-anchor": "end" };
  const name = text(place.x, y, wordAt(level.sides.keys.tokens, key.key), `token ${side}`, {
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

// Where the figure of a line stands and the bar under it: closer together where many lines share the room.
const figurePlace = (high) =>
  high < 30 ? { figure: 1, bar: 3, thick: 5, kind: "figure close" } : { figure: -2, bar: 5, thick: 8, kind: "figure" };

// The key as a vector, its products with the query, and what they add up to.
function scoreParts({ at, high, most, found, sides }, key, y) {
  const isOpen = key.score !== null;
  const bars = { x: at.keys, y, width: at.score - at.keys - at.gap, height: Math.min(high, 48) * 0.75 };
  const half = (at.weight - at.score - at.gap) / 2;
  const across = isOpen ? (half * Math.abs(key.score)) / most.score : 0;
  const left = at.score + half - (key.score < 0 ? across : 0);
  const products = key.K.map((one, j) => one * found.Q[j]);
  const label = isOpen ? signed(key.score, at.isTall ? 1 : 2) : "masked";
  const { figure, bar, thick, kind } = figurePlace(high);
  return {
    key: draw("path", { d: vectorPath(key.K, { ...bars, most: peak(key.K) }), class: `vector ${sides.keys.side}` }),
    product: isOpen
      ? draw(
        "g",
        {},
        draw("path", { d: vectorPath(products, { ...bars, most: most.product }), class: "product" }),
        vectorNumbers(products, bars),
      )
      : null,
    scoreBar: draw("rect", { x: left, y: y + bar, width: across, height: 0.8 * thick, rx: 3, class: "score-bar" }),
    score: text(at.score + half, y + figure, label, isOpen ? kind : "note", { "text-anchor": "middle" }),
  };
}

function weightParts({ at, high, most, sides }, key, y) {
  const bars = { x: at.value, y: 0, width: at.end - at.value, height: Math.min(high, 48) * 0.8, most: most.value };
  const { figure, bar, thick, kind } = figurePlace(high);
  const weighted = key.V.map((one) => one * key.weight);
  const vector = draw("path", { d: vectorPath(weighted, bars), class: `vector ${sides.keys.side}` });
  return {
    weightBar: draw("rect", { x: at.weight, y: y + bar, height: thick, rx: 4, class: `square ${sides.rows.side}` }),
    weight: text(at.weight, y + figure, key.score === null ? "" : formatNumber(key.weight, 3), kind),
    value: draw("g", {}, vector, vectorNumbers(weighted, bars)),
  };
}
