// The arrows of a head as the server draws them, for the screen and for downloads alike, made to be used: here nothing
// is drawn, only hidden, marked and listened to.

import { draw } from "./dom.js";
import { dropSpace, placeSign } from "./token_text.js";

const SIDES = { at: "is read", from: "reads" };
const HEADING = 50; // pixels of the title and the source of a drawing
const MARGIN = 16; // around a drawing

// The server's SVG as an element; tokens in it are text.
export function parseDrawing(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  const svg = document.importNode(parsed.documentElement, true);
  addArrowheads(svg);
  dropHeading(svg);
  return svg;
}

const captions = (svg) => [...svg.querySelectorAll(":scope > g > text")];

function setBox(svg, x, y, width, height) {
  svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
}

// The page has a heading of its own: that of the file, and the room for it, are left out.
function dropHeading(svg) {
  const heading = captions(svg).filter((one) => one.getAttribute("y") < HEADING);
  if (!heading.length) return;
  heading.forEach((one) => one.remove());
  const { x, y, width, height } = svg.viewBox.baseVal;
  setBox(svg, x, y + HEADING, width, height - HEADING);
}

// The notes under the arrows, line by line, for the page to set in its own type: the drawing is as wide as its words.
export function takeNotes(svg) {
  const notes = captions(svg);
  if (!notes.length) return [];
  const { x, y } = svg.viewBox.baseVal;
  const sum = (rect) => Number(rect.getAttribute("x")) + Number(rect.getAttribute("width"));
  const width = Math.max(...[...svg.querySelectorAll(".word rect")].map(sum)) + 2 * MARGIN;
  setBox(svg, x, y, width, Number(notes[0].getAttribute("y")) - y);
  notes.forEach((one) => one.remove());
  return notes.map((one) => one.textContent);
}

// Each arrow gets a head in its own colour.
function addArrowheads(svg) {
  const size = { markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse" };
  const tip = draw("path", { d: "M0 0L10 5L0 10z", fill: "context-stroke" });
  const place = { id: "arrowhead", viewBox: "0 0 10 10", refX: 8, refY: 5, orient: "auto" };
  svg.prepend(draw("defs", {}, draw("marker", { ...place, ...size }, tip)));
  svg.querySelectorAll(".arrow").forEach((arrow) => arrow.setAttribute("marker-end", "url(#arrowhead)"));
}

// Show what belongs to the chosen row and key, as the server does in a download of them.
export function markChoice(svg, row, key) {
  for (const arrow of svg.querySelectorAll(".arrow")) {
    const isOwn = Number(arrow.dataset.row) === row;
    setShown(arrow, row === null ? !arrow.classList.contains("weak") : isOwn);
    arrow.classList.toggle("selected", isOwn && Number(arrow.dataset.key) === key);
  }
  for (const numbers of svg.querySelectorAll(".numbers")) setShown(numbers, Number(numbers.dataset.row) === row);
  markWords(svg, "from", row);
  markWords(svg, "at", key);
}

function setShown(element, isShown) {
  if (isShown) element.removeAttribute("display");
  else element.setAttribute("display", "none");
}

// The chosen word is pressed; it, or else the first, is the one that Tab goes to.
function markWords(svg, side, chosen) {
  for (const [index, word] of svg.querySelectorAll(`.${side} .word`).entries()) {
    word.setAttribute("aria-pressed", String(index === chosen));
    word.setAttribute("tabindex", index === (chosen ?? 0) ? "0" : "-1");
  }
}

// Say what things are to people who listen to the page.
export function describeDrawing(svg, title, { rows, keys }) {
  for (const [side, tokens] of [["from", rows], ["at", keys]]) {
    svg.querySelectorAll(`.${side} .word text`).forEach((word, i) => {
      word.textContent = dropSpace(word.textContent) + placeSign(tokens, i);
    });
  }
  svg.querySelectorAll(".next-token text").forEach((one) => (one.textContent = dropSpace(one.textContent)));
  svg.querySelectorAll("text.faint-fill").forEach((
    one,
  ) => (one.textContent = SIDES[one.textContent] ?? one.textContent));
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", title);
  const sides = { from: "tokens that look", at: "tokens looked at" };
  for (const [side, label] of Object.entries(sides)) {
    const group = svg.querySelector(`.${side}`);
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", label);
  }
  svg.querySelectorAll(".word").forEach((word) => word.setAttribute("role", "button"));
  svg.querySelector(".next-token").setAttribute("aria-hidden", "true");
}

// Clicks and keys: `onArrow(row, key)`, `onWord(side, index)` and `onKey(event, side, index)`.
export function listenToDrawing(svg, { onArrow, onWord, onKey }) {
  const wordAt = (event) => event.target.closest(".word")?.id.split("-");
  svg.addEventListener("click", (event) => {
    const arrow = event.target.closest(".arrow");
    const word = wordAt(event);
    if (arrow) onArrow(Number(arrow.dataset.row), Number(arrow.dataset.key));
    else if (word) onWord(word[0], Number(word[1]));
  });
  svg.addEventListener("keydown", (event) => {
    const word = wordAt(event);
    if (word) onKey(event, word[0], Number(word[1]));
  });
}

// A drawing that is wider than its frame shows the chosen row first; whether it is, is the answer.
export function scrollToRow(frame, row) {
  const isCut = frame.scrollWidth > frame.clientWidth + 4;
  frame.tabIndex = isCut ? 0 : -1;
  const word = isCut && row !== null ? frame.querySelector(`#from-${row}`) : null;
  if (word) {
    const [box, start] = [word.getBoundingClientRect(), frame.firstElementChild.getBoundingClientRect().left];
    frame.scrollLeft = box.left - start + box.width / 2 - frame.clientWidth / 2;
  }
  return isCut;
}
