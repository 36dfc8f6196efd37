// The likeliest next tokens as bars, with all others together; after a knock-out, before and after.

import { make } from "../dom.js";
import { formatPercent, wordOf } from "../token_text.js";

const SHOWN = 5;

// [{ token, probability, after }] of a row, the last entry "all others"; `changed` is a row of a knock-out.
export function nextTokens(run, row, changed = null) {
  const likely = run.likely[row] ?? [];
  const after = new Map(changed?.words.map((one) => [one.token, one]) ?? []);
  const risen = [...after.values()].filter((one) => !likely.some((other) => other.token === one.token));
  risen.sort((one, other) => other.after - one.after);
  const all = [
    ...likely.map((one) => ({ ...one, after: changed ? after.get(one.token)?.after ?? null : null })),
    ...risen.slice(0, 1).filter((one) => one.after > 0.01).map((one) => ({ ...one, probability: one.before })),
  ];
  const shown = all.slice(0, likely.length).slice(0, SHOWN);
  if (all.length > likely.length && all.at(-1).after > (shown.at(-1)?.after ?? 0)) shown[shown.length - 1] = all.at(-1);
  const rest = (name) => Math.max(0, 1 - shown.reduce((sum, one) => sum + (one[name] ?? 0), 0));
  const isKnown = changed && shown.every((one) => one.after !== null);
  return [...shown, { token: null, probability: rest("probability"), after: isKnown ? rest("after") : null }];
}

const MOST_LISTED = 64; // tokens

// After the chosen token all next tokens that are known; after every other one, in a short text, the likeliest two.
export function predictions(run, tokens, chosen) {
  return tokens.flatMap((token, index) => {
    if (index !== chosen && tokens.length > MOST_LISTED) return [];
    const entries = nextTokens(run, index, null);
    return (index === chosen ? entries : entries.slice(0, 2)).map((one) => [
      `${index} ${wordOf(token)}`,
      one.token === null ? "all others" : wordOf(one.token),
      formatPercent(one.probability),
    ]);
  });
}

// The bars as a list; `written` is the token that was chosen.
export function barList(entries, written) {
  const item = ({ token, probability, after }) => {
    const name = token === null ? "all others" : wordOf(token);
    const bars = [bar(probability, "before"), after === null ? null : bar(after, "after")];
    const share = after === null
      ? formatPercent(probability)
      : `${formatPercent(probability).replace(" %", "")} → ${formatPercent(after)}`;
    const kind = token === null ? "others" : token === written ? "chosen" : null;
    return make(
      "li",
      { class: kind },
      make("span", { class: "token" }, name),
      make("span", { class: "share" }, share),
      make("span", { class: "bar-track", "aria-hidden": "true" }, bars),
    );
  };
  return make("ol", { class: "next-tokens", "aria-label": "What the model expects next" }, entries.map(item));
}

function bar(share, kind) {
  const element = make("span", { class: `next-bar ${kind}` });
  element.style.width = `${100 * Math.max(0.004, share)}%`;
  return element;
}
