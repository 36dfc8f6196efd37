// Does this arrow matter? Its numbers, and the model run again without it, or without the whole head.

import { get, post } from "./api.js";
import { attempt, attention, nextWord, open, say, state } from "./state.js";
import { taken } from "./taken.js";
import { make, named, number, percent, shown } from "./words.js";

export class Asked {
  constructor() {
    this.place = make("section", { class: "card", "aria-label": "Does it matter?" });
    this.off = state.on(["row", "key", "head", "attention"], () => this.show());
    this.show();
  }

  close() { this.off(); }

  async show() {
    const { run, attention: index, head, row, key } = state.now, one = attention();
    const running = Boolean(open.run?.model) && !taken;
    if (!running && !taken) { this.place.replaceChildren(make("p", { class: "hint" }, "This run is a trace: its arrows can be seen, but nothing can be run again without them.")); return; }
    const off = running ? make("button", { onclick: () => this.knock([{ layer: one.name, head }], `all of head ${head}`) }, `Switch off head ${head}`) : null;
    if (row === null || key === null) { this.result = null; this.place.replaceChildren(make("h2", {}, "Does it matter?"), make("p", { class: "hint" }, running ? "Choose an arrow to take it out alone, or:" : "Choose an arrow to read its numbers."), off ?? ""); return; }
    const found = await attempt(() => get(`/api/runs/${run}/${index}/weights`, { head, first_row: row, first_key: key, rows: 1, keys: 1 }));
    if (!found || state.now.row !== row || state.now.key !== key) return;
    const [from, at] = [named(found.rows[0], nextWord(row)), shown(found.keys[0])];
    const how = make("select", { "aria-label": "How to take it out" }, make("option", { value: "before" }, "before the softmax: others take over"), make("option", { value: "after" }, "after it: the weight is lost"));
    this.place.replaceChildren(make("h2", {}, `Does “${from}” → “${at}” matter?`),
      make("p", {}, make("dfn", { "data-word": "score" }, "score"), ` ${number(found.scores[0][0])} · `, make("dfn", { "data-word": "weight" }, "weight"), ` ${number(found.weights[0][0])}`),
      running ? make("div", { class: "row" }, make("button", { class: "main", onclick: () => this.knock([{ layer: one.name, head, query: row, key }], `“${from}” → “${at}”`, how.value) }, "Knock it out"), how, off) : "");
    if (!running && !toldAlong(index, head)) return;
    const told = await attempt(() => get(`/api/runs/${run}/${index}/effects`, { head, query: row }));
    if (told && state.now.row === row && state.now.key === key) this.place.append(this.beside(told, key));
  }

  // The row's strongest arrows side by side: what each read, moved, and was for.
  beside(told, key) {
    const cells = (row) => [row.weight, row.norm, row.contribution, row.kl ?? Math.abs(row.change)].map((value) => make("td", {}, value === null ? "–" : number(value, 3)));
    const heads = [["weight", "weight"], ["norm", "norm"], ["share", "norm"], [told.rows[0]?.kl === null ? "effect on the whole text (nats)" : "effect (nats)", "knock-out"]];
    return make("details", {}, make("summary", {}, `The strongest arrows from “${named(told.from, nextWord(state.now.row))}”, and what each was for`), make("div", { class: "scroll" }, make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "looks at"), ...heads.map(([title, word]) => make("th", { scope: "col" }, make("dfn", { "data-word": word }, title))), make("th", { scope: "col" }, ""))),
      make("tbody", {}, told.rows.map((row) => make("tr", {}, make("th", { scope: "row" }, (row.key === key ? "▸ " : "") + shown(row.at)), ...cells(row), make("td", { class: "word" }, row.flag)))))),
      ...told.notes.map((note) => make("p", { class: "hint" }, note)));
  }

  async knock(edges, what, how = "before") {
    const { run, row } = state.now;
    const found = await attempt(() => post(`/api/runs/${run}/knock_out`, { edges, how }));
    if (!found) return;
    const most = found.rows.reduce((best, one) => (one.kl > best.kl ? one : best), found.rows[0] ?? null);
    const shownRow = found.rows.length ? (row !== null && found.rows[row].kl > 0 ? found.rows[row] : most) : null;
    this.place.querySelector(".result")?.remove();
    this.place.append(make("div", { class: "result" }, make("h2", {}, `Without ${what}`), ...this.told(found, shownRow)));
    say(shownRow ? this.sentence(shownRow) : `the output moved by ${number(found.change)}`);
  }

  told(found, row) {
    if (!row) return [make("p", {}, `The output moved by ${number(found.change)}.`)];
    const after = shown((open.run.targets.length ? open.run.targets : open.run.tokens)[row.row]);
    const lines = row.words.map((word) => make("tr", {}, make("th", { scope: "row" }, shown(word.token)), bar(word.before, ""), bar(word.after, "after")));
    return [
      make("p", {}, this.sentence(row)),
      make("div", { class: "scroll" }, make("table", {}, make("caption", { class: "hint" }, `What was expected after “${after}”`),
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "token"), make("th", { scope: "col", class: "bars" }, "with it"), make("th", { scope: "col", class: "bars" }, "without"))), make("tbody", {}, lines))),
      make("p", { class: "hint" }, `All rows together moved by ${number(found.change)} nats (KL divergence).`),
    ];
  }

  sentence(row) {
    const first = row.words[0];
    const change = first.after - first.before;
    const judged = Math.abs(change) < 0.01 ? "hardly changes" : change < 0 ? "falls" : "rises";
    return `The chance of “${shown(first.token)}” ${judged}: ${percent(first.before)} with it, ${percent(first.after)} without.`;
  }
}

// Whether effects were worked out before the page was taken away.
const toldAlong = (index, head) => open.studio.taken.effects && index === open.studio.taken.attention && head === open.studio.taken.head;

// A share as a bar: all bars of a column begin at one place, and the numbers stand in a column of their own.
export function bar(share, kind) {
  const drawn = make("span", { class: `bar ${kind}`, "aria-hidden": "true" });
  drawn.style.width = `${(100 * share).toFixed(2)}%`;
  return make("td", { class: "bars" }, make("span", { class: "share" }, percent(share)), make("span", { class: "track" }, drawn));
}
