// A lesson's attention on the stage: who reads whom, one row in motion, one number. The same levels draw a model's
// heads; here every number is the lesson's own.

import { button, make } from "../dom.js";
import { prefersReducedMotion } from "../state.js";
import { HeadLevel } from "../stage/head_level.js";
import { NumberLevel } from "../stage/number_level.js";
import { Player } from "../stage/player.js";
import { sentences } from "../stage/reading_text.js";
import { RowLevel } from "../stage/row_level.js";
import { modelShape } from "../stage/shape.js";
import { zoom } from "../stage/zoom.js";
import { wordAt, wordOf } from "../token_text.js";

const CLASSES = { 3: HeadLevel, 4: RowLevel, 5: NumberLevel };
const HEIGHTS = { 3: 430, 4: 210, 5: 470 }; // pixels; a row has so many and some for each key
const OF_A_KEY = 62;
const NARROW = 560; // the height where the stage is narrow
const LEAST = 120;

// The lesson's head with the answers that a run has: weights and scores of all, and one row with its arithmetic.
class LessonHead {
  constructor(motion) {
    Object.assign(this, { motion, problems: new Map(), rows: new Map() });
  }

  headWeights() {
    const { tokens: rows, keys, weights, taken: scores } = this.motion;
    this.weights ??= { rows, keys, weights, scores };
    return this.weights;
  }

  row(_attention, _head, query) {
    if (!this.rows.has(query)) this.rows.set(query, this.rowOf(query));
    return this.rows.get(query);
  }

  rowOf(query) {
    const { tokens, keys, Q, K, V, weights, taken, sum, scale } = this.motion;
    const listed = keys.map((token, key) => ({
      key,
      token,
      score: taken[query][key],
      weight: weights[query][key] ?? 0,
      K: K[key],
      V: V[key],
    }));
    return {
      token: tokens[query],
      scale,
      softcap: null,
      Q: Q[query],
      keys: listed,
      others: { count: 0, weight: 0 },
      masked: listed.filter((one) => one.score === null).length,
      output: sum[query],
    };
  }
}

// What the levels take for a model: one attention of one head.
function shapeOf({ tokens, keys }) {
  const isCross = tokens.length !== keys.length || tokens.some((token, i) => token !== keys[i]);
  const attention = { index: 0, name: "attention", heads: 1, queries: tokens.length, keys: keys.length };
  const attentions = [{ ...attention, role: isCross ? "cross" : "self" }];
  return modelShape({ attentions, tokens: keys, targets: isCross ? tokens : [], likely: [], written: [] });
}

export class LessonStage {
  constructor(motion) {
    this.motion = motion;
    this.shape = shapeOf(motion);
    this.data = new LessonHead(motion);
    this.now = { level: motion.level, attention: 0, head: 0, row: 0, key: null, token: 0 };
    this.area = make("div", { class: "stage-area" });
    this.crumbs = make("nav", { class: "crumbs", "aria-label": "Where you are on the stage" });
    this.caption = make("div", { class: "lesson-caption", role: "status" });
    this.player = new Player(this);
    const header = make("div", { class: "stage-header" }, this.crumbs, this.player.element);
    const onkeydown = (event) => this.onKey(event);
    const label = "This lesson’s attention on the stage";
    this.element = make(
      "section",
      { class: "lesson-stage", "aria-label": label, onkeydown },
      header,
      this.area,
      this.caption,
    );
    new ResizeObserver(() => this.onResize()).observe(this.area);
  }

  get size() {
    const width = this.area.clientWidth;
    const { level } = this.now;
    const high = HEIGHTS[level] + (level === 4 ? OF_A_KEY * this.motion.keys.length : 0);
    return { width, height: width < 620 && level !== 4 ? NARROW : high };
  }

  onResize() {
    if (this.level && Math.abs(this.area.clientWidth - this.shownWidth) < 2) return;
    this.level?.element.remove();
    this.level = null;
    this.show();
  }

  show() {
    const { size, now, level: before } = this;
    if (size.width < LEAST) return;
    this.shownWidth = size.width;
    this.area.style.height = `${size.height}px`;
    this.area.dataset.level = now.level;
    const level = new CLASSES[now.level](this, size);
    level.number = now.level;
    this.level = level;
    this.area.append(level.element);
    if (before && now.level > before.number) zoom(before.element, level.element, before.rectOf(now), true);
    else if (before && now.level < before.number) {
      zoom(level.element, before.element, level.rectOf(this.previous), false);
    } else before?.element.remove();
    this.previous = now;
    this.player.settle(true);
    this.describe();
  }

  describe() {
    const { head, tokens, keys } = this.motion;
    const { level, row, key } = this.now;
    const whole = head === null ? "who reads whom" : `head ${head}: who reads whom`;
    const names = [whole, `“${wordAt(tokens, row)}”`, key === null ? "" : `“${wordAt(keys, key)}”`];
    const parts = names.slice(0, level - 2).map((name, i) => {
      if (i + 3 === level) return make("span", { "aria-current": "location" }, name);
      return button(name, () => this.open({ level: i + 3 }), { type: "button" });
    });
    const signs = parts.flatMap((part, i) => (i ? [make("span", { "aria-hidden": "true" }, "›"), part] : [part]));
    this.crumbs.replaceChildren(...signs);
    const { say, act } = level > 3 ? sentences(this) : {
      say: [`A ribbon is a weight; those of “${wordOf(tokens[row])}” are lit.`],
      act: "Choose a row of the matrix to see how it came about.",
    };
    const task = act ? [make("strong", {}, ` ${act}`)] : [];
    this.caption.replaceChildren(make("p", {}, say.join(" "), ...task));
  }

  open(place) {
    this.now = { ...this.now, ...(place.level < 5 ? { key: null } : {}), ...place };
    const isDeeper = this.now.level > (this.level?.number ?? 0);
    this.show();
    if (isDeeper && this.now.level > 3 && !prefersReducedMotion()) this.player.play(true);
  }

  // The next row, as long as there is one.
  step(by) {
    const row = this.now.row + by;
    if (this.now.level > 4 || row < 0 || row >= this.motion.tokens.length) return false;
    this.now = { ...this.now, row };
    this.level.refresh();
    this.describe();
    return true;
  }

  onKey(event) {
    if (event.key !== "Escape" || this.now.level === 3) return;
    event.stopPropagation();
    this.open({ level: this.now.level - 1 });
  }
}
