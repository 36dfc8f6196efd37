// What a row predicts, and what a knock-out does to it, in plain words.

import { formatPercent, wordOf } from "./token_text.js";

export const quote = (token) => `“${wordOf(token ?? "")}”`;

// The token that comes after a row and how likely it was: the one written, else the likeliest. Null if none is known.
export function nextOf(run, row) {
  const likely = run.likely[row];
  if (!likely?.length) return null;
  const written = run.written[row];
  const token = written ?? likely[0].token;
  const found = likely.find((one) => one.token === token);
  return { token, probability: found?.probability ?? null, likeliest: likely[0] };
}

// “perdu” predicts “ses” 86 %
export function predictionTitle(read, next) {
  const share = next.probability === null ? "" : ` ${formatPercent(next.probability)}`;
  return `${quote(read)} predicts ${quote(next.token)}${share}`;
}

const SURE = 0.9;
const RIVAL = 1 / 3; // of the likeliest: from there on the second is named

// How sure a row is of what comes next, from its two likeliest tokens; and whether any other row is less sure.
export function surenessSentence(run, row) {
  const [first, second] = run.likely[row];
  const how = first.probability > SURE
    ? "It is sure"
    : second && second.probability >= RIVAL * first.probability
    ? `It wavers between ${quote(first.token)} and ${quote(second.token)} (${formatPercent(second.probability)})`
    : first.probability > 0.5
    ? "It is fairly sure"
    : "It is not sure";
  if (row !== leastSure(run)) return `${how}.`;
  return how.includes("sure")
    ? "Of all tokens, it is least sure here."
    : `${how}: of all tokens, it is least sure here.`;
}

// The row whose likeliest token is the least likely; null where nothing is predicted, or one row alone is.
export function leastSure({ likely }) {
  if (likely.length < 2) return null;
  const chances = likely.map((one) => one[0]?.probability ?? 1);
  return chances.indexOf(Math.min(...chances));
}

// Where the likeliest token is another one than the one that was written.
export function likeliestNote({ token, likeliest }) {
  if (token === likeliest.token) return null;
  return `Alone, ${quote(likeliest.token)} was likelier: ${formatPercent(likeliest.probability)}.`;
}

// “falls from 86 % to 62 %”
export function changeWords(before, after) {
  const [from, to] = [before, after].map(formatPercent);
  if (from === to) {
    const [exact, other] = [before, after].map((share) => `${(100 * share).toFixed(2)} %`);
    return exact === other ? `does not change: ${from}` : `hardly changes: ${exact} to ${other}`;
  }
  return `${after < before ? "falls" : "rises"} from ${from} to ${to}`;
}

// Of a row after a knock-out: what became of the token that comes next. `row` is one of the server's answer.
export function changeSentence(row, token, what) {
  const word = row.words.find((one) => one.token === token) ?? row.words[0];
  const moved = `Without ${what} the probability of ${quote(word.token)} ${changeWords(word.before, word.after)}.`;
  return `${moved} ${likeliestAfter(row.words, word)}`;
}

// Whether the token is still the likeliest one, or which token is.
function likeliestAfter(words, word) {
  const most = (name) => words.reduce((best, one) => ((one[name] ?? 0) > (best[name] ?? 0) ? one : best));
  const [before, after] = [most("before"), most("after")];
  if (after.token === word.token) {
    return before.token === word.token ? "It is still the likeliest." : "Now it is the likeliest.";
  }
  const still = before.token === after.token ? "is still the likeliest" : "would be chosen instead";
  return `${quote(after.token)} ${still}: ${formatPercent(after.after)}.`;
}

export const NATS =
  "A nat measures how far apart two predictions are (their KL divergence): 0 is no change, 0.1 a small one, and from " +
  "about 1 on the model expects something else.";
