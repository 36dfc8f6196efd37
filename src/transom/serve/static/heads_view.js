// <transom-heads>: every head with its measures, to sort, filter and open.

import { get, stream } from "./api.js";
import { paint } from "./colours.js";
import { attentionName } from "./attention_names.js";
import { BY_INFLUENCE, BySwitch, formatEstimate } from "./by_switch.js";
import { button, card, columnHead, hint, make, row as rowOf, rowHead } from "./dom.js";
import { agreementText, influenceMeasures, influenceOf, isInfluence, light } from "./head_influence.js";
import { session, state, withErrors } from "./state.js";
import { formatNumber } from "./token_text.js";

const MANY_WEIGHTS = 2 ** 25; // in a run: beyond them measuring takes so long that progress is shown

const REFINED = 6; // heads that are knocked out truly, beside their estimates

const indexOf = (layer) => session.run.attentions.findIndex((one) => one.name === layer);
const nameOf = (layer) => attentionName(indexOf(layer));
const layerName = ({ name, layer }) => make("span", { class: "layer-name", title: layer }, name);
const textOf = (name, value, digits) => (isInfluence(name) ? formatEstimate(value) : formatNumber(value, digits));
const isMissing = (value) => value === null || value === undefined;

class HeadsView extends HTMLElement {
  connectedCallback() {
    this.by = new BySwitch("What heads are ranked by", (by) => ({ measure: by === BY_INFLUENCE ? "estimate" : null }));
    const stopLoading = state.on(["opened", "by"], () => this.load());
    const stopShowing = state.on(["measure"], () => this.show());
    this.stopListening = () => [stopLoading, stopShowing].forEach((stop) => stop());
    this.load();
  }

  disconnectedCallback() {
    this.stopListening();
    this.loading?.abort();
  }

  async load() {
    this.loading?.abort();
    this.loading = new AbortController();
    const { signal } = this.loading;
    const hadFocus = this.by.group.contains(document.activeElement);
    this.heads = null;
    this.replaceChildren(make("p", { class: "hint", role: "status" }, "Measuring every head …"));
    const found = await withErrors(() => this.measure(`/api/runs/${state.now.run}`, signal));
    if (signal.aborted) return;
    if (!found) {
      this.replaceChildren(); // an error says why
      return;
    }
    this.by.show();
    const ranking = await this.by.ask(`/api/runs/${state.now.run}/ranking`, { refine: REFINED });
    if (signal.aborted) return;
    if (ranking && !ranking.unit) this.by.show("this model gives nothing whose change could be estimated");
    this.ranking = ranking?.unit ? ranking : null;
    this.heads = found.heads.map((head) => ({ ...head, name: nameOf(head.layer), ...influenceOf(head, ranking) }));
    this.measures = { ...influenceMeasures(ranking ?? {}), ...found.measures };
    this.show();
    if (hadFocus) this.by.group.querySelector("[aria-pressed=true]").focus();
  }

  async measure(run, signal) {
    const weights = session.run.attentions.reduce((sum, one) => sum + one.heads * one.queries * one.keys, 0);
    if (weights > MANY_WEIGHTS && !session.server.taken) {
      const progress = make("progress", { max: 1, value: 0, "aria-label": "measuring every head" });
      this.append(progress);
      await stream(`${run}/measuring`, {}, (event) => (progress.value = event.share), signal);
    }
    return get(`${run}/heads`, {}, signal);
  }

  show() {
    if (!this.heads || !this.isConnected) return;
    const names = Object.keys(this.measures).filter((name) => this.heads.some((head) => !isMissing(head[name])));
    const measure = names.includes(state.now.measure) ? state.now.measure : names[0];
    const { spoken, meaning } = this.measures[measure];
    this.replaceChildren(card(
      make("h2", {}, `All heads at a glance: ${spoken}`),
      this.by.element,
      this.ranking ? hint(agreementText(this.ranking)) : null,
      hint(
        `${meaning}. The ${isInfluence(measure) ? "more amber" : "darker"}, the more; click a head to see its arrows.${
          isInfluence(measure) ? " This is about the whole text: for one chosen token, Model ranks the heads." : ""
        }`,
      ),
      this.grid(measure),
      this.filter(names, measure),
      hint(
        "A dash: this measure does not apply to the head (no token repeats, or its keys are another text), or the " +
          "head was not knocked out. Shares are of the head’s weight, averaged over all tokens of this text.",
      ),
      this.table(names, measure),
    ));
  }

  filter(names, measure) {
    const oninput = (event) => {
      this.layerFilter = event.target.value;
      this.querySelector(".all-heads").replaceWith(this.table(names, measure));
    };
    const value = this.layerFilter ?? "";
    const input = make("input", { id: "layer-filter", value, placeholder: "encoder, 2, cross …", oninput });
    return rowOf(make("label", { for: "layer-filter" }, "Only layers with"), input);
  }

  table(names, measure) {
    const wanted = this.heads.filter(({ layer, name }) =>
      [layer, name].some((one) => one.includes(this.layerFilter ?? ""))
    );
    const sorted = wanted.sort((one, other) => (other[measure] ?? -Infinity) - (one[measure] ?? -Infinity));
    const measures = names.map((name) => this.measureHead(name, measure));
    const heads = [columnHead("layer"), columnHead("head"), columnHead("what it does, by its weights"), ...measures];
    const lines = sorted.map((head) => this.line(head, names));
    const table = make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, lines));
    return make(
      "div",
      { class: "scroll tall all-heads", tabindex: 0, role: "region", "aria-label": "All heads" },
      table,
    );
  }

  measureHead(name, measure) {
    const { spoken, meaning } = this.measures[name];
    const isSorted = name === measure;
    const sort = button(spoken + (isSorted ? " ↓" : ""), () => state.set({ measure: name }));
    return columnHead(sort, { "aria-sort": isSorted ? "descending" : "none", title: meaning });
  }

  line(head, names) {
    const label = `open ${head.name}, head ${head.head}`;
    const opener = button(String(head.head), () => this.open(head), { "aria-label": label });
    const cell = (name) => make("td", {}, isMissing(head[name]) ? "–" : textOf(name, head[name], 3));
    const words = make("td", { class: "word sentence" }, head.description ?? "–");
    return make("tr", {}, rowHead(layerName(head)), make("td", {}, opener), words, names.map(cell));
  }

  // Layers downwards, heads across, coloured by a measure.
  grid(measure) {
    const layers = Object.entries(Object.groupBy(this.heads, (head) => head.layer));
    const values = this.heads.map((head) => head[measure]).filter((value) => !isMissing(value));
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const columns = [...Array(Math.max(...layers.map(([, heads]) => heads.length))).keys()];
    const grid = make("div", { class: "head-grid" });
    grid.style.gridTemplateColumns = `minmax(4rem, max-content) repeat(${columns.length}, minmax(2.4rem, 4rem))`;
    const title = (head) => make("span", { class: "number" }, make("span", { class: "wide" }, "head "), String(head));
    grid.append(make("span"), ...columns.map(title));
    for (const [, heads] of layers) {
      const cells = columns.map((i) => (heads[i] ? this.gridCell(heads[i], measure, low, high) : make("span")));
      grid.append(layerName({ ...heads[0], name: heads[0].name.replace(/, (\w+)-attention$/, " $1") }), ...cells);
    }
    return make("div", { class: "scroll" }, grid);
  }

  gridCell(head, measure, low, high) {
    const value = head[measure];
    const title = `${head.name}, head ${head.head}${head.description ? `: ${head.description}` : ""}`;
    const text = isMissing(value) ? "–" : textOf(measure, value, 2);
    const label = `${head.name}, head ${head.head}: ${text}`;
    const cell = button(text, () => this.open(head), { title, "aria-label": label });
    if (isInfluence(measure) && !isMissing(value)) light(cell, value, high);
    else if (!isMissing(value)) paint(cell, value, low, high);
    return cell;
  }

  open(head) {
    state.set({ attention: indexOf(head.layer), head: head.head, key: null, view: "see" });
  }
}

customElements.define("transom-heads", HeadsView);
