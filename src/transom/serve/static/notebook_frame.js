// In a frame of a notebook: tell the notebook what is chosen, and choose what it asks for.

import { isOffline } from "./offline.js";
import { chosenRow, isAvailable, NOTHING_CHOSEN, session, state } from "./state.js";

const NAMES = ["attention", "head", "row", "key"];

const chosen = () => ({
  ...Object.fromEntries(NAMES.map((name) => [name, state.now[name] ?? null])),
  row: chosenRow(),
});
const isIn = (value, count) => value === null || (Number.isInteger(value) && value >= 0 && value < count);

let isAnswered = false; // until the notebook has said what is chosen, the page's own first choice does not count

// A message is believed only from the notebook around the frame, and only as far as the run reaches.
function receive(event) {
  const wanted = event.source === parent ? event.data?.transom : null;
  isAnswered ||= Boolean(wanted);
  const attention = session.run?.attentions[wanted?.attention];
  if (!attention || !isIn(wanted.row, attention.queries) || !isIn(wanted.key, attention.keys)) return;
  if (!isIn(wanted.head, attention.heads) || !isAvailable(wanted.attention, wanted.head)) return;
  const place = Object.fromEntries(NAMES.map((name) => [name, wanted[name]]));
  state.set(wanted.row === null ? { ...NOTHING_CHOSEN, ...place } : place);
}

if (isOffline && parent !== window) {
  addEventListener("message", receive);
  state.on([...NAMES, "token", "opened", "run"], () => {
    if (!session.run) return;
    parent.postMessage({ transom: isAnswered ? chosen() : "ready" }, "*");
  });
}
