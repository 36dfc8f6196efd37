// One number: a weight, from the products of query and key to the softmax.

import { draw, make } from "../dom.js";
import { formatNumber, wordOf } from "../token_text.js";
import { canvasOf, clamp, peak, signed, text, vectorPath } from "./draw_tools.js";
import { sidesOf } from "./shape.js";

const ADDED = 0.75; // of the animation: all products are added up

const whole = (
  value,
) => (value < 100
  ? formatNumber(value, 2)
  : value < 1e6
  ? Math.round(value).toLocaleString("en")
  : value.toExponential(2));

export class NumberLevel {
  constructor(stage, size) {
    Object.assign(this, { stage, size, progress: 1 });
    this.sides = sidesOf(stage.shape, stage.now.attention);
    this.element = make("div", { class: "level number-level" });
    this.refresh();
  }

  get duration() {
    return 4500;
  }

  refresh() {
    const { attention, head, row, key } = this.stage.now;
    const found = this.stage.data.row(attention, head, row ?? 0);
    const chosen = found?.keys.find((one) => one.key === key);
    if (!chosen || chosen.score === null) {
      const masked = "This token is still to come, so nobody may look at it: its score is −∞ and its weight 0.";
      const rest = "This key is among those whose weights are summed as “others”: choose a listed one.";
      const content = found === undefined ? "Reading this number …" : chosen ? masked : rest;
      this.element.replaceChildren(make("p", { class: "hint", role: "status" }, content));
      return;
    }
    if (chosen !== this.chosen) {
      Object.assign(this, { found, chosen });
      this.build();
    }
    this.update(this.progress);
  }

  build() {
    const { found, chosen, size } = this;
    const isTall = size.width < 620;
    const products = found.Q.map((one, i) => one * chosen.K[i]);
    const left = isTall ? 4 : 104;
    const width = size.width - left - 12;
    const tall = Math.min(76, size.height * 0.15);
    const ys = [0.12, 0.34, 0.57].map((share) => share * size.height);
    Object.assign(this, { products, left, width, each: width / products.length, tall, ys, isTall });
    const svg = canvasOf(size, `The weight from ${wordOf(found.token)} to ${wordOf(chosen.token)}`);
    const strips = [
      [found.Q, this.sides.rows.side, wordOf(found.token), "query, Q"],
      [chosen.K, this.sides.keys.side, wordOf(chosen.token), "key, K"],
      [products, "product", "product", "of both"],
    ].map((strip, i) => this.strip(strip, i));
    this.productBars = strips[2].bars;
    this.cursor = draw("rect", {
      y: ys[0] - tall * 0.75,
      height: ys[2] - ys[0] + tall * 1.5,
      width: this.each,
      class: "lens",
    });
    this.running = draw("path", { class: "running" });
    this.runY = size.height * 0.75;
    const label = text(isTall ? 4 : left - 16, this.runY + (isTall ? -34 : 4), "added up", "note", {
      "text-anchor": isTall ? "start" : "end",
    });
    this.results = this.resultGroups();
    svg.append(...strips.flatMap((one) => one.nodes), this.cursor, this.running, label, ...this.results);
    this.element.replaceChildren(svg);
  }

  // A vector number by number.
  strip([values, kind, name, note], i) {
    const { left, width, ys, tall, isTall, each } = this;
    const at = isTall ? { x: left, anchor: "start" } : { x: left - 16, anchor: "end" };
    const nodes = [
      text(at.x, ys[i] - (isTall ? tall * 0.72 : 3), name, `token ${kind}`, {
        "text-anchor": at.anchor,
        "font-size": isTall ? 13 : 16,
      }),
      text(isTall ? left + 120 : at.x, ys[i] + (isTall ? -tall * 0.72 : 15), note, "note", {
        "text-anchor": at.anchor,
      }),
      draw("line", { x1: left, x2: left + width, y1: ys[i], y2: ys[i], class: "sum-line" }),
    ];
    const most = peak(values);
    const bars = values.map((value, j) => {
      const d = vectorPath([value], { x: left + j * each, y: ys[i], width: each, height: tall * 1.3, most });
      const bar = draw("path", { d, class: i < 2 ? `vector ${kind}` : "product" });
      const isRoomy = each > 32 || (each > 22 && Math.abs(value) > 0.12 * most);
      const number = isRoomy
        ? text(left + (j + 0.5) * each, ys[i] + (value < 0 ? -5 : 14), signed(value, 1), "number", {
          "text-anchor": "middle",
        })
        : null;
      return [bar, number].filter((one) => one !== null);
    });
    return { nodes: [...nodes, ...bars.flat()], bars };
  }

  // Sum, score and weight as large figures; what a bias or a cap does to the score is said.
  resultGroups() {
    const { found, chosen, products, size, isTall } = this;
    const sum = products.reduce((total, one) => total + one, 0);
    const scaled = sum * found.scale;
    const below = this.chosen.weight > 0 ? Math.exp(chosen.score) / chosen.weight : Infinity;
    const root = Math.round(1 / found.scale ** 2);
    const divided = Math.abs(root * found.scale ** 2 - 1) < 1e-3 ? `÷ √${root}` : `× ${formatNumber(found.scale, 4)}`;
    const isPlain = Math.abs(scaled - chosen.score) < 1e-2 * Math.max(1, Math.abs(scaled));
    const extra = isPlain ? "" : found.softcap ? ", capped" : ", with the bias of its place";
    const steps = [
      [isTall ? "sum" : `all ${products.length} added up`, signed(sum)],
      [isTall ? divided : `${divided}${extra} = score`, signed(chosen.score)],
      [
        isTall ? "softmax" : `softmax: e^score ${whole(Math.exp(chosen.score))} of ${whole(below)}`,
        formatNumber(chosen.weight, 4),
      ],
    ];
    const start = isTall ? 0 : 48;
    return steps.map(([name, value], i) => {
      const x = start + (size.width - start) * ((i + 0.5) / 3);
      const kind = i === 2 ? "large final" : "large";
      return draw(
        "g",
        {},
        text(x, size.height * 0.91, value, kind, { "text-anchor": "middle", "font-size": isTall ? 22 : 38 }),
        text(x, size.height * 0.965, name, "note", { "text-anchor": "middle" }),
      );
    });
  }

  update(progress) {
    this.progress = progress;
    if (!this.productBars) return;
    const { products, left, each, runY, size } = this;
    const reached = Math.round(clamp(progress / ADDED) * products.length);
    this.productBars.forEach((parts, j) => parts.forEach((part) => (part.style.opacity = j < reached ? 1 : 0)));
    this.cursor.style.display = progress < ADDED ? "" : "none";
    this.cursor.setAttribute("x", left + Math.min(products.length - 1, reached) * each);
    let total = 0;
    const sums = products.map((one) => (total += one));
    const most = peak(sums);
    const points = sums.slice(0, reached).map((sum, j) =>
      `${j ? "L" : "M"}${left + (j + 0.5) * each} ${runY - (sum / most) * size.height * 0.07}`
    );
    this.running.setAttribute("d", points.join(""));
    this.results.forEach((group, i) => (group.style.opacity = progress > ADDED + i * 0.08 || progress === 1 ? 1 : 0));
  }

  rectOf() {
    return null;
  }
}
