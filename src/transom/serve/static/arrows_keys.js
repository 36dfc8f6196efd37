// The arrows of a head by keyboard: along the words of a side, to the other side, and a choice.

import { NOTHING_CHOSEN, state } from "./state.js";

export const largest = (numbers) => numbers.indexOf(Math.max(...numbers));

export function moveByKey(view, event, side, index) {
  const count = (side === "from" ? view.data.rows : view.data.keys).length;
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) {
    const next = (index + step + count) % count;
    view.chooseWord(side, next, false);
    view.focusWord(side, next);
  } else if (event.key === "Enter" || event.key === " ") view.chooseWord(side, index);
  else if (event.key === "ArrowUp" || event.key === "ArrowDown") focusOtherSide(view, side, index);
  else if (event.key === "Escape") state.set(NOTHING_CHOSEN);
  else return;
  event.preventDefault();
}

// From below to the key of the chosen row's strongest arrow; else to the word opposite.
function focusOtherSide(view, side, index) {
  const [other, tokens] = side === "from" ? ["at", view.data.keys] : ["from", view.data.rows];
  const opposite = Math.min(index, tokens.length - 1);
  view.focusWord(other, other === "at" && view.row !== null ? largest(view.sizes[view.row]) : opposite);
}
