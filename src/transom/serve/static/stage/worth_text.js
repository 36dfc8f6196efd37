// What a head was worth for the chosen token, in words: by estimate, from one backward pass.

import { nextOf, quote } from "../prediction_text.js";
import { formatNumber, formatPercent } from "../token_text.js";

// { change, before, after } of the next token's probability without the head; null as long as it is not known.
export function worthOf({ run, data, now }, index, head) {
  const influence = data.influence(now.token);
  const change = influence?.heads[index]?.[head];
  if (typeof change !== "number") return null;
  if (influence.by !== "influence") return { carried: change };
  const next = nextOf(run, now.token);
  const before = next?.probability ?? null;
  return { change, token: next?.token, before, after: before === null ? null : Math.min(1, before * Math.exp(change)) };
}

// A few words for a small card.
export function worthLabel(worth) {
  if (!worth) return "";
  if (worth.carried !== undefined) return `carries ${formatNumber(worth.carried, 2)} per token`;
  const verb = worth.change <= 0 ? "helps" : "hinders";
  if (worth.before === null) return verb;
  const [before, after] = [worth.before, worth.after].map(formatPercent);
  return before === after ? "hardly matters" : `${verb}: ${before} → ${after}`;
}

// The same as a sentence.
export function worthSentence(worth) {
  if (!worth || worth.carried !== undefined) return worthLabel(worth);
  const { token, before, after, change } = worth;
  if (before === null) return `It ${change <= 0 ? "helps" : "hinders"} ${quote(token)}, by estimate.`;
  const [from, to] = [before, after].map(formatPercent);
  if (from === to) return `It hardly matters for ${quote(token)}, by estimate.`;
  const verb = change <= 0 ? "helps" : "hinders";
  return `It ${verb} ${quote(token)}: about ${to} without it, ${from} with it (an estimate).`;
}

// The number behind it, for those who want it.
export const worthHint = (worth) =>
  worth?.change === undefined
    ? null
    : `estimated change of the log-probability without it: ${formatNumber(worth.change, 3)} nats`;
