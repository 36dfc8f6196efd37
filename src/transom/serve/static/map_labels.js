// What stands beside a map: the tokens of its rows and columns, or their numbers where there is no room for words.

import { cellColours } from "./colours.js";
import { formatChange } from "./explained.js";
import { keyTokens, rowTokens } from "./state.js";
import { displayToken } from "./token_text.js";

const label = (tokens, index) => (tokens[index] === undefined ? index : displayToken(tokens[index]));

// Single numbers in their cells, in the ink that stands out there.
export function drawNumbers(viewport, pen, tile, { share, kind }) {
  const seen = viewport.visible();
  const [firstRow, lastRow] = [Math.max(tile.rows[0], Math.floor(seen.upper)), Math.min(tile.rows[1], seen.lower)];
  const [firstKey, lastKey] = [Math.max(tile.keys[0], Math.floor(seen.left)), Math.min(tile.keys[1], seen.right)];
  pen.font = "12px system-ui";
  pen.textAlign = "center";
  for (let row = firstRow; row < lastRow; row += 1) {
    for (let key = firstKey; key < lastKey; key += 1) {
      const value = tile.numbers[(row - tile.rows[0]) * tile.shape[1] + key - tile.keys[0]];
      pen.fillStyle = cellColours(share(value), kind).ink;
      const text = kind === "influence" ? formatChange(value) : value.toFixed(3);
      pen.fillText(text, viewport.toCanvasX(key + 0.5), viewport.toCanvasY(row + 0.5) + 4);
    }
  }
}

// The tokens of the rows and columns whose middle is in view: the others' names would stand outside.
export function drawTokens(viewport, pen, isSlanted) {
  const seen = viewport.visible();
  const rows = rowTokens();
  const keys = keyTokens();
  const colours = axisColours(viewport);
  pen.font = "13px system-ui";
  pen.textAlign = "right";
  pen.fillStyle = colours.rows;
  const right = Math.max(viewport.left, viewport.toCanvasX(0)) - 6;
  for (let row = Math.ceil(seen.upper - 0.5); row + 0.5 <= seen.lower; row += 1) {
    pen.fillText(label(rows, row), right, viewport.toCanvasY(row + 0.5) + 4, viewport.left - 8);
  }
  pen.fillStyle = colours.keys;
  const bottom = Math.max(viewport.top, viewport.toCanvasY(0)) - 6;
  for (let key = Math.ceil(seen.left - 0.5); key + 0.5 <= seen.right; key += 1) {
    pen.save();
    pen.translate(viewport.toCanvasX(key + 0.5), bottom);
    if (isSlanted) pen.rotate(-0.7);
    pen.textAlign = isSlanted ? "left" : "center";
    pen.fillText(label(keys, key), 0, 0, isSlanted ? 60 : viewport.scale);
    pen.restore();
  }
}

// Round numbers of rows and keys, at least 70 pixels apart.
export function drawTicks(viewport, pen) {
  const seen = viewport.visible();
  const least = 70 / viewport.scale;
  const tens = 10 ** Math.floor(Math.log10(least));
  const step = tens * [1, 2, 5, 10].find((one) => one * tens >= least);
  const colours = axisColours(viewport);
  pen.font = "12px system-ui";
  pen.textAlign = "right";
  pen.fillStyle = colours.rows;
  const right = Math.max(viewport.left, viewport.toCanvasX(0)) - 6;
  for (let row = Math.ceil(seen.upper / step) * step; row <= seen.lower; row += step) {
    pen.fillText(`from ${row}`, right, viewport.toCanvasY(row) + 4);
  }
  pen.textAlign = "center";
  pen.fillStyle = colours.keys;
  const bottom = Math.max(viewport.top, viewport.toCanvasY(0)) - 8;
  for (let key = Math.ceil(seen.left / step) * step; key <= seen.right; key += step) {
    pen.fillText(`at ${key}`, viewport.toCanvasX(key), bottom);
  }
}

// Where the map ends: what is white may be a weight of 0, or nothing at all.
export function drawOutline(viewport, pen) {
  const { left, right, upper, lower } = viewport.visible();
  const [width, height] = [(right - left) * viewport.scale, (lower - upper) * viewport.scale];
  pen.strokeStyle = getComputedStyle(viewport.canvas).getPropertyValue("--line");
  pen.strokeRect(viewport.toCanvasX(left) + 0.5, viewport.toCanvasY(upper) + 0.5, width - 1, height - 1);
}

function axisColours(viewport) {
  const style = getComputedStyle(viewport.canvas);
  return { rows: style.getPropertyValue("--from"), keys: style.getPropertyValue("--at") };
}
