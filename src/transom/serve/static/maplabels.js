// What stands beside a map: the tokens of its rows and columns, or their numbers where there is no room for words.

import { cell } from "./colours.js";
import { keyWords, rowWords } from "./state.js";
import { shown } from "./words.js";

// Single weights in their cells, in the ink that stands out there.
export function numbers(map, pen, found) {
  const seen = map.window(), { share } = map;
  pen.font = "12px system-ui";
  pen.textAlign = "center";
  for (let row = Math.max(found.rows[0], Math.floor(seen.upper)); row < Math.min(found.rows[1], seen.lower); row += 1) {
    for (let key = Math.max(found.keys[0], Math.floor(seen.left)); key < Math.min(found.keys[1], seen.right); key += 1) {
      const value = found.numbers[(row - found.rows[0]) * found.shape[1] + key - found.keys[0]];
      pen.fillStyle = cell(share(value), map.signed).ink;
      pen.fillText(value.toFixed(3), map.px(key + 0.5), map.py(row + 0.5) + 4);
    }
  }
}

// Of the rows and columns whose middle is in view: the others' names would stand outside.
export function labels(map, pen, slanted) {
  const seen = map.window(), [rows, keys] = [rowWords(), keyWords()], style = getComputedStyle(map);
  pen.font = "13px system-ui";
  pen.textAlign = "right";
  pen.fillStyle = style.getPropertyValue("--from");
  for (let row = Math.ceil(seen.upper - 0.5); row + 0.5 <= seen.lower; row += 1) pen.fillText(rows[row] === undefined ? row : shown(rows[row]), Math.max(map.margin, map.px(0)) - 6, map.py(row + 0.5) + 4, map.margin - 8);
  pen.fillStyle = style.getPropertyValue("--at");
  for (let key = Math.ceil(seen.left - 0.5); key + 0.5 <= seen.right; key += 1) {
    pen.save();
    pen.translate(map.px(key + 0.5), Math.max(map.above, map.py(0)) - 6);
    if (slanted) pen.rotate(-0.7);
    pen.textAlign = slanted ? "left" : "center";
    pen.fillText(keys[key] === undefined ? key : shown(keys[key]), 0, 0, slanted ? 60 : map.scale);
    pen.restore();
  }
}

export function ticks(map, pen) {
  const seen = map.window(), least = 70 / map.scale, tens = 10 ** Math.floor(Math.log10(least)), step = tens * [1, 2, 5, 10].find((one) => one * tens >= least), style = getComputedStyle(map);
  pen.font = "12px system-ui";
  pen.textAlign = "right";
  pen.fillStyle = style.getPropertyValue("--from");
  for (let row = Math.ceil(seen.upper / step) * step; row <= seen.lower; row += step) pen.fillText(`from ${row}`, Math.max(map.margin, map.px(0)) - 6, map.py(row) + 4);
  pen.textAlign = "center";
  pen.fillStyle = style.getPropertyValue("--at");
  for (let key = Math.ceil(seen.left / step) * step; key <= seen.right; key += step) pen.fillText(`at ${key}`, map.px(key), Math.max(map.above, map.py(0)) - 8);
}
