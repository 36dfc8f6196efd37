// One row: its query meets every key, softmax makes weights of the scores, and the values flow in and add up.

import { draw, make } from "../dom.js";
import { formatNumber, wordOf } from "../token_text.js";
import { boxWithin } from "./block_level.js";
import { canvasOf, clamp, ease, largest, peak, text, vectorNumbers, vectorPath } from "./draw_tools.js";
import { keyLine } from "./row_lines.js";
import { sidesOf } from "./shape.js";

// Shares of the animation: the query travels, softmax, the values flow.
const MET = 0.45;
const SOFTMAX = [0.47, 0.63];
const FLOW = 0.66;

export class RowLevel {
  constructor(stage, size) {
    Object.assign(this, { stage, size, progress: 1 });
    this.sides = sidesOf(stage.shape, stage.now.attention);
    this.element = make("div", { class: "level row-level" });
    this.refresh();
  }

  get duration() {
    return 6500;
  }

  refresh() {
    const { attention, head, row } = this.stage.now;
    const found = this.stage.data.row(attention, head, row ?? 0);
    if (!found) {
      const problem = this.stage.data.problems.get("row");
      this.element.replaceChildren(make("p", { class: "hint", role: "status" }, problem ?? "Reading this row …"));
      return;
    }
    if (found !== this.found) {
      this.found = found;
      this.build();
    }
    this.update(this.progress);
  }

  // Columns of the picture: names, query · key, score, weight, value.
  columns() {
    const { width } = this.size;
    const isTall = width < 620;
    const shares = isTall ? [0.2, 0.46, 0.6, 0.76, 1] : [0.13, 0.4, 0.55, 0.71, 0.98];
    const [keys, score, weight, value, end] = shares.map((share) => share * width);
    return { isTall, keys, score, weight, value, end, gap: isTall ? 8 : 22 };
  }

  build() {
    const { found, size } = this;
    const { Q, keys, output } = found;
    const seen = keys.filter((key) => key.score !== null);
    this.at = this.columns();
    this.top = 92;
    this.high = Math.min(64, (size.height - 190) / (keys.length + (found.others.count ? 1 : 0)));
    this.foot = this.top + this.high * (keys.length + (found.others.count ? 1 : 0)) + 56;
    this.most = {
      product: peak(...seen.map((key) => key.K.map((one, i) => one * Q[i]))),
      value: peak(output, ...seen.map((key) => key.V.map((one) => one * key.weight))),
      score: Math.max(1, ...seen.map((key) => Math.abs(key.score))),
      query: peak(Q),
    };
    const svg = canvasOf(
      { width: size.width, height: Math.max(size.height, this.foot + 40) },
      `The row of ${wordOf(found.token)}`,
    );
    this.lines = keys.map((key, i) => keyLine(this, key, i));
    this.strongest = this.lines[largest(keys.map((key) => key.weight))].group; // what it reads most
    this.rider = this.queryMark();
    svg.append(...this.titles(), ...this.lines.map((one) => one.group), ...this.sum(), this.rider);
    this.element.replaceChildren(svg);
  }

  titles() {
    const { at, top, found } = this;
    const names = [[at.isTall ? "q · k" : "query · key", at.keys], ["score", at.score], ["weight", at.weight], [
      at.isTall ? "value" : "weight × value",
      at.value,
    ]];
    const reader = text(at.keys - 10, 38, wordOf(found.token), `token ${this.sides.rows.side}`, {
      "text-anchor": "end",
      dy: 5,
      "font-size": at.isTall ? 13 : 16,
    });
    const note = text(at.keys, 14, `the query of ${wordOf(found.token)}: ${found.Q.length} numbers`, "note");
    return [reader, note, ...names.map(([name, x]) => text(x, top - 10, name, "note"))];
  }

  queryMark() {
    const { at, high, found, most } = this;
    const width = at.score - at.keys - at.gap;
    const tall = Math.min(high, 44);
    const lens = draw("rect", {
      x: at.keys - 6,
      y: -tall * 0.42,
      width: width + 12,
      height: tall * 0.84,
      rx: 7,
      class: "lens",
    });
    const place = { x: at.keys, y: 0, width, height: tall * 0.7, most: most.query };
    const vector = draw("path", { d: vectorPath(found.Q, place), class: `vector ${this.sides.rows.side}` });
    return draw("g", { class: "rider" }, lens, vector, vectorNumbers(found.Q, place));
  }

  // What the head gives: the sum of what has flown in.
  sum() {
    const { at, foot, found, sides } = this;
    this.total = draw("path", { class: `vector ${sides.rows.side}` });
    this.totals = draw("g", {}, vectorNumbers(found.output, { x: at.value, y: foot, width: at.end - at.value }));
    const { others } = found;
    const rest = others.count
      ? [
        text(
          at.keys,
          foot - 60,
          `${others.count.toLocaleString("en")} others: ${formatNumber(others.weight, 3)}`,
          "note",
        ),
      ]
      : [];
    return [
      ...rest,
      draw("line", { x1: at.value, x2: at.end, y1: foot - 36, y2: foot - 36, class: "sum-line" }),
      text(
        at.value - 12,
        foot + 4,
        at.isTall ? "sum" : `what the head brings to ${wordOf(found.token)}`,
        "note",
        { "text-anchor": "end" },
      ),
      this.total,
      this.totals,
    ];
  }

  update(progress) {
    this.progress = progress;
    if (!this.lines) return;
    const meet = clamp(progress / MET);
    const soft = ease(clamp((progress - SOFTMAX[0]) / (SOFTMAX[1] - SOFTMAX[0])));
    const flow = clamp((progress - FLOW) / (1 - FLOW));
    const count = this.lines.length;
    const isTravelling = meet > 0 && meet < 1;
    const along = Math.min(count - 1, meet * count - 0.5);
    this.rider.setAttribute("transform", `translate(0 ${isTravelling ? this.top + (along + 0.5) * this.high : 38})`);
    this.strongest.classList.toggle("now", soft > 0);
    this.lines.forEach((line, i) =>
      this.updateLine(line, clamp((meet * count - i - 0.3) / 0.4), soft, ease(clamp(flow * 1.5 - (i / count) * 0.5)))
    );
    this.showSum(flow);
  }

  updateLine(line, met, soft, flown) {
    line.key.style.opacity = line.isOpen ? 1 - 0.72 * met : 0.12;
    if (line.product) line.product.style.opacity = met;
    line.scoreBar.style.opacity = line.score.style.opacity = line.isOpen ? met : 0.75;
    line.weightBar.setAttribute(
      "width",
      Math.max(0, line.weightValue * soft * (this.at.value - this.at.weight - this.at.gap)),
    );
    line.weight.style.opacity = soft;
    line.value.style.opacity = line.isOpen ? soft : 0;
    line.value.firstChild.style.opacity = 1 - 0.55 * flown;
    const y = flown > 0 && flown < 1 ? line.y + (this.foot - line.y) * flown : line.y;
    line.value.setAttribute("transform", `translate(0 ${y})`);
    line.isIn = flown >= 1;
  }

  // While values arrive, the sum of those that are in; at the end, what the head gave.
  showSum(flow) {
    const { found, at, foot, most } = this;
    const arrived = this.lines.filter((line) => line.isOpen && line.isIn);
    const partial = found.output.map((_, i) => arrived.reduce((sum, line) => sum + line.weightValue * line.V[i], 0));
    const values = flow >= 1 ? found.output : partial;
    this.totals.style.opacity = flow >= 1 ? 1 : 0;
    this.total.setAttribute(
      "d",
      vectorPath(values, { x: at.value, y: foot, width: at.end - at.value, height: 60, most: most.value }),
    );
  }

  rectOf({ key }) {
    const index = this.found?.keys.findIndex((one) => one.key === key) ?? -1;
    return index < 0 ? null : boxWithin(this.lines[index].group, this.element);
  }
}
