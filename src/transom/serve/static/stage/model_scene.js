// One moment of the whole model: how far the computation has come, which tokens are lit, and what is drawn of it.

import { colourOf, toNumbers } from "./colours.js";
import { FlowStrengths } from "./flow_strengths.js";
import { collectRibbons, paintFan, paintRibbons, paintRider } from "./paint_flows.js";
import { paintBlocks, paintPanes, paintParts, paintRails } from "./paint_lanes.js";
import { Atlas } from "./atlas.js";
import { placeOf } from "./shape.js";

const ENCODED = 0.4; // of a sweep: the encoder has run
const COMPUTED = 0.82; // the token has come to its end, and the next one is chosen

export const clamp = (value, low = 0, high = 1) => Math.min(high, Math.max(low, value));

// How far along the stage each side has come. Only the first token waits for the encoder.
export function frontsOf(layout, progress, withEncoder) {
  const share = clamp(progress / COMPUTED);
  const split = withEncoder && layout.memory ? ENCODED : 0;
  const reach = (lane, part) => (part >= 1 ? Infinity : lane.from - 26 + part * (lane.to - lane.from + 26));
  const last = layout.lanes.at(-1);
  const fronts = { [last.side]: reach(last, clamp((share - split) / (1 - split))) };
  if (layout.memory) fronts.source = split ? reach(layout.lanes[0], clamp(share / split)) : Infinity;
  return fronts;
}

export class ModelScene {
  constructor(layout, shape, colours) {
    Object.assign(this, { layout, shape, colours });
  }

  // What is known by now, and what is chosen.
  setView({ data, token, focus, by, peek, bars }) {
    const mean = data.meanWeights()?.attentions;
    const influence = data.influence(token) ?? null;
    Object.assign(this, { data, token, focus, peek, bars });
    this.strengths = new FlowStrengths({ mean, influence, by, peek });
    this.sizes = new Map((data.residual()?.blocks ?? []).map((one) => [one.block, one]));
    this.fronts = frontsOf(this.layout, 1, false);
    this.ribbons = collectRibbons(this);
    this.layers = null;
    if (data.thumbnails.some((one) => one !== this.known?.[data.thumbnails.indexOf(one)])) this.buildAtlas(data);
  }

  buildAtlas(data) {
    this.known = [...data.thumbnails];
    const colours = Object.fromEntries(
      ["source", "text", "target"].map((side) => [side, toNumbers(colourOf(this.colours, side))]),
    );
    const sideOf = (index) => placeOf(this.shape, index)?.lane.side ?? "text";
    this.atlas = new Atlas(data.thumbnails, colours, sideOf);
  }

  setProgress(progress, withEncoder) {
    if (withEncoder !== this.withEncoder) this.layers = null;
    this.withEncoder = withEncoder;
    this.fronts = frontsOf(this.layout, progress, withEncoder);
    this.rider = progress > 0 && progress < COMPUTED ? this.riderPlace() : null;
  }

  riderPlace() {
    const last = this.layout.lanes.at(-1);
    const lane = this.layout.lanes.find((one) => this.fronts[one.side] < one.to && this.fronts[one.side] > one.from) ??
      last;
    const { rails } = lane;
    const middle = rails.at(rails.first) + (rails.gap * (rails.count - 1)) / 2;
    const isToken = lane === last && this.shape.predicts;
    return { along: Math.min(this.fronts[lane.side], lane.to), across: isToken ? rails.at(this.token) : middle };
  }

  // Of a token on its lane: "now", "past", "dark" if it is not written yet, or "plain".
  railState(lane, index) {
    if (lane.side === this.shape.last.side && this.shape.predicts) {
      return index === this.token ? "now" : index > this.token ? "dark" : "past";
    }
    if (this.focus === null || this.focus === undefined) return "plain";
    return index === this.focus ? "now" : "past";
  }

  // What the feed-forward part adds to a token, as a share of what it adds at most in this block; null if not known.
  feedForwardShare(path, index) {
    const found = this.sizes.get(path)?.parts.find((part) => part.kind === "feed_forward");
    return found ? found.size[index] / Math.max(...found.size) : null;
  }

  // Two pictures are painted when something has come or was chosen: before the computation, and after it. A frame
  // shows the second one as far as the computation has come.
  paint(pen, density) {
    const { width, height, lanes } = this.layout;
    const { fronts } = this;
    this.layers ??= [-Infinity, Infinity].map((front) => this.paintLayer(front, density));
    this.fronts = fronts;
    const isDone = lanes.every((lane) => fronts[lane.side] === Infinity);
    pen.drawImage(this.layers[isDone ? 1 : 0], 0, 0, width, height);
    for (const lane of isDone ? [] : lanes) this.paintReached(pen, lane);
    paintRider(pen, this);
  }

  paintLayer(front, density) {
    const { width, height, lanes } = this.layout;
    const layer = new OffscreenCanvas(Math.max(1, width * density), Math.max(1, height * density));
    const pen = layer.getContext("2d");
    pen.scale(density, density);
    const isEncoded = (lane) => lane.side === "source" && lanes.length > 1 && !this.withEncoder;
    this.fronts = Object.fromEntries(lanes.map((lane) => [lane.side, isEncoded(lane) ? Infinity : front]));
    paintBlocks(pen, this);
    paintRails(pen, this);
    paintRibbons(pen, this, this.ribbons);
    paintParts(pen, this);
    paintPanes(pen, this);
    paintFan(pen, this);
    return layer;
  }

  // What a lane has reached; the memory comes with the lane that reads it.
  paintReached(pen, lane) {
    const { width, height, tall, memory } = this.layout;
    const isLast = lane.side === this.shape.last.side;
    const start = isLast && memory ? memory.start : isLast ? 0 : lane.start;
    const end = isLast ? (tall ? width : height) : memory.start;
    const along = Math.min(this.fronts[lane.side], tall ? height : width);
    const { x, y, w, h } = this.layout.box(0, start, Math.max(0, along), end - start);
    pen.save();
    pen.beginPath();
    pen.rect(x, y, w, h);
    pen.clip();
    pen.drawImage(this.layers[1], 0, 0, width, height);
    pen.restore();
  }
}
