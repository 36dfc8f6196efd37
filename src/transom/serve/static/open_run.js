// A run comes into view: from the server at the start, by its number, or fresh from the model.

import { get } from "./api.js";
import { make } from "./dom.js";
import { announce, session, state, withErrors } from "./state.js";

// What is chosen inside a run means nothing in another one.
export const NO_PLACE = { row: null, key: null, x: null, y: null, zoom: null, level: null, token: null };

// Show a run: with what the address asks for, as far as the run has it.
export function showRun(run) {
  session.run = run;
  const same = state.now.run === run.run;
  const { attention, head } = same ? headOfAddress(run) : firstHead(run);
  state.set({ run: run.run, attention, head, ...(same ? {} : NO_PLACE) });
  state.notify("opened");
  announce(`${run.attentions.length} attentions to look at`);
  withErrors(() => suggestHead(run.run));
}

// The head that an offline copy was made for, else the first of the last attention from target to source.
function firstHead(run) {
  const last = run.attentions.findLastIndex((one) => one.role === "cross");
  return session.server.taken ?? { attention: last >= 0 ? last : run.attentions.length - 1, head: 0 };
}

function headOfAddress(run) {
  const first = firstHead(run);
  const asked = state.now.attention;
  const attention = asked !== null && asked < run.attentions.length ? asked : first.attention;
  return { attention, head: state.now.head < run.attentions[attention].heads ? state.now.head : first.head };
}

// The head that the server ranks first is offered: what is shown changes only if that is chosen.
async function suggestHead(run) {
  const found = await get(`/api/runs/${run}/telling`);
  if (session.run.run !== run || found.attention === null) return;
  session.run.suggestion = found;
  state.notify("suggestion");
}

// The runs so far as options of a select; a run without a text goes by `nameless`.
export async function runOptions(nameless, isSelected, isWanted = () => true) {
  const runs = (await withErrors(() => get("/api/state")))?.runs ?? [];
  const label = (one) => `${one.run}: ${(one.text ?? nameless).slice(0, 28)}`;
  return runs.filter(isWanted).map((one) => make("option", { value: one.run, selected: isSelected(one) }, label(one)));
}
