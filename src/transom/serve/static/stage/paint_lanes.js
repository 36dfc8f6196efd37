// The parts of the whole model that stand still: blocks, rails, the memory, additions, feed-forward parts, heads.

import { colourOf } from "./colours.js";
import { blockBox, paneBox } from "./layout.js";

const RADIUS = 10;
const NUMBERED = 22; // pixels: a pane with room for the number of its head

export function roundRect(pen, { x, y, w, h }, radius = RADIUS) {
  pen.beginPath();
  pen.roundRect(x, y, w, h, Math.min(radius, w / 2, h / 2));
}

export function line(pen, from, to) {
  pen.beginPath();
  pen.moveTo(from.x, from.y);
  pen.lineTo(to.x, to.y);
  pen.stroke();
}

export function paintBlocks(pen, scene) {
  const { layout, colours } = scene;
  for (const lane of layout.lanes) {
    for (const block of lane.blocks) {
      pen.fillStyle = colours.band;
      roundRect(pen, blockBox(layout, lane, block));
      pen.fill();
    }
  }
}

// A rail is a token's residual stream; it is dark where the animation has not come yet.
export function paintRails(pen, scene) {
  const { layout, colours } = scene;
  for (const lane of layout.lanes) {
    const { rails } = lane;
    pen.strokeStyle = colourOf(colours, lane.side);
    for (let index = rails.first; index < rails.first + rails.count; index += 1) {
      const stage = scene.railState(lane, index);
      const c = rails.at(index);
      pen.lineWidth = stage === "now" ? 2.2 : 1.2;
      pen.globalAlpha = stage === "dark" ? 0.12 : stage === "now" ? 0.9 : 0.38;
      pen.setLineDash(stage === "dark" ? [2, 5] : []);
      const to = Math.max(lane.from - 26, Math.min(lane.to, stage === "dark" ? lane.to : scene.fronts[lane.side]));
      line(pen, layout.at(lane.from - 26, c), layout.at(to, c));
    }
  }
  pen.setLineDash([]);
  if (layout.memory) paintMemory(pen, scene);
  pen.globalAlpha = 1;
}

// The encoder's rails turn round, and run back above the decoder.
function paintMemory(pen, { layout, colours, fronts }) {
  const [source, target] = layout.lanes;
  const { memory, turn } = layout;
  pen.strokeStyle = colours.source;
  pen.lineWidth = 1;
  pen.globalAlpha = fronts.source >= source.to ? 0.42 : 0.1;
  for (let index = source.rails.first; index < source.rails.first + source.rails.count; index += 1) {
    const out = source.rails.at(index);
    const back = memory.at(index);
    const reach = source.to +
      turn *
        (0.25 +
          (0.75 * (back - out)) / Math.max(1, memory.at(source.rails.first) - source.rails.at(source.rails.first)));
    const points = [[source.to, out], [reach, out], [reach, back], [source.to, back], [target.from, back]];
    const [a, b, c, d, e] = points.map((point) => layout.at(...point));
    pen.beginPath();
    pen.moveTo(a.x, a.y);
    pen.bezierCurveTo(b.x, b.y, c.x, c.y, d.x, d.y);
    pen.lineTo(e.x, e.y);
    pen.stroke();
  }
}

// ⊕ where something is added to a rail, and a gauge for the feed-forward part: how much it adds, beside the stream.
export function paintParts(pen, scene) {
  const { layout, colours } = scene;
  for (const lane of layout.lanes) {
    pen.strokeStyle = pen.fillStyle = colourOf(colours, lane.side);
    const isSmall = lane.rails.gap < 9;
    if (!isSmall && lane.blocks.length) paintEmbedding(pen, scene, lane);
    for (const block of lane.blocks) {
      const narrow = block.length < 40 || isSmall;
      for (let index = lane.rails.first; index < lane.rails.first + lane.rails.count; index += 1) {
        const state = scene.railState(lane, index);
        const c = lane.rails.at(index);
        const faded = (a) => (state === "dark" || scene.fronts[lane.side] < a ? 0.15 : state === "now" ? 1 : 0.75);
        for (const part of narrow ? [] : block.parts) plus(pen, scene, part.plus, c, faded(part.plus));
        pen.globalAlpha = faded(block.feedForward) * (narrow && state !== "now" ? 0.4 : 1);
        gauge(pen, scene, block, index, lane);
        if (!narrow) plus(pen, scene, block.plus, c, faded(block.plus));
      }
    }
  }
  pen.globalAlpha = 1;
}

// At the start of each rail: the token's embedding, and its position added to it.
function paintEmbedding(pen, scene, lane) {
  for (let index = lane.rails.first; index < lane.rails.first + lane.rails.count; index += 1) {
    const state = scene.railState(lane, index);
    const { x, y } = scene.layout.at(lane.from - 25, lane.rails.at(index));
    pen.globalAlpha = state === "dark" ? 0.15 : 0.85;
    pen.fillRect(x - 3.5, y - 3.5, 7, 7);
    plus(pen, scene, lane.from - 9, lane.rails.at(index), state === "dark" ? 0.15 : 0.85);
  }
}

function plus(pen, { layout, colours }, a, c, alpha) {
  const { x, y } = layout.at(a, c);
  const r = layout.tall ? 2.6 : 3.4;
  const ink = pen.fillStyle;
  pen.globalAlpha = alpha;
  pen.lineWidth = 1.1;
  pen.fillStyle = colours.ground;
  pen.beginPath();
  pen.arc(x, y, r, 0, 2 * Math.PI);
  pen.fill();
  pen.stroke();
  line(pen, { x: x - r, y }, { x: x + r, y });
  line(pen, { x, y: y - r }, { x, y: y + r });
  pen.fillStyle = ink;
}

function gauge(pen, scene, block, index, lane) {
  const { layout } = scene;
  const { x, y } = layout.at(block.feedForward, lane.rails.at(index));
  const high = Math.min(16, lane.rails.gap * 0.7);
  const share = scene.feedForwardShare(block.path, index);
  const ink = pen.fillStyle;
  const width = layout.tall ? 5 : 6;
  pen.fillStyle = scene.colours.panel;
  roundRect(pen, { x: x - width / 2, y: y - high / 2, w: width, h: high }, 2);
  pen.fill();
  pen.lineWidth = 0.8;
  pen.stroke();
  pen.fillStyle = ink;
  if (share !== null) pen.fillRect(x - width / 2, y + high / 2 - high * share, width, high * share);
}

// A pane is a head: its map, and light for how much it mattered.
export function paintPanes(pen, scene) {
  const { layout, colours, atlas } = scene;
  pen.imageSmoothingEnabled = false;
  for (const lane of layout.lanes) {
    for (const block of lane.blocks) {
      for (const part of block.parts) {
        const isReached = scene.fronts[lane.side] >= part.plus;
        for (const pane of part.panes) {
          const { x, y, w } = paneBox(layout, pane);
          const light = isReached ? scene.strengths.light(part.index, pane.head) ?? 0 : 0;
          const ink = scene.strengths.hinders(part.index, pane.head) ? colours.hinders : colours.lit;
          paintPane(pen, { x: x + 1, y: y + 1, size: w - 2, light, ink, colours });
          pen.globalAlpha = scene.strengths.influence && light < 0.15 ? 0.5 : 1;
          atlas?.draw(pen, part.index, pane.head, x + 2.5, y + 2.5, w - 5);
          pen.globalAlpha = 1;
          if (w >= NUMBERED) paintNumber(pen, pane.head, { x: x + 3, y: y + w - 4 }, colours);
        }
      }
    }
  }
}

function paintPane(pen, { x, y, size, light, ink, colours }) {
  pen.fillStyle = colours.panel;
  roundRect(pen, { x, y, w: size, h: size }, 4);
  pen.fill();
  pen.globalAlpha = Math.min(1, light);
  pen.fillStyle = ink;
  pen.fill();
  pen.globalAlpha = 1;
  pen.strokeStyle = light > 0.5 ? ink : colours.line;
  pen.lineWidth = light > 0.5 ? 2 : 0.8;
  pen.stroke();
}

// The number of a head in a corner of its pane.
function paintNumber(pen, head, { x, y }, colours) {
  pen.font = "600 9.5px system-ui, sans-serif";
  pen.lineWidth = 3;
  pen.strokeStyle = colours.panel;
  pen.fillStyle = colours.ink;
  pen.strokeText(String(head), x, y);
  pen.fillText(String(head), x, y);
}
