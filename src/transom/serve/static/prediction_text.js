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

// “perdu” → predicts “ses” 86 %
export function predictionTitle(read, next) {
  const share = next.probability === null ? "" : ` ${formatPercent(next.probability)}`;
  return `${quote(read)} → predicts ${quote(next.token)}${share}`;
}

// Where the likeliest token is another one than the one that was written.
export function likeliestNote({ token, likeliest }) {
  if (token === likeliest.token) return null;
  return `Alone, ${quote(likeliest.token)} was likelier: ${formatPercent(likeliest.probability)}.`;
}

// “falls from 86 % to 62 %”
export function changeWords(before, after) {
  const [from, to] = [before, after].map(formatPercent);
  if (from === to) return `hardly changes: ${from}`;
  return `${after < before ? "falls" : "rises"} from ${from} to ${to}`;
}

// Of a row after a knock-out: what became of the token that comes next. `row` is one of the server's answer.
export function changeSentence(row, token, what) {
  const word = row.words.find((one) => one.token === token) ?? row.words[0];
  return `Without ${what} the probability of ${quote(word.token)} ${changeWords(word.before, word.after)}.`;
}

export const NATS =
  "A nat measures how far apart two predictions are (their KL divergence): 0 is no change, 0.1 a small one, and from " +
  "about 1 on the model expects something else.";
