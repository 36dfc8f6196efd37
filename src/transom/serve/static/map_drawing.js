// One frame of a map: its tiles, its outline, and the labels beside it.

import { drawNumbers, drawOutline, drawTicks, drawTokens } from "./map_labels.js";
import { clamp } from "./map_pan_zoom.js";
import { finestLevel } from "./state.js";

const TOKENS_FROM = 17; // pixels of a cell from which on there is room for tokens beside it
const UPRIGHT_FROM = 44; // for tokens that are not slanted, and for numbers in the cells

export function drawMap(viewport, tiles, topLevel, colours) {
  const pen = clearCanvas(viewport);
  pen.save();
  pen.beginPath();
  pen.rect(viewport.left, viewport.top, viewport.width, viewport.height);
  pen.clip();
  drawTiles(pen, viewport, tiles, topLevel, colours);
  pen.restore();
  drawOutline(viewport, pen);
  if (viewport.scale >= TOKENS_FROM) drawTokens(viewport, pen, viewport.scale < UPRIGHT_FROM);
  else drawTicks(viewport, pen);
}

// The canvas in the size that it has on the screen, dot by dot.
function clearCanvas({ canvas, canvasHeight }) {
  const density = devicePixelRatio || 1;
  const dots = [canvas.clientWidth, canvasHeight].map((one) => Math.round(one * density));
  if (canvas.width !== dots[0] || canvas.height !== dots[1]) {
    [canvas.width, canvas.height] = dots;
    canvas.style.height = `${canvasHeight}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(density, 0, 0, density, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvasHeight);
  return pen;
}

// From the coarsest level to the one wanted, which is drawn over the others as it comes.
function drawTiles(pen, viewport, tiles, topLevel, colours) {
  const wanted = clamp(Math.floor(Math.log2(1 / viewport.scale)), finestLevel(), topLevel);
  pen.imageSmoothingEnabled = false;
  tiles.startFrame();
  for (let level = topLevel; level >= wanted; level -= 1) {
    const drawn = tiles.drawLevel(pen, viewport, level, colours, level === wanted);
    if (level > 0 || viewport.scale < UPRIGHT_FROM) continue;
    for (const tile of drawn) drawNumbers(viewport, pen, tile, colours);
  }
}
