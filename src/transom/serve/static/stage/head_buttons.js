// The heads of the whole model as buttons over their panes: one of them is in the order of Tab, arrow keys move on.

import { make } from "../dom.js";
import { blockBox, paneBox } from "./layout.js";

const MOVES = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

export function placeAt(element, { x, y, w, h }) {
  Object.assign(element.style, { left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px` });
  return element;
}

// `actions`: onOpen(index, head), onPeek(index, head), onPeek() when the pointer or the focus leaves, nameOf(index).
export function headButtons(layout, actions) {
  const buttons = [];
  for (const lane of layout.lanes) {
    for (const block of lane.blocks) {
      for (const part of block.parts) {
        for (const pane of part.panes) buttons.push(headButton({ layout, part, pane, actions }));
      }
    }
  }
  if (buttons.length) buttons[0].tabIndex = 0;
  const group = make("div", { class: "head-buttons", role: "group", "aria-label": "Heads" }, buttons);
  group.addEventListener("keydown", (event) => moveFocus(event, buttons));
  return group;
}

function headButton({ layout, part, pane, actions }) {
  const peek = () => actions.onPeek(part.index, pane.head);
  const button = make("button", {
    type: "button",
    class: "pane",
    tabindex: -1,
    "data-index": part.index,
    "data-head": pane.head,
    "aria-label": `${actions.nameOf(part.index)}, head ${pane.head}`,
    onclick: () => actions.onOpen(part.index, pane.head),
    onpointerenter: peek,
    onfocus: peek,
    onpointerleave: () => actions.onPeek(),
    onblur: () => actions.onPeek(),
  });
  return placeAt(button, paneBox(layout, pane));
}

// To the nearest pane in the direction of an arrow key.
function moveFocus(event, buttons) {
  const move = MOVES[event.key];
  if (!move) return;
  event.preventDefault();
  event.stopPropagation();
  const centre = (one) => [one.offsetLeft + one.offsetWidth / 2, one.offsetTop + one.offsetHeight / 2];
  const [x, y] = centre(event.target);
  let [nearest, least] = [null, Infinity];
  for (const other of buttons) {
    const [dx, dy] = centre(other).map((value, i) => value - [x, y][i]);
    const ahead = dx * move[0] + dy * move[1];
    const aside = Math.abs(dx * move[1]) + Math.abs(dy * move[0]);
    if (ahead > 1 && ahead + 3 * aside < least) [nearest, least] = [other, ahead + 3 * aside];
  }
  if (!nearest) return;
  event.target.tabIndex = -1;
  nearest.tabIndex = 0;
  nearest.focus();
}

// The names of the blocks, which open them; on a narrow screen the whole block does.
export function blockButtons(layout, onOpen) {
  const buttons = [];
  for (const lane of layout.lanes) {
    for (const [number, block] of lane.blocks.entries()) {
      const box = blockBox(layout, lane, block);
      const isNarrow = block.length < 64 && !layout.tall;
      const text = isNarrow ? String(number) : block.label;
      const attributes = { type: "button", class: layout.tall ? "block-button whole" : "block-button" };
      const label = isNarrow ? { "aria-label": `${number}: ${block.label}` } : {};
      const button = make("button", { ...attributes, ...label, onclick: () => onOpen(block) }, text);
      const height = layout.tall ? box.h : 22;
      const top = layout.tall ? box.y : lane.below ? box.y + box.h - height : box.y;
      buttons.push(placeAt(button, { x: box.x, y: top, w: box.w, h: height }));
    }
  }
  return make("div", { class: "block-buttons", role: "group", "aria-label": "Blocks" }, buttons);
}
