// The structure of a model, from the attentions of a run: lanes of tokens, their blocks, and the parts of each block.
// Nothing here touches the page.

const BLOCK = /^(?:.*?\.)?\d+(?=\.|$)/;
const LABELS = { source: "encoder", target: "decoder", text: "layer" };
export const PADDING = { before: 0, after: 0 };

// The path of a block: that of its attention up to the first number.
export const blockPath = (name) => name.match(BLOCK)?.[0] ?? name;

const sideOf = ({ role }) => (role === "encoder" ? "source" : role === "self" ? "text" : "target");

// Tokens of one side of a run; a trace without tokens has their numbers.
function tokensOf(run, side, count) {
  const given = side === "target" && run.targets.length ? run.targets : run.tokens;
  return Array.from({ length: count }, (_, index) => given[index] ?? String(index));
}

// Blocks in the order of running; an attention that comes twice in a block begins another one.
function blocksOf(attentions, side) {
  const blocks = [];
  for (const one of attentions) {
    const path = blockPath(one.name);
    const kind = one.role === "cross" ? "cross" : "attention";
    const last = blocks.at(-1);
    const isNew = last?.path !== path || last.parts.some((part) => part.kind === kind);
    if (isNew) blocks.push({ path, label: `${LABELS[side]} ${blocks.length}`, parts: [] });
    blocks.at(-1).parts.push({ kind, index: one.index, heads: one.heads, name: one.name });
  }
  return blocks;
}

// { lanes, kind }: the lanes are source and target of a translator, or the text of a model with one side.
export function modelShape(run) {
  const sides = Object.groupBy(run.attentions, sideOf);
  const cross = run.attentions.find((one) => one.role === "cross");
  if (cross && !sides.source) sides.source = [];
  const lanes = ["source", "text", "target"].filter((side) => sides[side]).map((side) => {
    const first = sides[side][0];
    const count = first ? first.queries : cross.keys;
    return { side, tokens: tokensOf(run, side, count), blocks: blocksOf(sides[side], side) };
  });
  const predicts = run.likely.length > 0;
  return { lanes, predicts, writes: predicts || run.written.length > 0, last: lanes.at(-1) };
}

// Where an attention is: its lane, its block and its part.
export function placeOf(shape, index) {
  for (const lane of shape.lanes) {
    for (const [number, block] of lane.blocks.entries()) {
      const part = block.parts.find((one) => one.index === index);
      if (part) return { lane, block, number, part };
    }
  }
  return null;
}

export const laneOf = (shape, side) => shape.lanes.find((lane) => lane.side === side) ?? shape.lanes[0];

// The lanes that an attention reads and writes: cross-attention reads the source.
export function sidesOf(shape, index) {
  const place = placeOf(shape, index);
  return { rows: place.lane, keys: place.part.kind === "cross" ? laneOf(shape, "source") : place.lane };
}

// The tokens of a lane that there is room for: all, or those up to the one in focus.
export function windowOf(lane, most, focus) {
  const count = Math.min(lane.tokens.length, most);
  const last = Math.min(lane.tokens.length - 1, Math.max(count - 1, focus ?? lane.tokens.length - 1));
  return { first: last - count + 1, count };
}
