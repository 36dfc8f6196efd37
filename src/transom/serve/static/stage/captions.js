// Short names in the picture of the whole model, of what is neither a block nor a token of a rail.

import { make } from "../dom.js";
import { wordAt } from "../token_text.js";
import { placeAt } from "./head_buttons.js";
import { paneBox } from "./layout.js";

const LEAST_GAP = 9; // pixels between two rails of the memory, for their words to be read

export function captions(layout, shape) {
  if (layout.tall) return [];
  const notes = layout.lanes.filter((lane) => lane.blocks.length).map((lane) => {
    const edge = lane.rails.gap / 2 + 4;
    const last = lane.rails.at(lane.rails.first + lane.rails.count - 1);
    return [4, lane.below ? last + edge : lane.rails.at(lane.rails.first) - edge - 32, "embedding + position", 94];
  });
  const { memory, bars } = layout;
  if (memory && memory.gap < LEAST_GAP) {
    notes.push([4, memory.start + memory.room / 2 - 14, "memory: what the encoder gives", 98]);
  }
  for (const lane of layout.lanes.filter((one) => one.below)) {
    for (const part of lane.blocks.flatMap((block) => block.parts)) {
      const { x, y } = paneBox(layout, part.panes[0]);
      notes.push([x + 1, y - 16, part.kind === "cross" ? "cross" : "self", 60]);
    }
  }
  if (shape.predicts) notes.push([bars.x, bars.y - 24, "next token", 130]);
  const named = notes.map(([x, y, text, w]) => placeAt(make("span", {}, text), { x, y, w, h: 18 }));
  return [...named, ...memoryWords(layout, shape)];
}

// Where the encoder's rails begin to run along the decoder: which token each of them carries.
function memoryWords({ memory, lanes }, shape) {
  if (!memory || memory.gap < LEAST_GAP) return [];
  const [{ rails }, target] = lanes;
  return Array.from({ length: rails.count }, (_, i) => {
    const index = rails.first + i;
    const label = make("span", { class: "memory-word" }, wordAt(shape.lanes[0].tokens, index));
    label.style.fontSize = `${Math.min(11.5, memory.gap)}px`;
    return placeAt(label, { x: 4, y: memory.at(index) - memory.gap / 2, w: target.from - 12, h: memory.gap });
  });
}
