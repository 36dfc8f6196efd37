// Rows, words and arrows as they are read aloud.

import { formatEstimate } from "./by_switch.js";
import { changeText } from "./explained.js";
import { displayToken, formatNumber, rowName } from "./token_text.js";

export class ArrowWords {
  // `next` are the tokens that come after the rows.
  constructor(data, next) {
    Object.assign(this, { data, next });
  }

  row(row) {
    return rowName(this.data.rows[row], this.next[row]);
  }

  // What the width of an arrow shows.
  size(row, key) {
    const { influence, weights } = this.data;
    if (influence?.explained) return changeText(influence.estimates[row][key], influence.explained);
    return influence ? formatEstimate(influence.estimates[row][key]) : formatNumber(weights[row][key], 2);
  }

  // Masked edges have a weight of 0.
  edge(row, key) {
    return `row ${this.row(row)}, column ${displayToken(this.data.keys[key])}, ${this.size(row, key)}`;
  }

  // A word below, or one above: its arrow from the chosen row, if there is one.
  word(side, index, row) {
    if (side === "from") return `${this.row(index)}, looks`;
    return row !== null ? this.edge(row, index) : `${displayToken(this.data.keys[index])}, looked at`;
  }
}
