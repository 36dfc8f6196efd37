// Inside a block: its heads side by side, and how long each token's vector is as the parts are added.

import { draw, make } from "../dom.js";
import { formatNumber, wordOf } from "../token_text.js";
import { colourOf, stageColours, toNumbers } from "./colours.js";
import { clamp, text } from "./draw_tools.js";
import { FlowStrengths } from "./flow_strengths.js";
import { FEED_FORWARD } from "./place.js";
import { placeOf, sidesOf } from "./shape.js";
import { worthHint, worthLabel, worthOf } from "./worth_text.js";

const TITLES = {
  source: { attention: "Self-attention: reads its own sentence" },
  text: { attention: "Self-attention: reads the text" },
  target: {
    attention: "Masked self-attention: reads what is written so far",
    cross: "Cross-attention: reads the source",
  },
};
const PARTS = { attention: "+ attention", cross: "+ cross-attention", "feed_forward": "+ feed-forward" };
const MOST_BARS = 24;

export class BlockLevel {
  constructor(stage) {
    this.stage = stage;
    this.element = make("div", { class: "level block-level" });
    this.place = placeOf(stage.shape, stage.now.attention);
    this.progress = 1;
    this.refresh();
  }

  get duration() {
    return 2600;
  }

  refresh() {
    const { stage, place } = this;
    this.influence = stage.data.influence(stage.now.token);
    this.strengths = new FlowStrengths({ influence: this.influence });
    const focused = this.element.querySelector(":focus")?.dataset.card;
    const parts = place.block.parts.map((part) => this.partCards(part));
    this.chart = this.sizesChart();
    this.element.replaceChildren(...parts, this.feedForwardCard(), ...this.chart);
    if (focused) this.element.querySelector(`[data-card="${focused}"]`)?.focus();
    this.update(this.progress);
  }

  partCards(part) {
    const heads = Array.from({ length: part.heads }, (_, head) => this.headCard(part, head));
    const title = TITLES[this.place.lane.side][part.kind] ?? part.name;
    return make("section", { class: "head-cards", "aria-label": title }, make("h2", {}, title), make("div", {}, heads));
  }

  headCard(part, head) {
    const { stage } = this;
    const light = this.strengths.light(part.index, head);
    const worth = worthOf(stage, part.index, head);
    const open = () => stage.open({ level: 3, attention: part.index, head });
    const card = make(
      "button",
      { type: "button", class: "head-card", onclick: open, "data-card": `${part.index}-${head}` },
      make("span", { class: "name" }, `head ${head}`),
      this.thumbnail(part.index, head),
      make("span", { class: "worth", title: worthHint(worth) }, worthLabel(worth)),
    );
    if (worth?.change > 0) card.classList.add("hinders");
    if (light !== null) card.style.setProperty("--light", `${Math.round(100 * clamp(light))}%`);
    return card;
  }

  // The way into the part that is no head.
  feedForwardCard() {
    const { stage, place } = this;
    const isPredicting = stage.shape.predicts && place.lane === stage.shape.last;
    const token = place.lane.tokens[isPredicting ? stage.now.token : 0];
    const open = () => stage.open({ level: 3, attention: place.block.parts[0].index, part: FEED_FORWARD, row: null });
    const card = make(
      "button",
      { type: "button", class: "head-card feed-forward-card", onclick: open, "data-card": FEED_FORWARD },
      make("span", { class: "name" }, `hidden units at “${wordOf(token)}”`),
      make("span", {}, "which did most, and what is added"),
    );
    const title = "Feed-forward: works on each token alone";
    return make("section", { class: "head-cards", "aria-label": title }, make("h2", {}, title), make("div", {}, card));
  }

  // The head's map, a cell a dot; the style sheet makes it as large as the card.
  thumbnail(index, head) {
    const found = this.stage.data.thumbnails[index];
    if (!found) return make("span", { class: "thumbnail waiting" });
    const canvas = make("canvas", {
      class: "thumbnail",
      width: found.columns,
      height: found.rows,
      "aria-hidden": "true",
    });
    const [red, green, blue] = toNumbers(colourOf(stageColours(), this.place.lane.side));
    const image = new ImageData(found.columns, found.rows);
    found.cells[head].forEach((byte, i) => image.data.set([red, green, blue, byte], 4 * i));
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  // What comes in, and what each part adds: a bar for each token.
  sizesChart() {
    const found = this.stage.data.residual();
    if (!found) {
      return [make("p", { class: "hint", role: "status" }, found === null ? "" : "Measuring what each part adds …")];
    }
    const block = found.blocks.find((one) => one.block === this.place.block.path);
    if (!block) return [make("p", { class: "hint" }, `How much each part adds is not shown: ${found.missing}.`)];
    const { first, count } = this.stage.windows[this.place.lane.side];
    const range = [first, first + Math.min(count, MOST_BARS)];
    const tokens = this.place.lane.tokens.slice(...range).map(wordOf);
    const stages = [
      ["comes in", block.before],
      ...block.parts.map((part) => [PARTS[part.kind], part.size]),
      ["goes out", block.after],
    ].map(([title, sizes]) => [title, sizes.slice(...range)]);
    const most = Math.max(...stages.flatMap(([, sizes]) => sizes));
    const title = make("h2", {}, "How long each token’s vector is, and what each part adds");
    const note = make("p", { class: "hint" }, "Vectors point different ways, so their lengths do not add up.");
    return [
      make(
        "section",
        { class: "sizes" },
        title,
        make("div", {}, stages.map((one) => sizesOf(one, tokens, most, this.place.lane.side))),
        note,
      ),
    ];
  }

  update(progress) {
    this.progress = progress;
    const columns = [...this.element.querySelectorAll(".sizes figure")];
    columns.forEach((one, i) => one.classList.toggle("dark", progress < (i + 0.5) / (columns.length + 0.5)));
  }

  rectOf({ attention, head, part }) {
    const card = this.element.querySelector(`[data-card="${part ?? `${attention}-${head}`}"]`);
    return card ? boxWithin(card, this.element) : null;
  }

  get sentence() {
    const { block, lane } = this.place;
    const heads = block.parts.reduce((sum, part) => sum + part.heads, 0);
    const sides = sidesOf(this.stage.shape, block.parts.at(-1).index);
    return `${block.label}: ${heads} heads read at once. ${
      lane.side === "target" ? `The source has ${sides.keys.tokens.length} tokens.` : ""
    }`;
  }
}

const shorten = (token) => ([...token].length > 4 ? `${[...token].slice(0, 3).join("")}…` : token);

function sizesOf([title, sizes], tokens, most, side) {
  const [width, height] = [26 * sizes.length, 84];
  const bars = sizes.map((size, i) => {
    const tall = (size / most) * (height - 16);
    return [
      draw("rect", { x: 26 * i + 3, y: height - tall, width: 20, height: tall, rx: 2, class: `length ${side}` }),
      text(26 * i + 13, height - tall - 3, Math.round(size), "number", { "text-anchor": "middle" }),
      text(26 * i + 13, height + 11, shorten(tokens[i]), "number", { "text-anchor": "middle" }),
    ];
  });
  const label = `${title}: ${tokens.map((token, i) => `${token} ${formatNumber(sizes[i], 1)}`).join(", ")}`;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height + 14}`, role: "img", "aria-label": label }, bars.flat());
  return make("figure", {}, svg, make("figcaption", {}, title));
}

// The rectangle of an element within another one.
export function boxWithin(element, outer) {
  const [inside, around] = [element.getBoundingClientRect(), outer.getBoundingClientRect()];
  return { x: inside.x - around.x, y: inside.y - around.y, w: inside.width, h: inside.height };
}
