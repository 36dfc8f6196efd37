// One head: who reads whom as ribbons, and the same as a matrix; of a long text, its map.

import { draw, make } from "../dom.js";
import { withErrors } from "../state.js";
import { formatNumber, wordAt, wordOf } from "../token_text.js";
import { boxWithin } from "./block_level.js";
import { canvasOf, clamp, ease, largest, opener, ribbonPath, text } from "./draw_tools.js";
import { sidesOf } from "./shape.js";
import { isTakenOut } from "./taken_out.js";

export const MOST_TOKENS = 24; // of each side; a longer text is a map
const FAINTEST = 0.012;
const loadMap = () => import("../map_view.js"); // of a long text

export class HeadLevel {
  constructor(stage, size) {
    Object.assign(this, { stage, size, progress: 1 });
    this.sides = sidesOf(stage.shape, stage.now.attention);
    this.element = make("div", { class: "level head-level" });
    this.isLong = Math.max(this.sides.rows.tokens.length, this.sides.keys.tokens.length) > MOST_TOKENS;
    if (this.isLong) {
      withErrors(loadMap);
      this.element.append(make("transom-map"));
    } else this.refresh();
  }

  get duration() {
    return this.isLong ? 0 : 1900;
  }

  refresh() {
    if (this.isLong) return;
    const { attention, head } = this.stage.now;
    const all = (lane) => ({ first: 0, count: lane.tokens.length });
    const found = this.stage.data.headWeights(attention, head, all(this.sides.rows), all(this.sides.keys));
    if (!found) {
      this.element.replaceChildren(make("p", { class: "hint", role: "status" }, "Reading this head …"));
      return;
    }
    this.found = found;
    const focused = this.element.querySelector(":focus")?.getAttribute("aria-label");
    this.build();
    if (focused) {
      [...this.element.querySelectorAll(".opener")].find((one) => one.getAttribute("aria-label") === focused)?.focus();
    }
    this.update(this.progress);
  }

  get row() {
    const { shape, now } = this.stage;
    const isPredicting = shape.predicts && this.sides.rows.side === shape.last.side; // which `token` counts
    return Math.min(now.row ?? (isPredicting ? now.token : 0), this.found.rows.length - 1);
  }

  build() {
    const { width, height } = this.size;
    const isTall = width < 620;
    const svg = canvasOf(this.size, `Head ${this.stage.now.head}: who reads whom`);
    const ribbons = isTall
      ? { x: 0, y: 22, w: width, h: height * 0.48 }
      : { x: 0, y: 20, w: width * 0.52, h: height - 44 };
    const side = Math.min(
      isTall ? width - 90 : Math.min(width * 0.36, width * 0.4 - 36),
      isTall ? height * 0.36 : height - 110,
    );
    const grid = isTall
      ? { x: 84, y: height * 0.6, w: side, h: side }
      : { x: width * 0.6 + 30, y: (height - side) / 2 + 8, w: side, h: side };
    svg.append(this.ribbons(ribbons), ...this.matrix(grid));
    this.element.replaceChildren(svg);
  }

  // What is read stands left, who reads right; copies of a token in self-attention stand on one line.
  ribbons({ x, y, w, h }) {
    const { rows, keys, weights, scores } = this.found;
    const most = Math.max(rows.length, keys.length);
    const size = clamp((h / most) * 0.62, 10, 19);
    const room = Math.min(w * 0.3, size * 6.4);
    const place = (index, count) => y + (h * (index + 0.5)) / (rows.length === keys.length ? most : count);
    const group = draw("g", { class: "head-ribbons" });
    this.lines = [];
    for (const [q, row] of weights.entries()) {
      for (const [k, weight] of row.entries()) {
        if (scores[q][k] === null || weight < FAINTEST) continue;
        const d = ribbonPath(x + room, place(k, keys.length), x + w - room - 7, place(q, rows.length));
        const line = draw("path", { d, class: `ribbon ${this.sides.rows.side}`, pathLength: 1 });
        line.style.strokeWidth = `${0.6 + weight * (h / most) * 0.4}px`;
        line.classList.toggle("taken-out", isTakenOut(this.stage, q, k));
        this.lines.push({ line, q, weight });
        group.append(line);
      }
    }
    const captions = [[x + room - 8, "end", "is read"], [x + w - room + 4, "start", "reads"]];
    group.append(...captions.map(([at, anchor, name]) => text(at, y - 6, name, "note", { "text-anchor": anchor })));
    const sides = [[keys, x + room - 8, "end", this.sides.keys.side, false], [
      rows,
      x + w - room + 4,
      "start",
      this.sides.rows.side,
      true,
    ]];
    for (const [tokens, at, anchor, kind, isRow] of sides) {
      tokens.forEach((_, i) => {
        const label = text(at, place(i, tokens.length), wordAt(tokens, i), `token ${kind}${isRow ? " row" : ""}`, {
          "text-anchor": anchor,
          dy: size * 0.34,
          "font-size": size,
        });
        group.append(label);
      });
    }
    return group;
  }

  // Rows read columns; the area of a square is its weight.
  matrix({ x, y, w, h }) {
    const { rows, keys, weights, scores } = this.found;
    const [wide, high] = [w / keys.length, h / rows.length];
    const size = clamp(Math.min(wide, high) * 0.4, 9, 13);
    const heads = keys.map((_, k) =>
      text(x + (k + 0.5) * wide, y - 8, wordAt(keys, k), `token ${this.sides.keys.side}`, {
        "font-size": size,
        transform: `rotate(-40 ${x + (k + 0.5) * wide} ${y - 8})`,
      })
    );
    this.rowGroups = rows.map((token, q) => {
      const key = largest(weights[q]);
      const label = `row ${q}, ${wordOf(token)}: reads ${wordOf(keys[key])} most, ${formatNumber(weights[q][key], 3)}`;
      const back = draw("rect", { x: x - 84, y: y + q * high, width: w + 84, height: high, rx: 5, class: "row-back" });
      const name = text(x - 8, y + (q + 0.5) * high, wordAt(rows, q), `token ${this.sides.rows.side}`, {
        "text-anchor": "end",
        dy: size * 0.36,
        "font-size": size,
      });
      const cells = weights[q].map((weight, k) =>
        this.cell(
          { x: x + (k + 0.5) * wide, y: y + (q + 0.5) * high, side: Math.min(wide, high), q, k },
          weight,
          scores[q][k],
        )
      );
      return opener(label, () => this.stage.open({ level: 4, row: q }), back, name, ...cells.flat());
    });
    const note = text(
      x + w,
      y + h + 20,
      w < 300 ? "rows read columns; area = weight" : "the row’s token reads the column’s; the area is the weight",
      "note",
      {
        "text-anchor": "end",
      },
    );
    return [...heads, ...this.rowGroups, note];
  }

  cell({ x, y, side, q, k }, weight, score) {
    if (score === null) return [text(x, y, "·", "masked", { "text-anchor": "middle", dy: 4 })];
    const edge = Math.sqrt(weight) * side * 0.92;
    const square = draw("rect", {
      x: x - edge / 2,
      y: y - edge / 2,
      width: edge,
      height: edge,
      rx: 2,
      class: `square ${this.sides.rows.side}`,
    });
    if (isTakenOut(this.stage, q, k)) {
      square.classList.add("taken-out");
      return [square, text(x, y, "✕", "taken-out-sign", { "text-anchor": "middle", dy: 4 })];
    }
    if (edge > 27) return [square, text(x, y, formatNumber(weight, 2), "inside", { "text-anchor": "middle", dy: 4 })];
    if (weight < 0.005) return [square];
    const size = clamp(side * 0.36, 7.5, 11);
    const kind = edge > 2.3 * size ? "row-number inside" : "row-number"; // in the square, or at its foot
    const at = edge > 2.3 * size ? y + 0.35 * size : y + side * 0.47;
    return [square, text(x, at, formatNumber(weight, 2), kind, { "text-anchor": "middle", "font-size": size })];
  }

  update(progress) {
    this.progress = progress;
    if (!this.lines) return;
    const { row } = this;
    const grown = ease(clamp(progress * 1.6));
    for (const { line, q, weight } of this.lines) {
      line.style.strokeOpacity = q === row ? 0.25 + 0.65 * weight : 0.09;
      line.style.strokeDasharray = q === row && progress < 1 ? `${grown} 1` : "";
      if (line.classList.contains("taken-out")) line.style.strokeDasharray = "0.02 0.02";
    }
    this.rowGroups.forEach((group, q) => group.classList.toggle("now", q === row));
    this.element.querySelectorAll(".token.row").forEach((label, q) => label.classList.toggle("dim", q !== row));
  }

  rectOf({ row }) {
    const group = this.rowGroups?.[row];
    return group ? boxWithin(group, this.element) : null;
  }
}
