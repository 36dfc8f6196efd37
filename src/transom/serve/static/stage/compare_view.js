// <transom-compare>: two runs side by side, each as the whole model, and what came out of both row by row.

import { get } from "../api.js";
import { headName } from "../attention_names.js";
import { RunComparison } from "../compare_runs.js";
import { card, hint, make, row as rowOf } from "../dom.js";
import { runOptions } from "../open_run.js";
import { session, state, withErrors } from "../state.js";
import { StageData } from "./data.js";
import { tallHeight } from "./layout.js";
import { ModelLevel } from "./model_level.js";
import { firstToken } from "./place.js";
import { modelShape, windowOf } from "./shape.js";

const RAILS = { one: 16, pair: 12 };
const HEIGHT = 520;
const NARROW = 640; // pixels: below, depth runs downwards

// One run as the whole model, on a stage of its own that goes no deeper: a head opens on the stage itself.
class ComparedModel {
  constructor(run) {
    this.run = run;
    this.shape = modelShape(run);
    const most = this.shape.lanes.length > 1 ? RAILS.pair : RAILS.one;
    const windows = this.shape.lanes.map((lane) => [lane.side, windowOf(lane, most, most - 1)]);
    this.windows = Object.fromEntries(windows);
    this.token = Math.min(firstToken(run, this.shape), this.windows[this.shape.last.side].count - 1);
    this.data = new StageData(run, this.windows, () => this.level?.refresh());
    this.data.loadThumbnails();
    this.focus = null;
    this.note = hint();
    this.reading = { describePeek: (peek) => this.describePeek(peek) };
    const title = `run ${run.run}: ${(run.text ?? "a trace").slice(0, 80)}`;
    this.area = make("div", { class: "stage-area" });
    this.element = make("section", { "aria-label": title }, make("h2", {}, title), this.area, this.note);
  }

  get now() {
    return { token: this.token, by: state.now.by ?? "weight" };
  }

  show() {
    const width = this.area.clientWidth;
    const tall = width < NARROW;
    const height = tall ? tallHeight(this.shape) : HEIGHT;
    this.area.style.height = `${height}px`;
    this.level = new ModelLevel(this, { width, height, tall });
    this.area.replaceChildren(this.level.element);
  }

  open(place) {
    state.set({ view: "stage", run: this.run.run, row: null, key: null, ...place });
  }

  chooseToken(token) {
    this.token = token;
    this.level.refresh();
  }

  chooseFocus(focus) {
    this.focus = focus;
    this.level.refresh();
  }

  changedRow() {
    return null;
  }

  describePeek(peek) {
    this.note.textContent = peek ? headName(peek.index, peek.head, this.run) : "";
  }
}

class CompareView extends HTMLElement {
  connectedCallback() {
    this.comparison = new RunComparison();
    this.other = make("select", { id: "other-run", onchange: () => this.compare() });
    this.pictures = make("div", { class: "two-models" });
    const label = make("label", { for: "other-run" }, "Compare this run with ");
    this.choice = card(rowOf(label, this.other));
    this.replaceChildren(this.choice, this.pictures, this.comparison.element);
    this.stopListening = state.on(["opened"], () => this.load());
    this.resizing = new ResizeObserver(() => this.onResize());
    this.resizing.observe(this);
    this.load();
  }

  disconnectedCallback() {
    this.stopListening();
    this.resizing.disconnect();
    this.close();
  }

  close() {
    this.models?.forEach((model) => model.data.close());
  }

  onResize() {
    if (this.clientWidth === this.shownWidth) return;
    this.shownWidth = this.clientWidth;
    this.models?.forEach((model) => model.show());
  }

  async load() {
    const others = await runOptions("a trace", () => false, (one) => one.run !== session.run.run);
    this.other.replaceChildren(...others);
    this.choice.hidden = !others.length;
    if (others.length) {
      others.at(-1).selected = true;
      await this.compare();
    } else if (document.getElementById("error").hidden) {
      this.pictures.replaceChildren(hint("This is the only run: type another text above, and come back."));
    }
  }

  async compare() {
    this.close();
    const other = await withErrors(() => get(`/api/runs/${this.other.value}`));
    if (!other || !this.isConnected) return;
    this.models = [session.run, other].map((run) => new ComparedModel(run));
    this.pictures.replaceChildren(...this.models.map((model) => model.element));
    this.models.forEach((model) => model.show());
    await withErrors(() => this.comparison.show(this.other.value));
  }
}

customElements.define("transom-compare", CompareView);
