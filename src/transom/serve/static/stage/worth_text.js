// What a head was worth for the chosen token, in words: by estimate, from one backward pass, or by a knock-out of it.

import { nextOf, quote } from "../prediction_text.js";
import { formatNumber, formatPercent } from "../token_text.js";

// { change, before, after } of the next token's probability without the head; null as long as it is not known.
export function worthOf(stage, index, head) {
  const { run, data, now } = stage;
  const measured = measuredWorth(stage, index, head);
  if (measured) return measured;
  const influence = data.influence(now.token);
  const change = influence?.heads[index]?.[head];
  if (typeof change !== "number") return null;
  if (influence.by !== "influence") return { carried: change };
  const next = nextOf(run, now.token);
  const before = next?.probability ?? null;
  return { change, token: next?.token, before, after: before === null ? null : Math.min(1, before * Math.exp(change)) };
}

// What a knock-out of the whole head has shown, if there was one.
function measuredWorth({ run, now, withoutHead }, index, head) {
  const token = nextOf(run, now.token)?.token;
  const found = withoutHead.get(`${index} ${head}`)?.rows[now.token]?.words.find((one) => one.token === token);
  if (!found) return null;
  const { before, after } = found;
  return { change: Math.log(after / before), token, before, after, isMeasured: true };
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
  const by = worth.isMeasured ? "measured" : "by estimate";
  if (from === to) return `It hardly matters for ${quote(token)}, ${by}.`;
  const verb = change <= 0 ? "helps" : "hinders";
  return worth.isMeasured
    ? `It ${verb} ${quote(token)}: ${to} without the whole head, ${from} with it (measured).`
    : `It ${verb} ${quote(token)}: about ${to} without the whole head, ${from} with it (an estimate).`;
}

// The number behind it, for those who want it.
export const worthHint = (worth) =>
  worth?.change === undefined
    ? null
    : worth.isMeasured
    ? `measured change of the log-probability without it: ${formatNumber(worth.change, 3)} nats`
    : `estimated change of the log-probability without it: ${formatNumber(worth.change, 3)} nats`;
