// One hidden unit of a feed-forward part: its dot product, the activation, and the row of W_2 that it writes.

import { draw, make } from "../dom.js";
import { formatNumber, wordOf } from "../token_text.js";
import { DotProduct } from "./dot_product.js";
import { clamp, fewer, peak, signed, text, vectorPath } from "./draw_tools.js";
import { effectText, explainedToken, unitOf } from "./feed_forward_text.js";

const PLACES = { strips: [0.09, 0.26, 0.43], running: 0.56, results: 0.73 };
const GATED = { strips: [0.07, 0.18, 0.29, 0.4, 0.51], running: 0.62, results: 0.75 };
const WRITES = 0.92; // the height of what it writes
const WRITTEN = 0.88; // of the animation

// What the products of a gated unit's other column add up to; those that are played are added up below.
const noteOf = ({ b, value }, isDone) => isDone ? `${b === null ? "sum" : "sum and bias"} ${signed(value)}` : "of both";

export class UnitLevel {
  constructor(stage, size) {
    Object.assign(this, { stage, size, progress: 1 });
    this.element = make("div", { class: "level unit-level" });
    this.refresh();
  }

  get duration() {
    return 5000;
  }

  refresh() {
    const { stage } = this;
    const found = stage.data.feedForward(stage.now);
    const unit = found && unitOf(found, stage.now);
    if (!unit) {
      const problem = stage.data.problems.get("feed_forward");
      const content = found === undefined ? "Reading this unit …" : problem ?? "There is no such unit.";
      this.element.replaceChildren(make("p", { class: "hint", role: "status" }, content));
      return;
    }
    if (unit !== this.unit) {
      Object.assign(this, { found, unit });
      this.build();
    }
    this.update(this.progress);
  }

  build() {
    const { found, unit, size, stage } = this;
    const places = found.gated ? GATED : PLACES;
    const { side } = stage.laneOf(stage.now);
    const times = (W) => found.input.map((one, i) => one * W[i]);
    const columns = found.gated ? [[unit.up, "W_up", true], [unit.gate, "W_gate", false]] : [[unit.gate, "W_1", false]];
    const strips = [
      { values: found.input, kind: side, name: wordOf(found.token), note: "goes in" },
      ...columns.flatMap(([part, name, isDone]) => [
        { values: part.W, kind: "learned", name, note: `of unit ${unit.unit}` },
        { values: times(part.W), kind: "product", name: "product", note: noteOf(part, isDone), isDone },
      ]),
    ];
    const label = `Unit ${unit.unit} of the feed-forward part, at ${wordOf(found.token)}`;
    this.picture = new DotProduct(size, label, { strips, results: this.results(), places });
    this.picture.element.append(...this.written(side));
    this.element.replaceChildren(this.picture.element);
  }

  // Sum with its bias, activation, and what it was worth.
  results() {
    const { found, unit, size } = this;
    const isTall = size.width < 620;
    const { b, value } = unit.gate;
    const next = explainedToken(this.stage, found);
    const bias = b === null ? "" : isTall ? ` + b` : `, + bias ${signed(b)}`;
    const first = [isTall ? `sum${bias}` : `all ${found.input.length} added up${bias}`, signed(value)];
    const gated = unit.up === null ? [] : [[`× ${signed(unit.up.value)}, from W_up`, signed(unit.hidden)]];
    const last = found.by === "influence"
      ? [isTall ? `for ${next}` : `nats for ${next}`, effectText(unit.effect)]
      : [isTall ? "writes" : "the length of what it writes", formatNumber(unit.size, 3)];
    return [first, [found.activation, signed(unit.active)], ...gated, last];
  }

  // The row of W_2 times the activation: what goes to the rail.
  written(side) {
    const { left, width, isTall } = this.picture;
    const { size, unit } = this;
    const y = WRITES * size.height;
    const shown = fewer(unit.writes, width);
    const d = vectorPath(shown, { x: left, y, width, height: size.height * 0.11, most: peak(shown) });
    const [x, anchor] = isTall ? [left, "start"] : [left - 16, "end"];
    this.writing = draw(
      "g",
      {},
      draw("line", { x1: left, x2: left + width, y1: y, y2: y, class: "sum-line" }),
      draw("path", { d, class: `vector ${side}` }),
      text(x, y - (isTall ? 32 : 3), "it writes", `token ${side}`, {
        "text-anchor": anchor,
        "font-size": isTall ? 13 : 16,
      }),
      text(isTall ? left + 120 : x, y + (isTall ? -32 : 15), `${signed(unit.hidden)} · W_2`, "note", {
        "text-anchor": anchor,
      }),
    );
    return [this.writing];
  }

  update(progress) {
    this.progress = progress;
    this.picture?.update(progress);
    if (this.writing) this.writing.style.opacity = clamp((progress - WRITTEN) / 0.1);
  }

  rectOf() {
    return null;
  }
}
