// A list of places on a map to go to: the strongest arrows, or where a token is found.

import { get } from "./api.js";
import { button, make } from "./dom.js";
import { announce, keyTokens, state, withErrors } from "./state.js";
import { displayToken, formatNumber } from "./token_text.js";

const STRONGEST = 30;
const MOST_FOUND = 100;

export class MapSearch {
  // `onGo(row, key)` is called for the place that is chosen.
  constructor(onGo) {
    this.onGo = onGo;
    this.input = make("input", { id: "find", size: 12, placeholder: "a token", oninput: () => this.search() });
    this.title = make("h2", {}, "Strongest arrows");
    this.places = make("ul", { class: "list", "aria-label": "Places" });
    this.element = make("div", {}, make("label", { for: "find" }, "Find "), this.input, this.title, this.places);
    this.withFirstToken = true;
  }

  async showStrongest() {
    const { run, attention, head } = state.now;
    const fields = { head, count: STRONGEST, sink: this.withFirstToken };
    const found = await withErrors(() => get(`/api/runs/${run}/${attention}/strongest`, fields));
    const label = (edge) => {
      const places = `${displayToken(edge.from)} (${edge.query}) → ${displayToken(edge.at)} (${edge.key})`;
      return `${places}  ${formatNumber(edge.weight, 3)}${edge.only ? ", its only key" : ""}`;
    };
    if (found) this.list(found.edges.map((edge) => [edge.query, edge.key, label(edge)]));
  }

  search() {
    const text = this.input.value.trim().toLowerCase();
    if (!text) {
      this.showStrongest();
      return;
    }
    const tokens = [...keyTokens().entries()].filter(([, token]) => token.toLowerCase().includes(text));
    this.list(tokens.slice(0, MOST_FOUND).map(([key, token]) => [key, key, `column ${key}: ${displayToken(token)}`]));
    announce(`${tokens.length} places`);
  }

  list(places) {
    this.title.textContent = this.input.value.trim() ? "Places found" : "Strongest arrows";
    const item = ([row, key, label]) => make("li", {}, button(label, () => this.onGo(row, key)));
    this.places.replaceChildren(...places.map(item));
  }
}
