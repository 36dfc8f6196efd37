// A dot product, number by number: vectors, their products, what they add up to, and what becomes of the sum.

import { draw } from "../dom.js";
import { canvasOf, clamp, fewer, peak, text, vectorNumbers, vectorPath } from "./draw_tools.js";

const ADDED = 0.75; // of the animation: all products are added up

export class DotProduct {
  // `strips` are { values, kind, name, note }, those of kind "product" appear one by one; `places` are the heights of
  // the strips, of the running sum and of the results as shares; `results` are [what, figure]; `isTall` is narrow.
  constructor(size, label, { strips, results, places }) {
    const isTall = size.width < 620;
    const left = isTall ? 4 : 118;
    const width = size.width - left - 12;
    Object.assign(this, { size, places, isTall, left, width, results: [] });
    this.tall = size.height * Math.min(isTall ? 0.085 : 0.13, 0.4 / strips.length);
    this.element = canvasOf(size, label);
    this.products = fewer(strips.findLast((one) => one.kind === "product").values, width, true);
    this.covers = [];
    const down = isTall ? 0.03 : 0; // names stand above the strips there
    this.places = { ...places, strips: places.strips.map((share) => share + down) };
    strips.forEach((strip, i) => this.element.append(...this.strip(strip, this.places.strips[i] * size.height)));
    this.element.append(...this.sumParts(), ...this.resultGroups(results));
  }

  get each() {
    return this.width / this.products.length;
  }

  // A vector as bars; with many numbers a bar stands for some: the largest of them, of products their sum.
  strip({ values, kind, name, note, isDone }, y) {
    const { left, width, tall, isTall } = this;
    const at = isTall ? { x: left, anchor: "start" } : { x: left - 16, anchor: "end" };
    const isProduct = kind === "product";
    const shown = fewer(values, width, isProduct);
    const most = peak(shown);
    const d = vectorPath(shown, { x: left, y, width, height: tall * 1.3, most });
    const bars = draw("path", { d, class: isProduct ? "product" : `vector ${kind}` });
    const numbers = vectorNumbers(shown, { x: left, y, width });
    const grouped = shown.length < values.length ? `, ${Math.ceil(values.length / shown.length)} to a bar` : "";
    const nodes = [
      text(at.x, y - (isTall ? tall * 0.72 : 3), name, `token ${kind}`, {
        "text-anchor": at.anchor,
        "font-size": isTall ? 13 : 16,
      }),
      text(isTall ? left + 120 : at.x, y + (isTall ? -tall * 0.72 : 15), `${note}${grouped}`, "note", {
        "text-anchor": at.anchor,
      }),
      draw("line", { x1: left, x2: left + width, y1: y, y2: y, class: "sum-line" }),
    ];
    if (!isProduct || isDone) return [...nodes, bars, ...numbers];
    const window = draw("rect", { x: left, y: y - tall, width, height: 2 * tall });
    const id = `strip-${Math.round(y)}`;
    this.covers.push(window);
    const group = draw("g", { "clip-path": `url(#${id})` }, bars, ...numbers);
    return [...nodes, draw("clipPath", { id }, window), group];
  }

  sumParts() {
    const { places, size, tall, isTall, left } = this;
    const first = places.strips[0] * size.height;
    const last = places.strips.at(-1) * size.height;
    this.cursor = draw("rect", {
      y: first - tall * 0.75,
      height: last - first + tall * 1.5,
      width: Math.max(3, this.each),
      class: "lens",
    });
    this.running = draw("path", { class: "running" });
    this.runY = places.running * size.height;
    const at = { x: isTall ? 4 : left - 16, y: this.runY + (isTall ? -34 : 4) };
    const label = text(at.x, at.y, "added up", "note", { "text-anchor": isTall ? "start" : "end" });
    return [this.cursor, this.running, label];
  }

  // Large figures, one after the other.
  resultGroups(results) {
    const { size, isTall, places } = this;
    const start = isTall ? 0 : 48;
    this.results = results.map(([name, value], i) => {
      const x = start + (size.width - start) * ((i + 0.5) / results.length);
      const kind = i === results.length - 1 ? "large final" : "large";
      const font = isTall ? 22 : places.results > 0.85 ? 38 : 30;
      const y = places.results * size.height;
      return draw(
        "g",
        {},
        text(x, y, value, kind, { "text-anchor": "middle", "font-size": font }),
        text(x, y + (isTall ? 18 : 24), name, "note", { "text-anchor": "middle" }),
      );
    });
    return this.results;
  }

  update(progress) {
    const { products, left, each, runY, size, width } = this;
    const share = clamp(progress / ADDED);
    const reached = Math.round(share * products.length);
    for (const cover of this.covers) cover.setAttribute("width", share * width);
    this.cursor.style.display = progress < ADDED ? "" : "none";
    this.cursor.setAttribute("x", left + Math.min(products.length - 1, reached) * each);
    let total = 0;
    const sums = products.map((one) => (total += one));
    const most = peak(sums);
    const points = sums.slice(0, reached).map((sum, j) =>
      `${j ? "L" : "M"}${left + (j + 0.5) * each} ${runY - (sum / most) * size.height * 0.07}`
    );
    this.running.setAttribute("d", points.join(""));
    this.results.forEach((group, i) => (group.style.opacity = progress > ADDED + i * 0.06 || progress === 1 ? 1 : 0));
  }
}
