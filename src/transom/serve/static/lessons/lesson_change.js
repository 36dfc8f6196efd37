// One number of a lesson to change: the server computes the lesson again, and what follows is marked.

import { post } from "../api.js";
import { button, make, row } from "../dom.js";
import { announce, withErrors } from "../state.js";
import { lessonMatrix } from "./lesson_matrix.js";

const PAUSE = 250; // milliseconds after the last key

class NumberChange {
  constructor(change, request) {
    Object.assign(this, { change, request, asked: 0, given: change.before ?? "as given" });
    this.result = make("div", { class: "lesson-matrices" });
    this.status = make("p", { class: "hint", role: "status" });
    this.field = make("input", {
      type: "number",
      step: "any",
      value: change.before ?? "",
      placeholder: this.given,
      "aria-label": `A number for ${change.of}`,
      disabled: !request,
      oninput: () => this.typed(),
    });
    this.show(change.matrices_before, null);
  }

  build() {
    const { says, of, to } = this.change;
    const tools = row(
      make("label", {}, `${of} `, this.field),
      button(`Try ${to}`, () => this.tryIt(), { class: "main" }),
      button("As it was", () => this.goBack()),
    );
    const offline = make("p", { class: "hint" }, "Numbers of your own need the program: transom serve.");
    const text = make("p", {}, make("strong", {}, "Change one number: "), says);
    const parts = [text, tools, this.request ? null : offline, this.status, this.result];
    return make("section", { class: "lesson-change", "aria-label": "A number to change" }, parts);
  }

  tryIt() {
    this.field.value = this.change.to;
    this.show(this.change.matrices_after, this.change.to);
    announce(this.status.textContent);
  }

  goBack() {
    this.field.value = this.change.before ?? "";
    this.show(this.change.matrices_before, null);
  }

  typed() {
    clearTimeout(this.timer);
    if (this.field.value.trim()) this.timer = setTimeout(() => this.recompute(), PAUSE);
  }

  // The answer to an earlier number may come later; it is not shown.
  recompute() {
    return withErrors(async () => {
      this.asked += 1;
      const [asked, to] = [this.asked, this.field.value];
      const { matrices_after: after } = await post("/api/lessons/change", { ...this.request, to });
      if (asked === this.asked) this.show(after, to);
    });
  }

  show(panels, to) {
    const { matrices_before: before } = this.change;
    this.result.replaceChildren(...panels.map((panel, k) => changedMatrix(panel, before[k])));
    const moved = panels.reduce((sum, panel, k) => sum + countMoved(panel, before[k]), 0);
    const changes = `${moved} number${moved === 1 ? "" : "s"} here change${moved === 1 ? "s" : ""}.`;
    this.status.textContent = to === null ? "As the lesson has it." : `With ${to} instead of ${this.given}: ${changes}`;
  }
}

export const buildChange = (change, request) => new NumberChange(change, request).build();

const isSame = (a, b) => a === b || Math.abs(a - b) < 1e-12;

function countMoved(panel, before) {
  return panel.values.flatMap((values, i) => values.filter((value, j) => !isSame(value, before.values[i]?.[j]))).length;
}

// The matrix as it is now; a number that moved is marked, and says what it was.
function changedMatrix(panel, before) {
  const old = (i, j) => before.values[i]?.[j];
  const figure = lessonMatrix(panel, null, (i, j) => (isSame(panel.values[i][j], old(i, j)) ? "" : "moved"));
  for (const cell of figure.querySelectorAll("td.moved")) {
    const was = old(...cell.dataset.at.split(",").map(Number));
    cell.append(make("small", {}, ` was ${was === null || was === undefined ? "masked" : Number(was.toFixed(4))}`));
  }
  return figure;
}
