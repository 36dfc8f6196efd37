// <transom-walk>: attention a step at a time, every number in view, the arithmetic of any cell, scores to edit by hand.

import { get } from "./api.js";
import { grid } from "./grid.js";
import { attempt, calm, say, state } from "./state.js";
import { make, shown } from "./words.js";

const ROW_PAUSE = 700;

class Walk extends HTMLElement {
  connectedCallback() {
    this.off = state.on(["attention", "head", "opened"], () => this.load());
    this.offStep = state.on(["step"], () => this.show());
    this.edits = new Map();
    this.load();
  }

  disconnectedCallback() { this.off(); this.offStep(); this.stop(); }

  async load() {
    const { run, attention: index, head } = state.now;
    this.edits.clear();
    await attempt(async () => {
      this.picture = await get(`/api/runs/${run}/${index}/picture/steps`, { head });
      this.panels = this.picture.panels.filter((panel) => panel.type === "grid");
      this.show();
    });
  }

  get step() { return Math.min(state.now.step ?? 0, this.panels.length - 1); }

  show() {
    if (!this.panels?.length || !this.isConnected) return;
    const panel = this.computed(this.panels[this.step]);
    this.sum = make("p", { class: "sum", "aria-live": "polite" }, make("span", { class: "hint" }, "Choose a cell to see its arithmetic."));
    const moves = make("div", { class: "row" },
      make("button", { onclick: () => this.go(-1), disabled: this.step === 0 }, "← Back"),
      make("button", { class: "main", onclick: () => this.go(1), disabled: this.step === this.panels.length - 1 }, "Next →"),
      make("button", { "aria-pressed": Boolean(this.timer), onclick: () => (this.timer ? this.stop() : this.play()) }, this.timer ? "Pause" : "Play"),
      make("span", { class: "hint" }, `step ${this.step + 1} of ${this.panels.length}`),
      this.edits.size ? make("button", { onclick: () => { this.edits.clear(); this.show(); } }, "Undo my changes") : null);
    this.grid = grid(panel, (i, j) => this.open(panel, i, j), (i, j) => (panel.edits && this.edits.has(`${i},${j}`) ? "edited" : ""));
    this.replaceChildren(make("div", { class: "card" }, moves, make("h2", {}, panel.title), panel.equation ? make("p", { class: "sum" }, panel.equation) : null,
      this.edits.size ? make("p", { class: "note" }, /^(joined|output)/.test(panel.title) ? "As the model had it: your changes are followed up to the weighted sum." : "With the scores that you changed; the model's own come back with Undo.") : null,
      make("div", { class: "scroll" }, this.grid), this.sum, ...this.picture.notes.map((note) => make("p", { class: "hint" }, note)), make("p", { class: "hint" }, `receipt ${this.picture.source?.receipt ?? ""}: the weights make the very output that the model used`)));
  }

  // The arithmetic of a cell; in the scores, a field to change it.
  open(panel, i, j) {
    const place = `row ${shown(String(panel.rows[i]))}, column ${shown(String(panel.columns[j]))}: `;
    this.sum.replaceChildren(make("strong", {}, place), panel.opens?.[i]?.[j] ?? "");
    if (panel.edits && Number.isFinite(panel.values[i][j])) {
      const field = make("input", { type: "number", step: "0.1", value: panel.values[i][j].toFixed(4), "aria-label": `score of ${place}` });
      field.addEventListener("change", () => { this.edits.set(`${i},${j}`, Number(field.value)); this.show(); say("the weights and the sum follow in the next steps"); });
      this.sum.append(" ", make("label", {}, "try another score: ", field));
    }
    state.set({ row: i });
  }

  // A panel as it would be with the scores that were changed: softmax and weighted sum worked out again.
  computed(panel) {
    const is = (word) => panel.title.toLowerCase().startsWith(word);
    const scaled = this.panels.findLast((one) => /^(masked|scaled)/i.test(one.title)), V = this.panels.find((one) => /^V\b/.test(one.title));
    if (panel === scaled) return { ...panel, edits: true, values: panel.values.map((row, i) => row.map((value, j) => this.edits.get(`${i},${j}`) ?? value)) };
    if (!this.edits.size || !scaled) return panel;
    const weights = this.computed(scaled).values.map(softmax);
    const changed = (i) => [...this.edits.keys()].some((at) => at.startsWith(`${i},`));
    if (is("weights")) return { ...panel, values: panel.values.map((row, i) => (changed(i) ? weights[i] : row)), opens: null };
    if (V && /sum/i.test(panel.title) && weights[0].length === V.values.length) return { ...panel, values: panel.values.map((row, i) => (changed(i) ? row.map((_, d) => weights[i].reduce((sum, weight, j) => sum + weight * V.values[j][d], 0)) : row)), opens: null };
    return panel;
  }

  go(step) { state.set({ step: Math.max(0, Math.min(this.panels.length - 1, this.step + step)) }); say(this.panels[this.step].title); }

  // Step after step, row after row: who looks, gathers, updates.
  play() {
    let row = 0;
    const tick = () => {
      const rows = [...this.grid.querySelectorAll("tbody tr")];
      if (!calm()) rows.forEach((one, i) => one.querySelectorAll("td").forEach((td) => td.classList.toggle("lit", i === row)));
      row += 1;
      if (row > rows.length || calm()) {
        row = 0;
        if (this.step === this.panels.length - 1) { this.stop(); return; }
        this.go(1);
      }
      this.timer = setTimeout(tick, calm() ? 3 * ROW_PAUSE : ROW_PAUSE);
    };
    this.timer = setTimeout(tick, 0);
    this.show();
  }

  stop() { clearTimeout(this.timer); this.timer = null; if (this.isConnected) this.show(); }
}

function softmax(scores) {
  const real = scores.map((score) => (Number.isFinite(score) ? score : -Infinity)), most = Math.max(...real), powers = real.map((score) => Math.exp(score - most));
  const total = powers.reduce((sum, one) => sum + one, 0);
  return powers.map((one) => (total ? one / total : 0));
}

customElements.define("transom-walk", Walk);
