// A feed-forward part at one token: what goes in, the hidden units that did most, the sum that is added to the rail.

import { draw, make } from "../dom.js";
import { wordAt, wordOf } from "../token_text.js";
import { boxWithin } from "./block_level.js";
import { canvasOf, clamp, ease, fewer, peak, text, vectorPath } from "./draw_tools.js";
import { effectText, explainedToken } from "./feed_forward_text.js";
import { activationCurve, otherLine, unitLine } from "./unit_lines.js";

// Shares of the animation: the input meets every unit, the activation, what units write flows down.
const MET = 0.4;
const ACTIVE = [0.42, 0.58];
const FLOW = 0.62;
const CHOICE = 38; // pixels for the tokens to choose from
const TOP = 128;

export class FeedForwardLevel {
  constructor(stage, size) {
    Object.assign(this, { stage, size: { ...size, height: size.height - CHOICE }, progress: 1 });
    this.lane = stage.laneOf(stage.now);
    this.element = make("div", { class: "level feed-forward-level" });
    this.refresh();
  }

  get duration() {
    return 5200;
  }

  get row() {
    return this.stage.now.row;
  }

  refresh() {
    const { stage } = this;
    const found = stage.data.feedForward(stage.now);
    if (!found) {
      const problem = stage.data.problems.get("feed_forward");
      const content = problem ?? "Taking the feed-forward part apart …";
      this.element.replaceChildren(this.choice(), make("p", { class: "hint", role: "status" }, content));
      this.found = null;
      return;
    }
    if (found !== this.found) {
      this.found = found;
      this.build();
    }
    this.update(this.progress);
  }

  // The tokens in view: the part works on each of them alone.
  choice() {
    const { stage, lane } = this;
    const { first, count } = stage.windows[lane.side];
    const buttons = Array.from({ length: count }, (_, i) => {
      const index = first + i;
      const choose = () => stage.open({ level: stage.now.level, row: index });
      const attributes = { type: "button", class: `token-choice ${lane.side}`, onclick: choose };
      return make("button", { ...attributes, "aria-pressed": index === this.row }, wordAt(lane.tokens, index));
    });
    return make("div", { class: "token-choices", role: "group", "aria-label": "Token" }, buttons);
  }

  // Columns: names, products, sum, activation, what is written, its worth.
  columns() {
    const { width } = this.size;
    const isTall = width < 620;
    const shares = isTall ? [0, 0.17, 0.17, 0.33, 0.5, 0.78, 1] : [0, 0.11, 0.33, 0.45, 0.58, 0.86, 0.99];
    const [name, meet, before, hidden, value, effect, end] = shares.map((share) => share * width);
    return { isTall, name, meet, before, hidden, value, effect, end, gap: isTall ? 8 : 20 };
  }

  build() {
    const { found, size, lane } = this;
    const { units, others, bias, output } = found;
    const focused = this.element.querySelector(":focus");
    const label = focused?.getAttribute("aria-label") ?? focused?.textContent;
    this.at = this.columns();
    this.top = TOP;
    const lines = units.length + 1 + (bias ? 1 : 0);
    this.high = Math.min(48, (size.height - TOP - 84) / lines);
    this.foot = TOP + this.high * lines + 44;
    const written = units.map((one) => one.writes);
    this.most = {
      product: peak(...units.map((one) => one.gate.W.map((W, i) => W * found.input[i]))),
      before: peak(units.map((one) => one.gate.value)),
      hidden: peak(units.map((one) => one.hidden)),
      value: peak(output, ...written, others.writes, bias?.writes ?? []),
      effect: peak([...units, others, ...(bias ? [bias] : [])].map((one) => one.effect ?? 0)),
    };
    const svg = canvasOf({ width: size.width, height: Math.max(size.height, this.foot + 40) }, this.sentence);
    this.lines = units.map((unit, i) => unitLine(this, unit, i));
    this.lines.push(otherLine(this, `${others.count.toLocaleString("en")} others`, others, units.length));
    if (bias) this.lines.push(otherLine(this, "bias", bias, units.length + 1));
    this.curve = this.at.isTall ? null : activationCurve(this);
    svg.append(...this.heading(), ...(this.curve?.nodes ?? []), ...this.lines.map((one) => one.group), ...this.sum());
    svg.append(this.rider = this.inputMark());
    this.svg = svg;
    this.element.replaceChildren(this.choice(), svg);
    const chosen = this.element.querySelector("[aria-pressed=true]");
    if (chosen) chosen.parentElement.scrollLeft = chosen.offsetLeft - chosen.parentElement.clientWidth / 2;
    if (label) this.focus(label);
    this.side = lane.side;
  }

  get sentence() {
    return `The feed-forward part at ${wordOf(this.found.token)}`;
  }

  focus(label) {
    const all = [...this.element.querySelectorAll(".opener, button")];
    all.find((one) => (one.getAttribute("aria-label") ?? one.textContent) === label)?.focus();
  }

  heading() {
    const { at, top, found, lane } = this;
    const next = explainedToken(this.stage, found);
    const worth = next ? `for ${next}` : "length";
    const names = [[at.isTall ? "sum" : `input · ${found.gated ? "W_gate" : "W_1"}`, at.isTall ? at.before : at.meet], [
      found.gated ? `${found.activation} × up` : found.activation,
      at.hidden,
    ], [
      at.isTall ? "writes" : "writes: × W_2",
      at.value,
    ], [worth, at.effect]];
    const all = at.isTall ? names : [...names, [found.gated ? "sum, gate" : "sum", at.before]];
    const reader = text(at.meet - 10, 34, wordOf(found.token), `token ${lane.side}`, {
      "text-anchor": "end",
      dy: 5,
      "font-size": at.isTall ? 13 : 16,
    });
    const note = text(at.meet, 10, `goes in: ${found.input.length} numbers`, "note");
    return [reader, note, ...all.map(([name, x]) => text(x, top - 10, name, "note"))];
  }

  // The input, which travels from unit to unit.
  inputMark() {
    const { at, high, found, lane } = this;
    const width = (at.isTall ? at.hidden : at.before) - at.meet - at.gap;
    const tall = Math.min(high, 40);
    const box = { x: at.meet - 5, y: -tall * 0.42, width: width + 10, height: tall * 0.84, rx: 7, class: "lens" };
    const shown = fewer(found.input, width);
    const d = vectorPath(shown, { x: at.meet, y: 0, width, height: tall * 0.7, most: peak(shown) });
    return draw("g", { class: "rider" }, draw("rect", box), draw("path", { d, class: `vector ${lane.side}` }));
  }

  // What is added to the rail.
  sum() {
    const { at, foot, found, lane } = this;
    this.total = draw("path", { class: `vector ${lane.side}` });
    const name = at.isTall ? "sum" : `what is added to ${wordOf(found.token)}`;
    const worth = found.effect === null ? [] : [this.worthAt(found.effect, foot)];
    return [
      draw("line", { x1: at.value, x2: at.end, y1: foot - 28, y2: foot - 28, class: "sum-line" }),
      text(at.value - 12, foot + 4, name, "note", { "text-anchor": "end" }),
      this.total,
      ...worth,
    ];
  }

  worthAt(effect, y) {
    const { effect: left, end } = this.at;
    return text((left + end) / 2, y + 4, effectText(effect), "figure", { "text-anchor": "middle" });
  }

  update(progress) {
    this.progress = progress;
    if (!this.found) return;
    const meet = clamp(progress / MET);
    const active = ease(clamp((progress - ACTIVE[0]) / (ACTIVE[1] - ACTIVE[0])));
    const flow = clamp((progress - FLOW) / (1 - FLOW));
    const count = this.found.units.length;
    const isTravelling = meet > 0 && meet < 1;
    const along = Math.min(count - 1, meet * count - 0.5);
    this.rider.setAttribute("transform", `translate(0 ${isTravelling ? this.top + (along + 0.5) * this.high : 34})`);
    this.lines.forEach((line, i) => {
      const flown = ease(clamp(flow * 1.5 - (i / this.lines.length) * 0.5));
      line.show(clamp((meet * count - i - 0.3) / 0.4), active, flown);
    });
    this.curve?.show(active);
    this.showSum(flow);
  }

  // While vectors arrive, the sum of those that are in; at the end, what the part gave.
  showSum(flow) {
    const { found, at, foot, most } = this;
    const arrived = this.lines.filter((line) => line.isIn);
    const partial = found.output.map((_, i) => arrived.reduce((sum, line) => sum + line.writes[i], 0));
    const width = at.effect - at.value - at.gap;
    const shown = fewer(flow >= 1 ? found.output : partial, width);
    this.total.setAttribute("d", vectorPath(shown, { x: at.value, y: foot, width, height: 52, most: most.value }));
  }

  rectOf({ unit }) {
    const index = this.found?.units.findIndex((one) => one.unit === unit) ?? -1;
    return index < 0 ? null : boxWithin(this.lines[index].group, this.element);
  }
}
