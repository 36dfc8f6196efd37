// Where everything of the whole model stands: one pure function from its shape and the room to rectangles.
// Depth runs along the stage, left to right; on a narrow one (`tall`) downwards, with the axes swapped.

const LARGEST_PANE = 46;
const LARGEST_GAP = 30; // between rails
const GUTTER = 8; // between blocks
const LABEL = 24; // for the name of a block
const PANES_SHARE = { few: 0.46, many: 0.37 }; // of a lane, for its heads: beside few or many tokens
const TALL_SHARE = 0.25; // on a narrow screen tokens need the room more
const FEW = 7; // tokens
const WIDE = { enter: 104, leave: 196, turn: 44, top: 26 };
const TALL = { enter: 98, leave: 210, turn: 30, top: 6 };
const NEXT = { roomy: 104, slim: 74, from: 760 }; // for what each token predicts, at the end of its rail
const FEED_FORWARD = 0.16; // of a block's length

// The columns and the size with which the panes of a part are largest.
export function fitPanes(heads, along, across) {
  let best = { columns: 1, size: 0 };
  for (let columns = 1; columns <= heads; columns += 1) {
    const size = Math.min(along / columns, across / Math.ceil(heads / columns), LARGEST_PANE);
    if (size >= best.size - 0.01) best = { columns, size };
  }
  return best;
}

// Rails of a lane: evenly spaced, centred in their room.
function railsOf({ first, count }, start, room) {
  const gap = Math.min(LARGEST_GAP, room / Math.max(1, count));
  const top = start + (room - gap * count) / 2 + gap / 2;
  return { first, count, gap, at: (index) => top + (index - first) * gap };
}

// Panes of one part, in rows that are centred along the part.
function panesOf(part, from, to, start, room) {
  const { columns, size } = fitPanes(part.heads, to - from, room);
  const left = from + (to - from - columns * size) / 2;
  return Array.from({ length: part.heads }, (_, head) => ({
    head,
    along: left + (head % columns) * size,
    across: start + Math.floor(head / columns) * size,
    size,
  }));
}

function blockLayout(block, from, length, lane) {
  const gutter = Math.min(GUTTER, 0.15 * length);
  const start = from + gutter / 2;
  const inner = length - gutter;
  const margin = Math.min(4, 0.03 * inner);
  const each = (inner * (1 - FEED_FORWARD)) / block.parts.length;
  const share = inner / block.parts.length;
  const parts = block.parts.map((part, i) => {
    const left = start + i * share + margin;
    const panes = panesOf(part, left, left + share - 2 * margin, lane.panesAt, lane.panesRoom);
    return { ...part, from: start + (i + 0.1) * each, plus: start + (i + 0.88) * each, panes };
  });
  const feedForward = start + inner * (1 - 0.62 * FEED_FORWARD);
  const plus = start + inner * (1 - 0.2 * FEED_FORWARD);
  return { path: block.path, label: block.label, from: start, length: inner, parts, feedForward, plus };
}

// What the heads of a lane really need of their room.
function panesHeight(lane, length, room) {
  const needed = ({ parts }, part) => {
    const { columns, size } = fitPanes(part.heads, (0.79 * length) / parts.length, room);
    return Math.ceil(part.heads / columns) * size + 8;
  };
  const all = lane.blocks.flatMap((block) => block.parts.map((part) => needed(block, part)));
  return Math.min(room, Math.max(0, ...all));
}

// One lane between two places across the stage; `below` puts its heads under the rails.
function laneLayout(lane, { start, room, below, window, from, to, top, tall }) {
  const foot = below && top ? LABEL : 0; // the names of the blocks stand under the heads
  const length = lane.blocks.length ? (to - from) / lane.blocks.length : 0;
  const share = tall ? TALL_SHARE : PANES_SHARE[window.count > FEW ? "many" : "few"];
  const panesRoom = panesHeight(lane, length, (room - top - foot) * share);
  const railRoom = room - top - foot - panesRoom - 16;
  const panesAt = below ? start + top + railRoom + 16 : start + top;
  const railsAt = below ? start + top : start + top + panesRoom + 16;
  const rails = railsOf(window, railsAt, railRoom);
  const place = { panesAt, panesRoom };
  const blocks = lane.blocks.map((block, i) => blockLayout(block, from + i * length, length, place));
  return { side: lane.side, start, room, rails, from, to, blocks, below };
}

// The memory: the encoder's rails turn round and run back above the decoder.
function memoryLayout(source, start, room) {
  const gap = Math.min(14, room / Math.max(1, source.rails.count));
  const last = start + room / 2 + (gap * (source.rails.count - 1)) / 2;
  return { at: (index) => last - (index - source.rails.first) * gap, gap, start, room };
}

const nextRoom = (width, tall) => (!tall && width >= NEXT.from ? NEXT.roomy : NEXT.slim);

// `windows` has for each side the tokens that are shown: { source: { first, count }, … }.
export function layoutModel(shape, { width, height, tall, windows }) {
  const sizes = tall ? TALL : WIDE;
  const [length, across] = tall ? [height, width] : [width, height];
  const next = shape.predicts ? nextRoom(width, tall) : 0;
  const end = length - (shape.writes || tall ? sizes.leave : 24) - next;
  const at = (a, c) => (tall ? { x: c, y: a } : { x: a, y: c });
  const box = (a, c, along, wide) => {
    const corner = at(a, c);
    return tall ? { ...corner, w: wide, h: along } : { ...corner, w: along, h: wide };
  };
  const isPair = shape.lanes.length > 1;
  const lanes = shape.lanes.map((lane, i) => {
    const below = isPair && i === 1;
    const [start, room] = !isPair ? [0, across] : below ? [0.54 * across, 0.46 * across] : [0, 0.42 * across];
    const to = !isPair || below ? end : tall ? end - 24 : length - 110;
    const top = below ? (tall ? 0 : 4) : sizes.top;
    return laneLayout(lane, { start, room, below, window: windows[lane.side], from: sizes.enter, to, top, tall });
  });
  const memory = isPair ? memoryLayout(lanes[0], 0.43 * across, 0.11 * across) : null;
  const bars = barsLayout(lanes.at(-1), { width, tall, end: end + next });
  return { next, width, height, tall, at, box, lanes, memory, turn: sizes.turn, end, enter: sizes.enter, bars };
}

// The likeliest next tokens stand where the last lane ends.
function barsLayout(lane, { width, tall, end }) {
  if (tall) return { x: 12, y: end + 34, w: width - 24, step: 26 };
  const middle = lane.rails.at(lane.rails.first) + (lane.rails.gap * (lane.rails.count - 1)) / 2;
  const lowest = lane.start + lane.room - 196;
  return { x: end + 44, y: Math.max(lane.start + 4, Math.min(middle - 96, lowest)), w: width - end - 52, step: 32 };
}

// The rectangle of a pane on the stage.
export const paneBox = (layout, pane) => layout.box(pane.along, pane.across, pane.size, pane.size);

// The rectangle of a block: its heads and its rails.
export function blockBox(layout, lane, block) {
  return layout.box(block.from, lane.start + 2, block.length, lane.room - 4);
}

const NEAR = 9; // pixels: a gauge is small

// The token whose feed-forward gauge is at a place of the stage; null if none is.
export function gaugeAt(layout, { rails }, block, { x, y }) {
  for (let index = rails.first; index < rails.first + rails.count; index += 1) {
    const gauge = layout.at(block.feedForward, rails.at(index));
    if (Math.abs(gauge.x - x) < NEAR && Math.abs(gauge.y - y) < Math.min(NEAR, rails.gap / 2)) return index;
  }
  return null;
}

// How high the stage must be for a width on a narrow screen, where blocks follow each other downwards.
export function tallHeight(shape) {
  const most = Math.max(...shape.lanes.map((lane) => lane.blocks.length));
  const next = shape.predicts ? NEXT.slim : 0;
  return TALL.enter + next + TALL.leave + Math.max(300, most * Math.max(34, Math.min(104, 1100 / most)));
}
