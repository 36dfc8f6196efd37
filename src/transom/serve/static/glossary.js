// The words of the page in plain words, on hover and on focus.

import { get } from "./api.js";
import { make } from "./dom.js";
import { withErrors } from "./state.js";

// Words that the page uses and the lessons do not, or not in this sense.
const OWN = {
  attention:
    "each token looks at others and gathers something from each; one attention is one such step of the model," +
    " with several heads",
  norm:
    "how long the vector is that an arrow carries: its weight times what the value becomes; an arrow of high weight" +
    " may carry almost nothing",
};
const meanings = { ...OWN };
withErrors(async () => Object.assign(meanings, await get("/api/glossary"), OWN));

const tooltip = make("div", { id: "tooltip", role: "tooltip", hidden: true });
document.body.append(tooltip);

function showMeaning(event) {
  const word = event.target.closest?.("dfn");
  tooltip.hidden = !(word && word.dataset.word in meanings);
  if (tooltip.hidden) return;
  tooltip.textContent = meanings[word.dataset.word];
  const box = word.getBoundingClientRect();
  tooltip.style.left = `${Math.max(8, Math.min(scrollX + box.left, scrollX + innerWidth - 370))}px`;
  tooltip.style.top = `${scrollY + box.bottom + 6}px`;
  word.setAttribute("aria-describedby", "tooltip");
}

function makeFocusable() {
  for (const word of document.querySelectorAll("dfn:not([tabindex])")) word.tabIndex = 0;
}

for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, showMeaning);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tooltip.hidden = true;
});
new MutationObserver(makeFocusable).observe(document.body, { childList: true, subtree: true });
makeFocusable();
