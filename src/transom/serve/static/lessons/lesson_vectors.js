// A vector as a strip of cells, coloured by sign and size, with its numbers.

import { cellColours } from "../colours.js";
import { draw } from "../dom.js";

const CELL = { width: 30, height: 20 };

export const vectorWidth = (vector) => CELL.width * vector.length;

// Two decimals at most, and none that say nothing.
export function numberText(value) {
  if (value === null) return "masked";
  return String(Number(value.toFixed(2)) + 0).replace("-", "−");
}

export function drawVector(vector, middle, y) {
  const left = middle - vectorWidth(vector) / 2;
  const most = Math.max(1e-9, ...vector.map((number) => Math.abs(number)));
  const cells = vector.flatMap((number, k) => {
    const { background: fill, ink } = cellColours(0.5 + (0.32 * number) / most, true);
    const x = left + k * CELL.width;
    return [
      draw("rect", { x, y, width: CELL.width - 1, height: CELL.height, rx: 3, fill, class: "motion-cell" }),
      draw("text", { x: x + CELL.width / 2 - 0.5, y: y + 14, "text-anchor": "middle", fill: ink }, numberText(number)),
    ];
  });
  return draw("g", { class: "motion-vector" }, ...cells);
}
