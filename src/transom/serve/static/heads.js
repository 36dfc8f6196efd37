// <transom-heads>: every head with its measures, to sort, filter and open.

import { get, stream } from "./api.js";
import { cell } from "./colours.js";
import { attempt, open, state } from "./state.js";
import { make, number, path } from "./words.js";

const LONG = 2 ** 25; // weights of a run beyond which measuring takes long enough to tell how far it is

class Heads extends HTMLElement {
  connectedCallback() {
    this.off = state.on(["opened"], () => this.load());
    this.offMeasure = state.on(["measure"], () => this.show());
    this.load();
  }

  disconnectedCallback() { this.off(); this.offMeasure(); this.leaving?.abort(); }

  async load() {
    this.leaving?.abort();
    this.leaving = new AbortController();
    this.replaceChildren(make("p", { class: "hint", role: "status" }, "Every head is being measured …"));
    const found = await attempt(() => this.measured(`/api/runs/${state.now.run}`, this.leaving.signal));
    if (found) { [this.rows, this.measures] = [found.heads, found.measures]; this.show(); }
  }

  async measured(run, signal) {
    const weights = open.run.attentions.reduce((sum, one) => sum + one.heads * one.queries * one.keys, 0);
    if (weights > LONG && !open.studio.taken) {
      const waiting = make("progress", { max: 1, value: 0, "aria-label": "measuring every head" });
      this.append(waiting);
      await stream(`${run}/measuring`, {}, (said) => { waiting.value = said.share; }, signal);
    }
    return get(`${run}/heads`, {}, signal);
  }

  show() {
    if (!this.rows || !this.isConnected) return;
    const names = Object.keys(this.measures).filter((name) => this.rows.some((row) => row[name] !== null && row[name] !== undefined));
    const chosen = names.includes(state.now.measure) ? state.now.measure : names[0];
    const sorted = [...this.rows].filter((row) => !this.only || row.layer.includes(this.only)).sort((one, other) => (other[chosen] ?? -Infinity) - (one[chosen] ?? -Infinity));
    const filter = make("input", { id: "only", value: this.only ?? "", placeholder: "encoder, 2, cross …", onchange: (event) => { this.only = event.target.value; this.show(); } });
    this.replaceChildren(make("div", { class: "card" }, make("h2", {}, `All heads at a glance: ${this.measures[chosen].spoken}`), make("p", { class: "hint" }, `${this.measures[chosen].meaning}. The darker, the more; click a head to see its arrows.`), this.glance(chosen), make("div", { class: "row" }, make("label", { for: "only" }, "Only layers with"), filter),
      make("p", { class: "hint" }, "A dash: this cannot be said of this head (no token came twice, or it looks at another text)."),
      make("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "All heads" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "layer"), make("th", { scope: "col" }, "head"),
        ...names.map((name) => make("th", { scope: "col", "aria-sort": name === chosen ? "descending" : "none", title: this.measures[name].meaning }, make("button", { onclick: () => state.set({ measure: name }) }, this.measures[name].spoken + (name === chosen ? " ↓" : "")))))),
      make("tbody", {}, sorted.map((row) => make("tr", {}, make("th", { scope: "row" }, path(row.layer)), make("td", {}, make("button", { "aria-label": `open ${row.layer}, head ${row.head}`, onclick: () => this.open(row) }, String(row.head))),
        ...names.map((name) => make("td", {}, row[name] === null || row[name] === undefined ? "–" : number(row[name], 3))))))))));
  }

  glance(measure) {
    const layers = Object.groupBy(this.rows, (row) => row.layer), values = this.rows.map((row) => row[measure]).filter((value) => value !== null && value !== undefined);
    const [low, high] = [Math.min(...values), Math.max(...values)], widest = Math.max(...Object.values(layers).map((one) => one.length));
    const grid = make("div", { class: "head-grid" });
    grid.style.gridTemplateColumns = `minmax(4rem, max-content) repeat(${widest}, minmax(2.4rem, 4rem))`;
    grid.append(make("span"), ...Array.from({ length: widest }, (_, head) => make("span", { class: "number" }, make("span", { class: "wide" }, "head "), String(head))));
    for (const [layer, rows] of Object.entries(layers)) {
      grid.append(path(layer));
      for (let i = 0; i < widest; i += 1) grid.append(rows[i] ? this.one(rows[i], measure, low, high) : make("span"));
    }
    return make("div", { class: "scroll" }, grid);
  }

  one(row, measure, low, high) {
    const value = row[measure], button = make("button", { title: `${row.layer}, head ${row.head}`, "aria-label": `${row.layer}, head ${row.head}: ${value === null ? "not known" : number(value, 3)}`, onclick: () => this.open(row) }, value === null ? "–" : number(value, 2));
    if (value !== null) { const { background, ink } = cell((value - low) / (high - low || 1)); button.style.background = background; button.style.color = ink; }
    return button;
  }

  open(row) {
    const attention = open.run.attentions.findIndex((one) => one.name === row.layer);
    state.set({ attention, head: row.head, row: null, key: null, view: "see" });
  }
}

customElements.define("transom-heads", Heads);
