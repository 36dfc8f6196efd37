// A probability as a cell of a table: the bars of a column begin at one place, and the numbers stand in a column.

import { make } from "./dom.js";
import { formatPercent } from "./token_text.js";

export function probabilityBar(probability, extraClass) {
  const bar = make("span", { class: `bar ${extraClass}`, "aria-hidden": "true" });
  bar.style.width = `${(100 * probability).toFixed(2)}%`;
  const number = make("span", { class: "share" }, formatPercent(probability));
  return make("td", { class: "bars" }, number, make("span", { class: "track" }, bar));
}
