// The words of the page in plain words, on hover and on focus.

import { make } from "./words.js";

const WORDS = {
  attention: "Each token looks at others and gathers something from each. One attention is one such step of the model; it has several heads.",
  head: "One of several ways of looking that work side by side, each with its own learned parameters.",
  score: "How well what one token asks for fits what another offers: a number before the softmax, of any size.",
  weight: "The share of a token's attention that goes to another one: after the softmax, between 0 and 1, each row sums to 1.",
  norm: "The length of what an arrow really carries: its weight times the value vector. A thick arrow may carry almost nothing.",
  "knock-out": "The model runs again without an arrow; what changes in its output is what the arrow was for.",
  query: "What a token asks for: its vector times learned parameters.",
  key: "What a token offers to be found by.",
  value: "What a token gives to those who look at it.",
  mask: "Where a row may not look: a token that is written must not see what comes after it.",
  sink: "A token, often the first, that many rows look at when they look for nothing in particular.",
  entropy: "How widely a row looks: 0 for one key alone, 1 (when normalised) for all alike.",
  receipt: "The proof of a picture: the weights are worked out again and must make the very output that the model used.",
};

const tip = make("div", { id: "tip", role: "tooltip", hidden: true });
document.body.append(tip);

function tell(event) {
  const word = event.target.closest?.("dfn");
  tip.hidden = !(word && word.dataset.word in WORDS);
  if (tip.hidden) return;
  tip.textContent = WORDS[word.dataset.word];
  const box = word.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(scrollX + box.left, scrollX + innerWidth - 370))}px`;
  tip.style.top = `${scrollY + box.bottom + 6}px`;
  word.setAttribute("aria-describedby", "tip");
}

for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, tell);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
new MutationObserver(() => document.querySelectorAll("dfn:not([tabindex])").forEach((word) => { word.tabIndex = 0; })).observe(document.body, { childList: true, subtree: true });
document.querySelectorAll("dfn").forEach((word) => { word.tabIndex = 0; });
