// <transom-steps>: attention a step at a time: every number, the arithmetic of any cell, scores to edit by hand.

import { get } from "./api.js";
import { button, card, hint, make, row as rowOf } from "./dom.js";
import { followEdits } from "./edited_scores.js";
import { matrixTable } from "./matrix_table.js";
import { announce, chosenRow, prefersReducedMotion, rowTokens, state, withErrors } from "./state.js";
import { wordAt } from "./token_text.js";

const ROW_PAUSE = 700; // milliseconds
const PROOF = "✓ checked: these weights give what the model computed, to rounding";

class StepsView extends HTMLElement {
  connectedCallback() {
    const stopLoading = state.on(["attention", "head", "opened"], () => this.load());
    const stopShowing = state.on(["step"], () => this.show());
    const stopMarking = state.on(["row", "token"], () => this.markChosen());
    this.stopListening = () => [stopLoading, stopShowing, stopMarking].forEach((stop) => stop());
    this.edits = new Map();
    this.load();
  }

  disconnectedCallback() {
    this.stopListening();
    this.pause();
  }

  async load() {
    const { run, attention, head } = state.now;
    this.edits.clear();
    this.panels = null;
    this.replaceChildren(make("p", { class: "hint", role: "status" }, "Computing every step …"));
    await withErrors(async () => {
      this.picture = await get(`/api/runs/${run}/${attention}/picture/steps`, { head });
      this.panels = this.picture.panels.filter((panel) => panel.type === "grid");
      this.show();
    });
    if (!this.panels) this.replaceChildren(); // an error says why
  }

  get step() {
    return Math.min(state.now.step ?? 0, this.panels.length - 1);
  }

  show() {
    if (!this.panels?.length || !this.isConnected) return;
    const panel = followEdits(this.panels[this.step], this.panels, this.edits);
    const isEdited = (i, j) => panel.editable && this.edits.has(`${i},${j}`);
    const change = panel.editable ? " Here you can change it, too: the weights and the sum follow." : "";
    const prompt = make("span", { class: "hint" }, `Choose a cell to see its arithmetic.${change}`);
    this.arithmetic = make("p", { class: "arithmetic", "aria-live": "polite" }, prompt);
    const extraClass = (i, j) => (isEdited(i, j) ? "edited" : "");
    this.table = matrixTable(panel, (i, j) => this.openCell(panel, i, j), { extraClass });
    const receipt = hint(PROOF);
    receipt.title = `receipt ${this.picture.source?.receipt ?? ""}`;
    this.replaceChildren(card(
      this.moves(),
      make("h2", {}, titleOf(panel)),
      panel.equation ? make("p", { class: "arithmetic" }, panel.equation) : null,
      this.edits.size ? make("p", { class: "note" }, editNote(panel)) : null,
      make("div", { class: "scroll" }, this.table),
      this.arithmetic,
      ...joinNotes(this.picture.notes).map((note) => hint(note)),
      hint("Heads, layers and tokens are counted from 0, the numbers of a vector from 1."),
      receipt,
    ));
    this.markChosen();
  }

  // The token that is chosen in all views.
  markChosen() {
    const row = this.panels?.length && isOfRows(this.panels[this.step]) ? chosenRow() : null;
    this.table?.querySelectorAll("tbody tr").forEach((one, i) => one.classList.toggle("chosen", i === row));
  }

  moves() {
    const undo = () => {
      this.edits.clear();
      this.show();
    };
    const isPlaying = Boolean(this.timer);
    const toggle = () => (this.timer ? this.pause() : this.play());
    return rowOf(
      button("← Back", () => this.go(-1), { disabled: this.step === 0 }),
      button("Next →", () => this.go(1), { class: "main", disabled: this.step === this.panels.length - 1 }),
      button(isPlaying ? "Pause" : "Play", toggle, { "aria-pressed": isPlaying }),
      make("span", { class: "hint" }, `step ${this.step + 1} of ${this.panels.length}`),
      this.edits.size ? button("Undo my changes", undo) : null,
    );
  }

  // The arithmetic of a cell; in the scores, a field to change it.
  openCell(panel, i, j) {
    const label = (texts, at) => wordAt(texts.map(String), at);
    const place = `row ${label(panel.rows, i)}, column ${label(panel.columns, j)}: `;
    this.arithmetic.replaceChildren(make("strong", {}, place), panel.opens?.[i]?.[j] ?? "");
    if (panel.editable && Number.isFinite(panel.values[i][j])) {
      const field = this.scoreField(panel.values[i][j], `${i},${j}`, `score of ${place}`);
      this.arithmetic.append(" ", make("label", {}, "try another score: ", field));
    }
    if (isOfRows(panel)) state.set({ row: i });
  }

  scoreField(score, cell, label) {
    const onchange = (event) => {
      this.edits.set(cell, Number(event.target.value));
      this.show();
      announce("the weights and the sum follow in the next steps");
    };
    return make("input", { type: "number", step: "0.1", value: score.toFixed(4), "aria-label": label, onchange });
  }

  go(by) {
    state.set({ step: Math.max(0, Math.min(this.panels.length - 1, this.step + by)) });
    announce(this.panels[this.step].title);
  }

  // Step after step, row after row.
  play() {
    let row = 0;
    const tick = () => {
      const rows = [...this.table.querySelectorAll("tbody tr")];
      const isCalm = prefersReducedMotion();
      if (!isCalm) markRow(rows, row);
      row += 1;
      if (row > rows.length || isCalm) {
        row = 0;
        if (this.step === this.panels.length - 1) {
          this.pause();
          return;
        }
        this.go(1);
      }
      this.timer = setTimeout(tick, isCalm ? 3 * ROW_PAUSE : ROW_PAUSE);
    };
    this.timer = setTimeout(tick, 0);
    this.show();
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.isConnected) this.show();
  }
}

// Whether the rows of a step are those tokens that look, not those that are looked at.
const isOfRows = ({ rows }) => String(rows) === String(rowTokens().slice(0, rows.length));

// What enters an attention is an embedding only before the first block.
const titleOf = ({ title }) => title.replace(/^embedding/i, "X, what enters this attention");

// What is said of several vectors in the same words, said once.
function joinNotes(notes) {
  const cut = notes.map((note) => note.match(/^Of (\d+) numbers of each vector, the first (\d+) are drawn\.$/));
  const found = cut.filter((one) => one);
  if (found.length < 2) return notes;
  const sizes = found.map((one) => one[1]).join(" or ");
  return [...notes.filter((_, i) => !cut[i]), `Of a vector of ${sizes} numbers, the first ${found[0][2]} are drawn.`];
}

function markRow(rows, row) {
  rows.forEach((one, i) => one.querySelectorAll("td").forEach((cell) => cell.classList.toggle("selected", i === row)));
}

function editNote(panel) {
  if (/^(joined|output)/.test(panel.title)) return "The model's own: your changes are followed up to the weighted sum.";
  return "With the scores that you changed; Undo brings back the model's own.";
}

customElements.define("transom-steps", StepsView);
