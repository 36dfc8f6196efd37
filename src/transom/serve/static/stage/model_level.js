// The whole model at a glance: tokens enter, every block with its heads, through to the next token.

import { attentionName } from "../attention_names.js";
import { make } from "../dom.js";
import { wordAt } from "../token_text.js";
import { captions } from "./captions.js";
import { stageColours } from "./colours.js";
import { blockButtons, headButtons, placeAt } from "./head_buttons.js";
import { blockBox, gaugeAt, layoutModel, paneBox } from "./layout.js";
import { ModelScene } from "./model_scene.js";
import { barList, nextTokens } from "./next_tokens.js";
import { FEED_FORWARD } from "./place.js";
import { flyToken, showNexts } from "./rail_ends.js";
import { sidesOf } from "./shape.js";

export class ModelLevel {
  // `stage` has run, shape, data, windows and the actions; see stage_view.js.
  constructor(stage, { width, height, tall }) {
    this.stage = stage;
    this.canvas = make("canvas", { class: "stage-canvas", "aria-hidden": "true" });
    this.overlay = make("div", { class: "stage-overlay" });
    this.element = make("div", { class: `level model-level${tall ? " downwards" : ""}` }, this.canvas, this.overlay);
    this.layout = layoutModel(stage.shape, { width, height, tall, windows: stage.windows });
    this.scene = new ModelScene(this.layout, stage.shape, stageColours());
    this.progress = 1;
    this.build();
    this.canvas.addEventListener("click", (event) => this.openBlockAt(event));
    this.refresh();
  }

  get duration() {
    return this.stage.shape.predicts ? 5200 : 3000;
  }

  build() {
    const { layout, stage } = this;
    const onPeek = (index, head) => this.peek(index, head);
    const onOpen = (index, head) => stage.open({ level: 3, attention: index, head });
    const onBlock = (block) => stage.open({ level: 2, attention: block.parts[0].index });
    this.tokens = make("div", { class: "stage-tokens" });
    this.bars = make("div", { class: "stage-bars" });
    this.nexts = make("div", { class: "stage-nexts", role: "group", "aria-label": "What each token predicts" });
    this.notes = make("div", { class: "stage-notes", "aria-hidden": "true" }, captions(layout, stage.shape));
    placeAt(this.bars, { ...layout.bars, h: 0 });
    this.bars.style.height = "";
    this.overlay.replaceChildren(
      this.tokens,
      blockButtons(layout, onBlock),
      layout.tall ? "" : headButtons(layout, { onOpen, onPeek, nameOf: (index) => attentionName(index, stage.run) }),
      this.notes,
      this.nexts,
      this.bars,
    );
  }

  // The tokens of each lane: those that predict choose what is shown, others what they read.
  showTokens() {
    const { layout, stage } = this;
    const { now } = stage;
    const buttons = layout.lanes.flatMap((lane) => {
      const shape = stage.shape.lanes.find((one) => one.side === lane.side);
      const isPredicting = stage.shape.predicts && shape === stage.shape.last;
      return Array.from({ length: lane.rails.count }, (_, i) => {
        const index = lane.rails.first + i;
        const isChosen = isPredicting ? now.token === index : stage.focus === index;
        const choose = () => (isPredicting ? stage.chooseToken(index) : stage.chooseFocus(isChosen ? null : index));
        const state = this.scene.railState(lane, index);
        const button = make("button", {
          type: "button",
          class: `stage-token ${lane.side} ${state}`,
          "aria-pressed": isChosen,
          "data-token": `${lane.side}-${index}`,
          onclick: choose,
        }, wordAt(shape.tokens, index));
        if (!layout.tall) button.style.fontSize = `${Math.min(14.7, Math.max(9.5, 0.95 * lane.rails.gap))}px`;
        return placeAt(button, this.tokenBox(lane, index));
      });
    });
    const focused = this.tokens.querySelector(":focus")?.dataset.token;
    this.tokens.replaceChildren(...buttons);
    if (focused) this.tokens.querySelector(`[data-token="${focused}"]`)?.focus();
  }

  tokenBox(lane, index) {
    const { layout } = this;
    const thick = Math.max(layout.tall ? 10 : 12, Math.min(26, lane.rails.gap));
    return layout.box(2, lane.rails.at(index) - thick / 2, lane.from - 34, thick);
  }

  // One head alone, as long as the pointer or the focus is on it.
  peek(index, head) {
    const { stage, layout } = this;
    this.peeked = index === undefined ? null : { index, head };
    if (this.peeked) {
      const sides = sidesOf(stage.shape, index);
      const windows = [sides.rows, sides.keys].map((lane) => stage.windows[lane.side]);
      this.peeked.weights = stage.data.headWeights(index, head, ...windows)?.weights ?? null;
    }
    stage.reading.describePeek(this.peeked);
    this.refresh();
    return layout;
  }

  // Something has come, or was chosen.
  refresh() {
    const { stage } = this;
    if (this.peeked && !this.peeked.weights) {
      const sides = sidesOf(stage.shape, this.peeked.index);
      const windows = [sides.rows, sides.keys].map((lane) => stage.windows[lane.side]);
      this.peeked.weights = stage.data.headWeights(this.peeked.index, this.peeked.head, ...windows)?.weights ?? null;
    }
    const { token, by } = stage.now;
    const entries = stage.shape.predicts ? nextTokens(stage.run, token, stage.changedRow(token)) : null;
    this.scene.setView({ data: stage.data, token, focus: stage.focus, by, peek: this.peeked, bars: entries });
    this.bars.replaceChildren(entries ? barList(entries, stage.run.written[token]) : "");
    this.showTokens();
    showNexts(this);
    this.update(this.progress);
  }

  // A moment of the animation, from 0 to 1.
  update(progress) {
    this.progress = progress;
    this.scene.setProgress(progress, this.stage.withEncoder);
    for (const one of [this.bars, this.nexts]) one.classList.toggle("waiting", progress < 0.82);
    this.paint();
    flyToken(this, progress);
  }

  paint() {
    const { width, height } = this.layout;
    const density = devicePixelRatio || 1;
    const dots = [width * density, height * density].map(Math.round);
    if (this.canvas.width !== dots[0] || this.canvas.height !== dots[1]) {
      [this.canvas.width, this.canvas.height] = dots;
      Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.scene.paint(pen, density);
  }

  openBlockAt({ offsetX, offsetY }) {
    for (const lane of this.layout.lanes) {
      for (const block of lane.blocks) {
        const { x, y, w, h } = blockBox(this.layout, lane, block);
        const isInside = offsetX >= x && offsetX <= x + w && offsetY >= y && offsetY <= y + h;
        if (!isInside) continue;
        const attention = block.parts[0].index;
        const row = gaugeAt(this.layout, lane, block, { x: offsetX, y: offsetY });
        const isGauge = row !== null;
        this.stage.open(isGauge ? { level: 3, attention, part: FEED_FORWARD, row } : { level: 2, attention });
      }
    }
  }

  // The rectangle from which a deeper level grows.
  rectOf({ level, attention, head, part: isPart }) {
    for (const lane of this.layout.lanes) {
      for (const block of lane.blocks) {
        const part = block.parts.find((one) => one.index === attention);
        if (part) {
          return level === 2 || isPart ? blockBox(this.layout, lane, block) : paneBox(this.layout, part.panes[head]);
        }
      }
    }
    return null;
  }
}
