// How large the stage is, which tokens there is room for, and what one step on it is.

import { session, state } from "../state.js";
import { tallHeight } from "./layout.js";
import { validPlace } from "./place.js";
import { windowOf } from "./shape.js";

const NARROW = 640; // pixels: below, depth runs downwards
const RAILS = { wide: 16, pair: 12, narrow: 7 };
const INNER_HEIGHT = 560; // of inner levels on a narrow screen
const [FEW, MANY] = [7, 10]; // tokens of a lane beside another one: with more, the stage is higher
const BELOW = 20; // pixels under the stage

export function measureStage(stage) {
  const width = stage.area.clientWidth || stage.clientWidth;
  const tall = width < NARROW;
  const top = stage.area.getBoundingClientRect().top + scrollY;
  const isFull = stage.shape.lanes.length > 1 && stage.windows.target?.count > FEW && stage.now.level === 1;
  const room = Math.min(
    760,
    Math.max(isFull ? (stage.windows.target.count > MANY ? 640 : 590) : 440, innerHeight - top - BELOW),
  );
  const height = tall ? (stage.now.level === 1 ? tallHeight(stage.shape) : INNER_HEIGHT) : room;
  return { width, height, tall };
}

// For each lane the tokens that are shown: those up to the one that is read, and of the source about the same part.
export function findWindows(stage) {
  const isNarrow = stage.clientWidth < NARROW && !session.server?.taken; // an offline copy holds one window
  const most = isNarrow ? RAILS.narrow : stage.shape.lanes.length > 1 ? RAILS.pair : RAILS.wide;
  const { token } = validPlace(stage.run, stage.shape, state.now);
  const beside = (lane) => Math.floor(((token + 1) * lane.tokens.length) / stage.shape.last.tokens.length) + 1;
  const focus = (lane) => stage.moved?.[lane.side] ?? (lane === stage.shape.last ? token : beside(lane));
  const find = (lane) => windowOf(lane, most, Math.max(most - 1, focus(lane)));
  return Object.fromEntries(stage.shape.lanes.map((lane) => [lane.side, find(lane)]));
}

// One step of what is on the stage: the next token, or the next row; false where there is none.
export function takeStep(stage, by) {
  const { now, shape } = stage;
  if (now.level === 1) {
    const token = now.token + by;
    if (!shape.predicts || token < 0 || token >= shape.last.tokens.length) return false;
    stage.withEncoder = false;
    return stage.chooseToken(token);
  }
  const row = (stage.level.row ?? now.row ?? 0) + by;
  const rows = stage.run.attentions[now.attention].queries;
  if (now.level < 3 || now.level > 4 || row < 0 || row >= rows) return false;
  state.set({ row });
  return true;
}
