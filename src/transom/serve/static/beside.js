// What came out of two runs: the texts, and for each row what was written and how sure of it the model was.

import { bar } from "./ask.js";
import { get } from "./api.js";
import { state } from "./state.js";
import { make, number, shown } from "./words.js";

export class Beside {
  constructor() {
    this.place = make("section", { class: "card", "aria-label": "What came out of both", hidden: true });
    this.note = make("p", { class: "note", role: "status" });
  }

  tell(words) { this.note.textContent = words; }

  async show(other) {
    this.place.hidden = !other;
    this.attentions = null;
    if (!other) return;
    const { run } = state.now;
    this.attentions = (await get(`/api/runs/${other}`)).attentions;
    const found = await get(`/api/runs/${run}/beside`, { other });
    const head = (scope, words, span = 1) => make("th", { scope, colspan: span > 1 ? span : null }, words);
    this.place.replaceChildren(make("h2", {}, "What came out of both"), this.note,
      make("div", { class: "two" }, ...found.runs.map((one, i) => make("div", {}, make("p", { class: "hint" }, `${i ? "The other" : "This"} run, ${one.run}: ${one.text ?? "a trace"}`), make("p", { class: "written" }, one.output ?? "–")))),
      found.rows.length ? make("div", { class: "scroll" }, make("table", {},
        make("thead", {}, make("tr", {}, head("col", "row"), head("colgroup", `run ${found.runs[0].run}: reads, writes`, 3), head("colgroup", `run ${found.runs[1].run}: reads, writes`, 3), head("col", "apart (nats)"))),
        make("tbody", {}, found.rows.map((row) => make("tr", { class: differ(...row.sides) ? "differs" : null }, make("th", { scope: "row" }, String(row.row)), ...side(row.sides[0], ""), ...side(row.sides[1], "after"), make("td", {}, row.kl === null ? "–" : number(row.kl, 3))))))) : null,
      found.rows.length ? make("p", { class: "hint" }, "Marked: rows where the two write something else. Apart: KL divergence of what could come next, 0 where both runs expect the same.") : null);
  }
}

const differ = (one, other) => one?.writes !== other?.writes;

function side(one, kind) {
  if (!one) return [make("td", { class: "word" }, "–"), make("td", { class: "word" }, "–"), make("td", {}, "–")];
  return [make("td", { class: "word" }, shown(one.reads)), make("td", { class: "word" }, `→ ${shown(one.writes)}`), bar(one.probability, kind)];
}
