// A matrix as a table: colours, numbers, and moving through its cells by keyboard.

import { paint } from "./colours.js";
import { columnHead, make, rowHead } from "./dom.js";
import { announce } from "./state.js";
import { formatNumber, wordAt } from "./token_text.js";

const MOVES = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

const label = (texts, i) => wordAt(texts.map(String), i);

// `onOpen(i, j)` is called for the cell that is chosen; `extraClass(i, j)` adds a class to a cell.
export function matrixTable(panel, onOpen, { extraClass = () => "" } = {}) {
  const select = (i, j) => {
    table.querySelectorAll(".selected").forEach((cell) => cell.classList.remove("selected"));
    table.querySelector(`[data-at="${i},${j}"]`).classList.add("selected");
    onOpen(i, j);
  };
  const cell = (value, i, j) => {
    const td = valueCell(panel, value, i, j, extraClass(i, j));
    td.addEventListener("click", () => select(i, j));
    td.addEventListener("keydown", (event) => {
      if (event.key in MOVES) moveFocus(event, panel, table, i + MOVES[event.key][0], j + MOVES[event.key][1]);
      else if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        select(i, j);
      }
    });
    return td;
  };
  const heads = [columnHead(panel.down || "row"), ...panel.columns.map((_, j) => columnHead(label(panel.columns, j)))];
  const line = (row, i) => make("tr", {}, rowHead(label(panel.rows, i)), row.map((value, j) => cell(value, i, j)));
  const table = make(
    "table",
    {},
    make("thead", {}, make("tr", {}, heads)),
    make("tbody", {}, panel.values.map(line)),
  );
  return table;
}

function valueCell(panel, value, i, j, extra) {
  const finite = typeof value === "number" && Number.isFinite(value);
  const attributes = { class: `cell ${extra}`, tabindex: i === 0 && j === 0 ? 0 : -1, "data-at": `${i},${j}` };
  const td = make("td", attributes, finite ? formatNumber(value, panel.digits ?? 4) : "masked");
  const { low = 0, high = 1, colours } = panel.heat ?? {};
  if (finite) paint(td, value, low, high, colours === "diverging" ? "difference" : "weights");
  return td;
}

function moveFocus(event, panel, table, i, j) {
  event.preventDefault();
  const next = table.querySelector(`[data-at="${i},${j}"]`);
  if (!next) return;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  announce(`row ${label(panel.rows, i)}, column ${label(panel.columns, j)}, ${next.textContent}`);
}
