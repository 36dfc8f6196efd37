// All heads of a run as small pictures in one canvas: painted once, copied into every frame.

const CELLS = 16;
const PALE = 0.03; // weights below it stay empty

export class Atlas {
  // `colours` are [red, green, blue] by side.
  constructor(thumbnails, colours, sideOf) {
    this.heads = Math.max(1, ...thumbnails.map((one) => one?.cells.length ?? 0));
    this.canvas = new OffscreenCanvas(CELLS * this.heads, CELLS * Math.max(1, thumbnails.length));
    const pen = this.canvas.getContext("2d");
    this.shapes = thumbnails.map((one) => one && [one.columns, one.rows]);
    thumbnails.forEach((one, index) => {
      one?.cells.forEach((cells, head) => {
        pen.putImageData(paint(one, cells, colours[sideOf(index)]), head * CELLS, index * CELLS);
      });
    });
  }

  // Copy a head into a square of another canvas; a side with fewer cells is drawn as large.
  draw(pen, index, head, x, y, size) {
    const shape = this.shapes[index];
    if (!shape) return;
    pen.drawImage(this.canvas, head * CELLS, index * CELLS, shape[0], shape[1], x, y, size, size);
  }
}

// A byte b stands for the weight (b / 255)²: so the byte itself is the opacity.
function paint({ rows, columns }, cells, [red, green, blue]) {
  const image = new ImageData(columns, rows);
  cells.forEach((byte, i) => {
    const isSeen = byte > 255 * Math.sqrt(PALE);
    image.data.set([red, green, blue, isSeen ? byte : 0], 4 * i);
  });
  return image;
}
