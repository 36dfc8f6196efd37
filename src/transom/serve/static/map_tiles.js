// The tiles of a map: fetched when they are needed, coloured once, drawn where they are.

import { getTile } from "./api.js";
import { pixelTable } from "./colours.js";
import { withErrors } from "./state.js";

export const TILE = 256; // cells of a side
const MOST_TILES = 160; // kept; the one drawn longest ago goes first
const NEW_IMAGES = 3; // for each frame, so that no frame takes long
const PIXELS = Object.fromEntries(["weights", "difference", "influence"].map((kind) => [kind, pixelTable(kind)]));

// How numbers become colours: weights on a scale of powers or of logarithms, differences of two runs with their sign,
// influence with its sign as a share of the largest of the head, its root, so that small ones can be seen.
export function colouring(kind, isLogarithmic, largest = 1) {
  const shares = {
    weights: isLogarithmic ? (value) => 1 + Math.log10(Math.max(value, 1e-6)) / 6 : (value) => value ** 0.6,
    difference: (value) => (value + 1) / 2,
    influence: (value) => 0.5 + 0.5 * Math.sign(value) * Math.sqrt(Math.min(1, Math.abs(value) / largest)),
  };
  return { name: `${kind} ${isLogarithmic} ${largest}`, kind, share: shares[kind], pixels: PIXELS[kind] };
}

export class MapTiles {
  // `source()` says where tiles come from: { path, head, fields, signal }. `onLoad` is called when one has come.
  constructor(source, onLoad) {
    this.source = source;
    this.onLoad = onLoad;
    this.clear();
  }

  clear() {
    this.loaded = new Map(); // by level/row/column; without an image while it is fetched
  }

  startFrame() {
    this.newImages = 0;
    this.isIncomplete = false; // whether something waits for the next frame
  }

  // Draw what is there of a level, fetch what is missing if it is `wanted`; returns the tiles drawn.
  drawLevel(pen, viewport, level, colours, wanted) {
    const seen = viewport.visible();
    const side = TILE * 2 ** level;
    const drawn = [];
    for (let row = Math.floor(seen.upper / side); row * side < seen.lower; row += 1) {
      for (let column = Math.floor(seen.left / side); column * side < seen.right; column += 1) {
        const tile = this.loaded.get(`${level}/${row}/${column}`);
        if (tile?.images && this.drawTile(pen, viewport, tile, colours)) drawn.push(tile);
        else if (!tile && wanted) this.load(level, row, column);
      }
    }
    return drawn;
  }

  drawTile(pen, viewport, tile, colours) {
    this.loaded.delete(tile.name);
    this.loaded.set(tile.name, tile); // the last drawn is the last to go
    const image = this.image(tile, colours);
    if (!image) {
      this.isIncomplete = true;
      return false;
    }
    const [height, width] = tile.shape.map((cells) => cells * tile.side * viewport.scale);
    pen.drawImage(image, viewport.toCanvasX(tile.keys[0]), viewport.toCanvasY(tile.rows[0]), width, height);
    return true;
  }

  // A tile as pixels, once for each way of colouring; null where this frame has made enough of them.
  image(tile, colours) {
    if (tile.images.has(colours.name)) return tile.images.get(colours.name);
    if (this.newImages === NEW_IMAGES) return null;
    this.newImages += 1;
    const [rows, columns] = tile.shape;
    const image = new OffscreenCanvas(columns, rows);
    const pen = image.getContext("2d");
    const data = pen.createImageData(columns, rows);
    const painted = new Uint32Array(data.data.buffer);
    const { share, pixels } = colours;
    for (let i = 0; i < painted.length; i += 1) {
      painted[i] = pixels[Math.round(255 * Math.min(1, Math.max(0, share(tile.numbers[i]))))];
    }
    pen.putImageData(data, 0, 0);
    tile.images.set(colours.name, image);
    return image;
  }

  async load(level, row, column) {
    const { loaded } = this;
    const { path, head, fields, signal } = this.source();
    const name = `${level}/${row}/${column}`;
    loaded.set(name, {});
    try {
      const tile = await getTile(path, { head, level, row, column, ...fields }, signal);
      if (signal.aborted || loaded !== this.loaded) return; // something else is shown by now
      loaded.set(name, { ...tile, name, images: new Map() });
      if (loaded.size > MOST_TILES) loaded.delete(loaded.keys().next().value);
      this.onLoad();
    } catch (error) {
      loaded.delete(name);
      if (error.name !== "AbortError") withErrors(() => Promise.reject(error));
    }
  }

  // The finest number there is at a cell, and how many weights a side it covers; null before one has come.
  valueAt(row, key, topLevel) {
    for (let level = 0; level <= topLevel; level += 1) {
      const side = TILE * 2 ** level;
      const tile = this.loaded.get(`${level}/${Math.floor(row / side)}/${Math.floor(key / side)}`);
      if (!tile?.images) continue;
      const down = Math.floor((row - tile.rows[0]) / tile.side);
      const across = Math.floor((key - tile.keys[0]) / tile.side);
      return { value: tile.numbers[down * tile.shape[1] + across], side: tile.side };
    }
    return null;
  }
}
