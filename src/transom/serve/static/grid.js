// A matrix as a table: colours, numbers, and moving through its cells by keyboard.

import { cell as coloured } from "./colours.js";
import { say } from "./state.js";
import { make, number, shown } from "./words.js";

// `opened(i, j)` is called for the cell that is chosen; `marked(i, j)` adds a class.
export function grid(panel, opened, marked = () => "") {
  const low = panel.heat?.low ?? 0, high = panel.heat?.high ?? 1, diverging = panel.heat?.colours === "diverging";
  const table = make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, panel.down || ""), ...panel.columns.map((column) => make("th", { scope: "col" }, shown(String(column)))))),
    make("tbody", {}, panel.values.map((row, i) => make("tr", {}, make("th", { scope: "row" }, shown(String(panel.rows[i]))), ...row.map((value, j) => one(value, i, j))))));

  function one(value, i, j) {
    const real = typeof value === "number" && Number.isFinite(value);
    const td = make("td", { class: `cell ${marked(i, j)}`, tabindex: i === 0 && j === 0 ? 0 : -1, "data-at": `${i},${j}` }, real ? number(value, panel.digits ?? 4) : "masked");
    if (real) { const { background, ink } = coloured((value - low) / (high - low || 1), diverging); td.style.background = background; td.style.color = ink; }
    td.addEventListener("click", () => choose(i, j));
    td.addEventListener("keydown", (event) => pressed(event, i, j));
    return td;
  }

  function choose(i, j) {
    table.querySelectorAll(".lit").forEach((cell) => cell.classList.remove("lit"));
    table.querySelector(`[data-at="${i},${j}"]`).classList.add("lit");
    opened(i, j);
  }

  function pressed(event, i, j) {
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (move) {
      event.preventDefault();
      const next = table.querySelector(`[data-at="${i + move[0]},${j + move[1]}"]`);
      if (!next) return;
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      say(`row ${shown(String(panel.rows[i + move[0]]))}, column ${shown(String(panel.columns[j + move[1]]))}, ${next.textContent}`);
    } else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(i, j); }
  }

  return table;
}
