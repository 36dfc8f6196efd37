// What each token predicts, at the end of its rail: it chooses that prediction.

import { make } from "../dom.js";
import { nextOf, predictionTitle } from "../prediction_text.js";
import { formatPercent, wordOf } from "../token_text.js";
import { placeAt } from "./head_buttons.js";

const FOR_SHARE = 90; // pixels: with less, there is room for the word alone

export function showNexts({ layout, stage, nexts }) {
  if (!layout.next) return;
  const lane = layout.lanes.at(-1);
  const { tokens } = stage.shape.last;
  const size = Math.min(13, Math.max(9.5, 0.9 * lane.rails.gap));
  const buttons = Array.from({ length: lane.rails.count }, (_, i) => {
    const index = lane.rails.first + i;
    const next = nextOf(stage.run, index);
    if (!next) return null;
    const isBare = next.probability === null || layout.next < FOR_SHARE;
    const share = isBare ? "" : formatPercent(next.probability);
    const attributes = {
      type: "button",
      class: "stage-next",
      tabindex: -1, // the token itself is in the order of Tab, and chooses the same
      "aria-pressed": index === stage.now.token,
      "aria-label": predictionTitle(tokens[index], next),
      title: predictionTitle(tokens[index], next),
      onclick: () => stage.chooseToken(index),
    };
    const word = make("span", { class: "token" }, wordOf(next.token));
    const button = make("button", attributes, word, make("span", { class: "share" }, share));
    button.style.fontSize = `${size}px`;
    const thick = Math.max(12, lane.rails.gap);
    return placeAt(button, layout.box(lane.to + 4, lane.rails.at(index) - thick / 2, layout.next - 4, thick));
  });
  nexts.replaceChildren(...buttons.filter((one) => one));
}

// The chosen token joins the text: at the end of the animation it flies to the rail that it will ride.
export function flyToken(level, progress) {
  const share = (progress - 0.92) / 0.08;
  const { stage, layout } = level;
  const next = stage.now.token + 1;
  const lane = layout.lanes.at(-1);
  const isShown = share > 0 && progress < 1 && next < lane.rails.first + lane.rails.count && stage.shape.predicts;
  level.flyer?.remove();
  level.flyer = null;
  if (!isShown) return;
  const to = level.tokenBox(lane, next);
  const eased = 1 - (1 - share) ** 3;
  const x = layout.bars.x + (to.x - layout.bars.x) * eased;
  const y = layout.bars.y + (to.y - layout.bars.y) * eased - 40 * Math.sin(Math.PI * eased);
  const text = wordOf(stage.run.written[stage.now.token]);
  level.flyer = placeAt(make("span", { class: `stage-token flyer ${lane.side}` }, text), { x, y, w: 90, h: 24 });
  level.overlay.append(level.flyer);
}
