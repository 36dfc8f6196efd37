// What stands above a map: zoom, what a cell shows, the colours, and another run to compare with.

import { button, make, row as rowOf, term } from "./dom.js";
import { formatChange } from "./explained.js";
import { runOptions } from "./open_run.js";
import { state } from "./state.js";

const POOLS = [["max", "largest", "of a cell"], ["mean", "mean", "of a cell"]];
const WORDS = { weights: "weight", difference: "weight", influence: "influence" };
const LEGENDS = {
  weights: "white is 0, dark blue is 1",
  difference: "orange is less, white is the same, blue is more",
  influence: "amber helps, white is nothing, violet hinders",
};

export class MapControls {
  constructor(viewport, { onReload, onRedraw, onCompare }) {
    const options = POOLS.map(([value]) => make("option", { value }));
    this.pool = make("select", { "aria-label": "What a cell shows", onchange: onReload }, options);
    this.firstToken = make("input", { type: "checkbox", checked: true, onchange: onReload });
    this.logScale = make("input", { type: "checkbox", onchange: onRedraw });
    this.logLabel = make("label", {}, this.logScale, " log scale");
    this.otherRun = make("select", { "aria-label": "Compare with", onchange: onCompare });
    this.otherRunLabel = make("label", {}, "compare with ", this.otherRun);
    const control = (label, title, act) => button(label, act, { title, "aria-label": title });
    this.legend = make("span", { class: "hint" });
    this.element = rowOf(
      control("+", "Zoom in", () => viewport.zoom(2)),
      control("−", "Zoom out", () => viewport.zoom(0.5)),
      button("all", () => viewport.showAll(), { title: "The whole map" }),
      this.pool,
      make("label", {}, this.firstToken, " ", term("sink", "first token"), " shown"),
      this.logLabel,
      this.otherRunLabel,
      this.legend,
    );
    this.show("weights");
  }

  // For weights, the difference of two runs, or influence; its largest number is that of the head.
  show(kind, largest = 1) {
    POOLS.forEach(([, pooled, place], i) => (this.pool.options[i].textContent = `${pooled} ${WORDS[kind]} ${place}`));
    this.logLabel.hidden = kind !== "weights";
    const bar = make("span", { class: `legend ${kind}`, role: "img", "aria-label": LEGENDS[kind] });
    const [low, high] = {
      weights: ["0 ", " 1"],
      difference: ["less ", " more"],
      influence: [`helps ${formatChange(-largest)} `, ` ${formatChange(largest)} hinders`],
    }[kind];
    this.legend.replaceChildren(low, bar, high);
  }

  // The other runs, to compare with.
  async listRuns() {
    const isSelected = (one) => one.run === this.otherRun.value;
    const options = await runOptions("a trace", isSelected, (one) => one.run !== state.now.run);
    this.otherRunLabel.hidden = !options.length;
    this.otherRun.replaceChildren(make("option", { value: "" }, "none"), ...options);
  }
}
