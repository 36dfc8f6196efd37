// A list of places on a map to go to: the strongest arrows, or where a token is found.

import { get } from "./api.js";
import { formatEstimate, unitText } from "./by_switch.js";
import { button, hint, make } from "./dom.js";
import { explainedText, formatChange, verbOf } from "./explained.js";
import { announce, keyTokens, state, withErrors } from "./state.js";
import { displayToken, formatNumber } from "./token_text.js";

const STRONGEST = 30;
const MOST_FOUND = 100;
const said = ({ unit, explained }) =>
  explained
    ? `By estimate: how far each changes the log-probability of ${explainedText(explained)}, in nats.`
    : `By estimate: how far the output moves without each, in ${unitText(unit)}. The map has weights.`;

export class MapSearch {
  // `onGo(row, key)` is called for the place that is chosen; `influence` says whether it is asked what mattered.
  constructor(onGo, influence) {
    Object.assign(this, { onGo, influence });
    this.input = make("input", { id: "find", size: 12, placeholder: "a token", oninput: () => this.search() });
    this.title = make("h2", {}, "Strongest arrows");
    this.said = hint();
    this.places = make("ul", { class: "list", "aria-label": "Places" });
    const label = make("label", { for: "find" }, "Find ");
    this.element = make("div", {}, label, this.input, this.title, this.said, this.places);
    this.withFirstToken = true;
  }

  async showStrongest() {
    const { run, attention, head } = state.now;
    const fields = { head, count: STRONGEST, sink: this.withFirstToken };
    const path = `/api/runs/${run}/${attention}/strongest`;
    const { by, token } = this.influence;
    const influence = await by.ask(path, { ...fields, by: state.now.by, token });
    const found = influence ?? await withErrors(() => get(path, fields));
    const label = (edge) => {
      const places = `${displayToken(edge.from)} (${edge.query}) → ${displayToken(edge.at)} (${edge.key})`;
      if (influence?.explained) return `${places}  ${formatChange(edge.estimate)} ${verbOf(edge.estimate)}`;
      if (influence) return `${places}  ${formatEstimate(edge.estimate)}`;
      return `${places}  ${formatNumber(edge.weight, 3)}${edge.only ? ", its only key" : ""}`;
    };
    this.said.textContent = influence ? said(influence) : "";
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
