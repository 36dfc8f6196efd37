// What stands above a map: zoom, what a cell shows, the colours, and another run to compare with.

import { button, make, row as rowOf, term } from "./dom.js";
import { runOptions } from "./open_run.js";
import { state } from "./state.js";

const POOLS = [["max", "largest weight of a cell"], ["mean", "mean weight of a cell"]];
const LEGEND = "white is 0, dark blue is 1; in a comparison orange is less, blue is more";

export class MapControls {
  constructor(viewport, { onReload, onRedraw, onCompare }) {
    const options = POOLS.map(([value, title]) => make("option", { value }, title));
    this.pool = make("select", { "aria-label": "What a cell shows", onchange: onReload }, options);
    this.firstToken = make("input", { type: "checkbox", checked: true, onchange: onReload });
    this.logScale = make("input", { type: "checkbox", onchange: onRedraw });
    this.otherRun = make("select", { "aria-label": "Compare with", onchange: onCompare });
    this.otherRunLabel = make("label", {}, "compare with ", this.otherRun);
    const control = (label, title, act) => button(label, act, { title, "aria-label": title });
    const legend = make("span", { class: "legend", role: "img", "aria-label": LEGEND });
    this.element = rowOf(
      control("+", "Zoom in", () => viewport.zoom(2)),
      control("−", "Zoom out", () => viewport.zoom(0.5)),
      button("all", () => viewport.showAll(), { title: "The whole map" }),
      this.pool,
      make("label", {}, this.firstToken, " ", term("sink", "first token"), " shown"),
      make("label", {}, this.logScale, " log scale"),
      this.otherRunLabel,
      make("span", { class: "hint" }, "0 ", legend, " 1"),
    );
  }

  // The other runs, to compare with.
  async listRuns() {
    const isSelected = (one) => one.run === this.otherRun.value;
    const options = await runOptions("a trace", isSelected, (one) => one.run !== state.now.run);
    this.otherRunLabel.hidden = !options.length;
    this.otherRun.replaceChildren(make("option", { value: "" }, "none"), ...options);
  }
}
