// What moves through the whole model: ribbons from token to token, the token that is on its way, and the fan of what
// comes next.

import { colourOf } from "./colours.js";

const FAINTEST = 0.03;
const MOST_RIBBONS = 500;
const CROWDED = 30; // pixels of a part: there the tokens that are not chosen stay in the background

// The curve of a ribbon leaves and arrives along the flow.
function curve(pen, layout, [a1, c1], [a2, c2], bend) {
  const from = layout.at(a1, c1);
  const to = layout.at(a2, c2);
  const first = layout.at(a1 + (a2 - a1) * bend, c1);
  const second = layout.at(a2 - (a2 - a1) * bend, c2);
  pen.beginPath();
  pen.moveTo(from.x, from.y);
  pen.bezierCurveTo(first.x, first.y, second.x, second.y, to.x, to.y);
}

// Every ribbon there is to draw, with its strength; the strongest come last, over the others.
export function collectRibbons(scene) {
  const found = [];
  for (const lane of scene.layout.lanes) {
    for (const block of lane.blocks) {
      for (const part of block.parts) collectOf(scene, lane, part, found);
    }
  }
  found.sort((one, other) => one.strength - other.strength);
  return found.slice(-MOST_RIBBONS);
}

function collectOf(scene, lane, part, found) {
  const source = scene.layout.lanes[0];
  const isCross = part.kind === "cross";
  const keys = isCross ? source.rails : lane.rails;
  const keyAt = isCross ? scene.layout.memory.at : lane.rails.at;
  const start = isCross ? Math.min(part.from, part.plus - 20) : part.from;
  const widest = Math.min(lane.rails.gap * 0.5, 0.3 * (part.plus - start));
  for (let i = 0; i < lane.rails.count; i += 1) {
    const row = lane.rails.first + i;
    const state = scene.railState(lane, row);
    if (state === "dark") continue;
    for (let j = 0; j < keys.count; j += 1) {
      const strength = scene.strengths.of(part.index, i, j);
      if (strength < FAINTEST) continue;
      const from = [start, keyAt(keys.first + j)];
      found.push({
        from,
        to: [part.plus, lane.rails.at(row)],
        strength,
        state,
        part,
        side: lane.side,
        isCross,
        widest,
        hinders: scene.strengths.edgeHinders(part.index, i, j),
      });
    }
  }
}

export function paintRibbons(pen, scene, ribbons) {
  const { layout, colours, fronts, peek } = scene;
  pen.lineCap = "butt";
  for (const { from, to, strength, state, part, side, isCross, widest, hinders } of ribbons) {
    if (state !== "past" && fronts[side] < to[0]) continue;
    const isPeeked = peek?.index === part.index;
    const isCrowded = to[0] - from[0] < CROWDED;
    const dim = peek && !isPeeked ? 0.2 : state === "past" ? (isCrowded && !isPeeked ? 0.08 : 0.35) : 1;
    pen.globalAlpha = Math.min(1, (0.12 + 0.75 * strength ** 0.8) * dim);
    pen.lineWidth = 0.6 + Math.min(1, strength) * widest;
    const ink = isCross ? crossInk(pen, layout, from, to, colours) : colourOf(colours, side);
    pen.strokeStyle = hinders ? colours.hinders : ink;
    curve(pen, layout, from, to, isCross ? 0.6 : 0.5);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

// From the colour of the source to that of the target.
function crossInk(pen, layout, from, to, colours) {
  const [a, b] = [layout.at(...from), layout.at(...to)];
  const ink = pen.createLinearGradient(a.x, a.y, b.x, b.y);
  ink.addColorStop(0.1, colours.source);
  ink.addColorStop(0.9, colours.target);
  return ink;
}

// The token on its way, at the front of what is computed.
export function paintRider(pen, scene) {
  const { layout, colours, rider } = scene;
  if (!rider) return;
  const { x, y } = layout.at(rider.along, rider.across);
  pen.fillStyle = colours.lit;
  pen.strokeStyle = colours.ink;
  pen.lineWidth = 1.2;
  pen.beginPath();
  pen.arc(x, y, layout.tall ? 4 : 6, 0, 2 * Math.PI);
  pen.fill();
  pen.stroke();
}

// From the rail of the token that is read to what is likely next: the wider, the likelier.
export function paintFan(pen, scene) {
  const { layout, colours, bars, token } = scene;
  const lane = layout.lanes.at(-1);
  const isShown = token >= lane.rails.first && token < lane.rails.first + lane.rails.count;
  if (!bars || !isShown || scene.fronts[lane.side] < lane.to || layout.tall) return;
  const from = layout.at(lane.to + layout.next, lane.rails.at(token));
  pen.strokeStyle = colourOf(colours, lane.side);
  bars.forEach(({ probability }, i) => {
    const to = { x: layout.bars.x - 6, y: layout.bars.y + i * layout.bars.step + 12 };
    const middle = (from.x + to.x) / 2;
    pen.globalAlpha = 0.2 + 0.6 * probability;
    pen.lineWidth = 0.8 + 9 * probability;
    pen.beginPath();
    pen.moveTo(from.x, from.y);
    pen.bezierCurveTo(middle, from.y, middle, to.y, to.x, to.y);
    pen.stroke();
  });
  pen.globalAlpha = 1;
}
