// A place on the stage: how deep, and where. It is in the address; what does not fit the run falls back outwards.

import { placeOf } from "./shape.js";

export const FEED_FORWARD = "feed_forward"; // the part of a block that is no head: then level 4 is one of its units
export const LEVELS = ["model", "block", "head", "row", "number"]; // level 1 to 5

// The state with what the run does not have taken away.
export function validPlace(run, shape, now) {
  const attention = run.attentions[now.attention];
  const isPart = now.part === FEED_FORWARD;
  let level = Math.min(LEVELS.length, Math.max(1, Math.trunc(now.level ?? 1)));
  if (!attention) level = 1;
  if (isPart && level >= 3) level = level > 3 && typeof now.unit === "number" ? 4 : 3;
  else if (level >= 3 && !(now.head < attention.heads)) level = 2;
  if (!isPart && level >= 4 && !(now.row !== null && now.row < attention.queries)) level = 3;
  if (!isPart && level >= 5 && !(now.key !== null && now.key < attention.keys)) level = 4;
  const rows = shape.last.tokens.length;
  const isThere = now.token !== null && now.token !== undefined && now.token < rows;
  const token = isThere ? now.token : firstToken(run, shape);
  return isPart && level >= 3 ? { level, token, row: rowOfPart(run, shape, now, token) } : { level, token, part: null };
}

// The token of a feed-forward part: the row that is chosen, else the token that predicts.
function rowOfPart(run, shape, { attention, row }, token) {
  const { lane } = placeOf(shape, attention);
  const isPredicting = shape.predicts && lane === shape.last;
  const isThere = typeof row === "number" && row < run.attentions[attention].queries;
  return isThere ? row : isPredicting || lane === shape.last ? token : 0;
}

// What is given up on the way to a place: all that is deeper than it, and a part beside it.
export function forgotten({ level, head }) {
  const part = level < 3 || head !== undefined ? { part: null } : {};
  const unit = level < 4 || head !== undefined ? { unit: null } : {};
  const rest = level < 3 ? { row: null, key: null } : level < 5 ? { key: null } : {};
  return { ...rest, ...part, ...unit };
}

// Which prediction is shown first: of a translation the one that the model was least sure of, else the last.
export function firstToken(run, shape) {
  const last = shape.last.tokens.length - 1;
  if (!shape.predicts || shape.last.side !== "target") return last;
  const chances = run.likely.map((likely) => likely[0].probability);
  return Math.min(last, chances.indexOf(Math.min(...chances)));
}

// The token whose prediction is looked at: the one chosen, else the first one.
export const chosenToken = (run, shape, token) => (token in run.likely ? token : firstToken(run, shape));

// What makes a place another one; the token alone does not.
export function placeKey({ level, attention, head, row, key, part, unit }, blockPath) {
  if (part) return [level, blockPath, part, unit].join(" ");
  return [level, level > 1 && blockPath, level > 2 && `${attention}/${head}`, level > 3 && row, level > 4 && key]
    .filter((one) => one !== false).join(" ");
}
