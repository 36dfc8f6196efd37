// A run comes into view: from the server at the start, by its number, or fresh from the model.

import { get } from "./api.js";
import { attempt, open, say, state } from "./state.js";
import { make } from "./words.js";

// Take over a run: what the address asks for, as far as the run has it.
export function opened(run) {
  open.run = run;
  const asked = state.now.attention, last = run.attentions.findLastIndex((one) => one.role === "cross");
  const same = state.now.run === run.run, first = open.studio.taken ?? { attention: last >= 0 ? last : run.attentions.length - 1, head: 0 };
  const attention = same && asked !== null && asked < run.attentions.length ? asked : first.attention;
  const head = same && state.now.head < run.attentions[attention].heads ? state.now.head : first.head;
  state.set({ run: run.run, attention, head, row: same ? state.now.row : null, key: same ? state.now.key : null });
  state.dispatchEvent(new CustomEvent("change", { detail: new Set(["opened"]) }));
  say(`${run.attentions.length} attentions to look at`);
  if (!same) attempt(async () => telling(run.run, attention, head));
}

// The head that matters most, unless the person has chosen another one meanwhile.
async function telling(run, attention, head) {
  const found = await get(`/api/runs/${run}/telling`);
  const untouched = state.now.run === run && state.now.attention === attention && state.now.head === head && state.now.key === null;
  if (untouched && found.attention !== null) { open.run.telling = found; state.set({ attention: found.attention, head: found.head }); }
}

// The runs so far that are wanted, to choose one; a run without a text goes by `nameless`.
export async function runOptions(nameless, chosen, wanted = () => true) {
  const runs = (await attempt(() => get("/api/state")))?.runs ?? [];
  return runs.filter(wanted).map((one) => make("option", { value: one.run, selected: chosen(one) }, `${one.run}: ${(one.text ?? nameless).slice(0, 28)}`));
}
