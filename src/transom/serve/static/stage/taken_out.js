// What was taken out of the model last, an arrow or a whole head, and what came of it.

import { post } from "../api.js";

// The predictions of a run before and after some edges are knocked out.
export const knockOut = ({ run }, edges) => post(`/api/runs/${run}/knock_out`, { edges });

export async function takeOut(stage, edges, label) {
  const { run, now: { attention } } = stage; // as it was asked: the visitor may go elsewhere meanwhile
  const found = await knockOut(run, edges);
  if (stage.run !== run) return;
  const [{ head, query = null, key = null }] = edges;
  stage.changes = { ...found, label, attention, head, query, key };
  if (key === null) stage.withoutHead.set(`${attention} ${head}`, found);
}

// What was taken out of a head is not said inside another one.
export function dropOthers(stage, { level, attention, head }) {
  const { changes } = stage;
  if (changes && level >= 3 && (attention !== changes.attention || head !== changes.head)) stage.changes = null;
}

// Whether an arrow of the head that is shown was taken out last.
export function isTakenOut({ changes, now }, query, key) {
  if (!changes || changes.attention !== now.attention || changes.head !== now.head) return false;
  return changes.key === null || (changes.query === query && changes.key === key);
}
