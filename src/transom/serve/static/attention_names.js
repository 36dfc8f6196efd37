// One name for an attention in all views: plain words with the number of its layer. Its path in the model is a hint.

import { session } from "./state.js";
import { modelShape, placeOf } from "./stage/shape.js";

const shapes = new WeakMap(); // by run

export function shapeOf(run) {
  if (!shapes.has(run)) shapes.set(run, modelShape(run));
  return shapes.get(run);
}

// “decoder 2, cross-attention”; a model that reads one text has only “layer 2”.
export function attentionName(index, run = session.run) {
  const { block, lane, part } = placeOf(shapeOf(run), index);
  if (part.kind === "cross") return `${block.label}, cross-attention`;
  return lane.side === "text" ? block.label : `${block.label}, self-attention`;
}

export const headName = (index, head, run = session.run) => `${attentionName(index, run)}, head ${head}`;
