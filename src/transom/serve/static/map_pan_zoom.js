// The part of a map that its canvas shows, in keys across and rows down, and how it is moved and zoomed.

import { trackPointers } from "./pointer_gestures.js";

const LARGEST_CELL = 72; // pixels
const LARGEST_FITTED_CELL = 64; // where the whole map is shown
const LOWEST = 240; // pixels of the canvas
const TALLEST = 560;
const NARROW = 480;
const LABEL_ROOM = 34; // right of the last key, for its label
const KEY_STEP = 60; // pixels that an arrow key moves
const MOVES = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

export const clamp = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));

export class Viewport {
  // `onChange` is called when another part is to be drawn.
  constructor(canvas, onChange) {
    Object.assign(this, { canvas, onChange, rows: 0, keys: 0, x: 0, y: 0, scale: 1 });
  }

  // Room for the labels of the rows, and of the columns.
  get left() {
    return this.canvas.clientWidth < NARROW ? 64 : 92;
  }

  get top() {
    return 58;
  }

  get width() {
    return this.canvas.clientWidth - this.left;
  }

  get height() {
    return this.canvasHeight - this.top;
  }

  // On a small screen the map leaves room for what is around it; a small map takes no more than it needs.
  get canvasHeight() {
    const needed = this.rows ? this.rows * Math.min(LARGEST_FITTED_CELL, this.fitScale) + this.top + 4 : TALLEST;
    return Math.min(clamp(0.7 * innerHeight, LOWEST, TALLEST), needed);
  }

  // The scale at which all keys fit in.
  get fitScale() {
    return (this.width - LABEL_ROOM) / this.keys;
  }

  // A point of the canvas as a place on the map.
  toMap({ offsetX, offsetY }) {
    const x = this.x + (offsetX - this.left - this.width / 2) / this.scale;
    return { x, y: this.y + (offsetY - this.top - this.height / 2) / this.scale };
  }

  // Where a key or a row begins on the canvas.
  toCanvasX(key) {
    return this.left + this.width / 2 + (key - this.x) * this.scale;
  }

  toCanvasY(row) {
    return this.top + this.height / 2 + (row - this.y) * this.scale;
  }

  // The keys and rows in view.
  visible() {
    const across = this.width / 2 / this.scale;
    const down = this.height / 2 / this.scale;
    return {
      left: Math.max(0, this.x - across),
      right: Math.min(this.keys, this.x + across),
      upper: Math.max(0, this.y - down),
      lower: Math.min(this.rows, this.y + down),
    };
  }

  show(x, y, scale) {
    Object.assign(this, { x, y, scale });
    this.onChange();
  }

  showAll() {
    const scale = Math.min(this.fitScale, this.height / this.rows, LARGEST_FITTED_CELL) || 1;
    this.show(this.keys / 2, this.rows / 2, scale);
  }

  move(x, y) {
    this.show(clamp(this.x + x, 0, this.keys), clamp(this.y + y, 0, this.rows), this.scale);
  }

  // Zoom; the point `about` stays where it is on the canvas.
  zoom(factor, about = this) {
    const before = this.scale;
    const smallest = Math.min(this.width / this.keys, this.height / this.rows) / 2;
    this.scale = clamp(this.scale * factor, smallest, LARGEST_CELL);
    const kept = 1 - before / this.scale;
    this.move((about.x - this.x) * kept, (about.y - this.y) * kept);
  }
}

// Pan and zoom by mouse, fingers and keys; `onRead(place, aloud)` is called where something is pointed at.
export function listenForPanAndZoom(viewport, onRead) {
  const { canvas } = viewport;
  const onWheel = (event) => {
    event.preventDefault();
    viewport.zoom(2 ** (-event.deltaY / 240), viewport.toMap(event));
  };
  canvas.addEventListener("wheel", onWheel, { passive: false });
  trackPointers(canvas, (event) => onRead(viewport.toMap(event), false), (before, after) => {
    viewport.move((before.offsetX - after.offsetX) / viewport.scale, (before.offsetY - after.offsetY) / viewport.scale);
    viewport.zoom(after.distance / before.distance, viewport.toMap(after));
  });
  canvas.addEventListener("dblclick", (event) => viewport.zoom(4, viewport.toMap(event)));
  canvas.addEventListener("keydown", (event) => onKey(event, viewport, onRead));
}

function onKey(event, viewport, onRead) {
  const move = MOVES[event.key];
  const step = Math.max(1, KEY_STEP / viewport.scale);
  if (move) viewport.move(move[0] * step, move[1] * step);
  else if (event.key === "+" || event.key === "=") viewport.zoom(2);
  else if (event.key === "-") viewport.zoom(0.5);
  else if (event.key === "Home") viewport.showAll();
  else if (event.key !== "Enter") return;
  event.preventDefault();
  if (move || event.key === "Enter") onRead(viewport, true);
}
