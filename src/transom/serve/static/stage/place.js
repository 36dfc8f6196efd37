// A place on the stage: how deep, and where. It is in the address; what does not fit the run falls back outwards.

export const LEVELS = ["model", "block", "head", "row", "number"]; // level 1 to 5

// The state with what the run does not have taken away.
export function validPlace(run, shape, now) {
  const attention = run.attentions[now.attention];
  let level = Math.min(LEVELS.length, Math.max(1, Math.trunc(now.level ?? 1)));
  if (!attention) level = 1;
  if (level >= 3 && !(now.head < attention.heads)) level = 2;
  if (level >= 4 && !(now.row !== null && now.row < attention.queries)) level = 3;
  if (level >= 5 && !(now.key !== null && now.key < attention.keys)) level = 4;
  const rows = shape.last.tokens.length;
  const isThere = now.token !== null && now.token !== undefined && now.token < rows;
  return { level, token: isThere ? now.token : firstToken(run, shape) };
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
export function placeKey({ level, attention, head, row, key }, blockPath) {
  return [level, level > 1 && blockPath, level > 2 && `${attention}/${head}`, level > 3 && row, level > 4 && key]
    .filter((one) => one !== false).join(" ");
}
