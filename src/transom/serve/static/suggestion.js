// Which head to look at: for the chosen token the one that mattered most to its prediction, else the one that mattered
// most to the whole text. Only a suggestion: what is shown changes only if it is taken.

import { get } from "./api.js";
import { nextOf, quote } from "./prediction_text.js";
import { session, state } from "./state.js";

const WHOLE = { first: 0, "first_target": 0, count: 1 }; // the heads come whole; of the edges, one is enough
const known = new Map(); // by run and token: what each head was worth, null if that is not known

// The head that helped most, by an answer of the route `influence` (if none helped, the one that hindered least); null
// where nothing can be followed back.
export function strongestHead(influence, run, token) {
  if (influence?.by !== "influence") return null;
  const heads = influence.heads.flatMap((worths, attention) =>
    worths.map((worth, head) => ({ attention, head, worth: worth ?? 0 }))
  );
  const best = heads.reduce((one, other) => (other.worth < one.worth ? other : one));
  const verb = best.worth <= 0 ? "helped" : "hindered";
  const why = `it ${verb} ${quote(nextOf(run, token)?.token)} most, by estimate`;
  return { ...best, why, compared: heads.length, hint: "estimated at once for all heads, by one backward pass" };
}

// What is suggested: at once what is known, and a notice on the page when more is.
export function suggestionFor(token) {
  const { run } = session;
  if (token === null || !run?.likely.length) return run?.suggestion ?? null;
  const name = `${run.run} ${token}`;
  if (!known.has(name)) {
    known.set(name, undefined);
    get(`/api/runs/${run.run}/influence`, { row: token, ...WHOLE }).then(
      (found) => known.set(name, strongestHead(found, run, token)),
      () => known.set(name, null), // an offline copy holds only some
    ).finally(() => state.notify("suggestion"));
  }
  const found = known.get(name);
  return found === undefined ? null : found ?? run.suggestion ?? null;
}
