// One number: a weight, from the products of query and key to the softmax.

import { make } from "../dom.js";
import { formatNumber, wordOf } from "../token_text.js";
import { DotProduct } from "./dot_product.js";
import { signed } from "./draw_tools.js";
import { sidesOf } from "./shape.js";

const PLACES = { strips: [0.12, 0.34, 0.57], running: 0.75, results: 0.91 };

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
    const { found, chosen, size, sides } = this;
    const [query, key] = [found, chosen].map((one) => wordOf(one.token));
    const products = found.Q.map((one, i) => one * chosen.K[i]);
    const strips = [
      { values: found.Q, kind: sides.rows.side, name: query, note: "query, Q" },
      { values: chosen.K, kind: sides.keys.side, name: key, note: "key, K" },
      { values: products, kind: "product", name: "product", note: "of both" },
    ];
    this.picture = new DotProduct(size, `The weight from ${query} to ${key}`, {
      strips,
      results: this.results(products),
      places: PLACES,
    });
    this.element.replaceChildren(this.picture.element);
  }

  // Sum, score and weight; what a bias or a cap does to the score is said.
  results(products) {
    const { found, chosen, size } = this;
    const isTall = size.width < 620;
    const sum = products.reduce((total, one) => total + one, 0);
    const scaled = sum * found.scale;
    const below = chosen.weight > 0 ? Math.exp(chosen.score) / chosen.weight : Infinity;
    const root = Math.round(1 / found.scale ** 2);
    const divided = Math.abs(root * found.scale ** 2 - 1) < 1e-3 ? `÷ √${root}` : `× ${formatNumber(found.scale, 4)}`;
    const isPlain = Math.abs(scaled - chosen.score) < 1e-2 * Math.max(1, Math.abs(scaled));
    const extra = isPlain ? "" : found.softcap ? ", capped" : ", with the bias of its place";
    return [
      [isTall ? "sum" : `all ${products.length} added up`, signed(sum)],
      [isTall ? divided : `${divided}${extra} = score`, signed(chosen.score)],
      [
        isTall ? "softmax" : `softmax: e^score ${whole(Math.exp(chosen.score))} of ${whole(below)}`,
        formatNumber(chosen.weight, 4),
      ],
    ];
  }

  update(progress) {
    this.progress = progress;
    this.picture?.update(progress);
  }

  rectOf() {
    return null;
  }
}
