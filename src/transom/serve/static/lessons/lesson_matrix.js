// A matrix of a lesson under its name: learned ones have a frame of their own; a cell opens its arithmetic.

import { make } from "../dom.js";
import { matrixTable } from "../matrix_table.js";

export function lessonMatrix(panel, onOpen, extraClass = () => "") {
  const isLearned = panel.about.startsWith("learned");
  const about = panel.about + (panel.note ? `; ${panel.note}` : "");
  const corner = panel.down ? "from ↓ at →" : "row";
  const table = matrixTable({ ...panel, down: corner }, onOpen ?? (() => {}), { extraClass });
  const caption = make("figcaption", {}, make("strong", {}, panel.name), ` ${about}`);
  const scroll = { class: "scroll", tabindex: 0, role: "group", "aria-label": panel.name };
  return make(
    "figure",
    { class: isLearned ? "lesson-matrix learned" : "lesson-matrix" },
    caption,
    make("div", scroll, table),
  );
}
