// What came out of two runs: the texts, and for each row what was predicted and how sure of it the model was.

import { get } from "./api.js";
import { columnHead, hint, make, rowHead, scrollTable } from "./dom.js";
import { probabilityBar } from "./probability_bar.js";
import { state } from "./state.js";
import { displayToken, formatNumber } from "./token_text.js";

const NONE = "–";

export class RunComparison {
  constructor() {
    this.element = make("section", { class: "card", "aria-label": "What came out of both", hidden: true });
    this.note = make("p", { class: "note", role: "status" });
  }

  // Whether the other run's map can be subtracted from one of this run; a note says why not.
  fitsOver(attention, [rows, keys], isByWeight) {
    const theirs = this.attentions?.[attention];
    const isSameSize = !this.attentions || (theirs?.queries === rows && theirs?.keys === keys);
    const sizes = `this one has ${rows} × ${keys} tokens and the other ${theirs?.queries} × ${theirs?.keys}`;
    const tooDifferent = `The maps cannot be laid over each other, as ${sizes}: above is this run's own.`;
    const byWeight = "Maps are compared by their weights: above is what mattered in this run.";
    this.showNote(!isSameSize ? tooDifferent : this.attentions && !isByWeight ? byWeight : "");
    return isSameSize && isByWeight;
  }

  showNote(text) {
    this.note.textContent = text;
  }

  // Compare with the run of that number, or with none.
  async show(other) {
    this.element.hidden = !other;
    this.attentions = null;
    if (!other) return;
    const { run } = state.now;
    this.attentions = (await get(`/api/runs/${other}`)).attentions;
    const found = await get(`/api/runs/${run}/beside`, { other });
    const outputs = make("div", { class: "two-columns" }, found.runs.map(outputOf));
    const rows = found.rows.length ? rowTable(found) : [];
    this.element.replaceChildren(make("h2", {}, "What came out of both"), this.note, outputs, ...rows);
  }
}

function outputOf(run, i) {
  const title = hint(`${i ? "The other" : "This"} run, ${run.run}: ${run.text ?? "a trace"}`);
  return make("div", {}, title, make("p", { class: "output" }, run.output ?? NONE));
}

function rowTable(found) {
  const runHead = (one) => columnHead(`run ${one.run}: reads, writes`, { scope: "colgroup", colspan: 3 });
  const heads = [columnHead("row"), ...found.runs.map(runHead), columnHead("how far apart")];
  const explanation =
    "Marked: rows where the two runs predict different tokens. How far apart: the KL divergence in nats, 0 where both" +
    " runs expect the same, 0.7 where what one expects has half the probability in the other, on average.";
  return [scrollTable(heads, found.rows.map(rowLine)), hint(explanation)];
}

function rowLine({ row, sides: [one, other], kl }) {
  const changed = one?.writes !== other?.writes;
  const distance = make("td", {}, kl === null ? NONE : formatNumber(kl, 3));
  return make(
    "tr",
    { class: changed ? "changed" : null },
    rowHead(String(row)),
    side(one, ""),
    side(other, "after"),
    distance,
  );
}

function side(one, barClass) {
  const cell = (text) => make("td", { class: "word" }, text);
  if (!one) return [cell(NONE), cell(NONE), make("td", {}, NONE)];
  return [
    cell(displayToken(one.reads)),
    cell(`→ ${displayToken(one.writes)}`),
    probabilityBar(one.probability, barClass),
  ];
}
