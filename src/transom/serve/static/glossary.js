// The words of the page in plain words, on hover and on focus.

import { get } from "./api.js";
import { attempt } from "./state.js";
import { make } from "./words.js";

// Two words that the page uses and the lessons do not, or not in this sense.
const OWN = { attention: "each token looks at others and gathers something from each; one attention is one such step of the model, with several heads", norm: "how long the vector is that an arrow really carries: its weight times what the value becomes; a thick arrow may carry almost nothing" };
const WORDS = { ...OWN };
attempt(async () => Object.assign(WORDS, await get("/api/glossary"), OWN));

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
