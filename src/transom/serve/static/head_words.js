// What a head does in this text, in words, by its weights: measured once for all heads of a run.

import { get } from "./api.js";

const MANY_WEIGHTS = 2 ** 25; // in a run: beyond them measuring every head takes long, so nothing is said
const asked = new Map(); // by run

// A sentence, or null where none is known.
export async function describeHead(run, attention, head) {
  const weights = run.attentions.reduce((sum, one) => sum + one.heads * one.queries * one.keys, 0);
  if (weights > MANY_WEIGHTS) return null;
  if (!asked.has(run.run)) asked.set(run.run, get(`/api/runs/${run.run}/heads`).catch(() => null));
  const { name } = run.attentions[attention];
  const found = (await asked.get(run.run))?.heads.find((one) => one.layer === name && one.head === head);
  return found?.description
    ? `In this text the head ${found.description}${found.description.includes("%") ? " of its weight" : ""}.`
    : null;
}
