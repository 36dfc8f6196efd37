// Blocks of single weights, and tiles of a head's map, as in transom/serve/map_tiles.py.

import { explainRow } from "./explained_row.js";
import { RequestError } from "./request_error.js";

const TILE = 256; // cells a side
const FINEST_BASE = 4;
const BASE_CELLS = 4096;

// A block of single weights and scores, with their tokens.
export function weightBlock(run, index, fields) {
  const attention = run.attention(index);
  const { reads, at } = run.labels(index);
  const { head, first_row: firstRow, first_key: firstKey } = fields;
  const span = (first, count, size) =>
    Array.from({ length: Math.max(0, Math.min(count, size - first)) }, (_, i) => first + i);
  const rows = span(firstRow, fields.rows, attention.queries);
  const keys = span(firstKey, fields.keys, attention.keys);
  const block = (read) => rows.map((row) => keys.map((key) => read(row, key)));
  return {
    rows: rows.map((row) => reads[row]),
    keys: keys.map((key) => at[key]),
    first: [firstRow, firstKey],
    weights: block((row, key) => attention.weights[head][row * attention.keys + key]),
    scores: block((row, key) => attention.isMasked(row, key) ? null : attention.score(head, row, key)),
  };
}

// The levels of a head's map.
export function mapShape(run, index) {
  const { queries, keys } = run.attention(index);
  const longest = Math.max(queries, keys);
  const top = Math.max(0, Math.ceil(Math.log2(longest / TILE)));
  return { top, sizes: [queries, keys], floor: Math.max(FINEST_BASE, Math.ceil(Math.log2(longest / BASE_CELLS))) };
}

// One tile, as numbers and the header that says how to read them; against another run, the signed difference.
export function mapTile(run, index, fields, other = null) {
  const tile = pooledTile(run, index, fields);
  if (other !== null) {
    if (fields.token !== null) {
      throw new RequestError(
        "two runs are compared by their weights, but a token is given too; leave one of the two out",
      );
    }
    const sizes = [run, other].map((one) => mapShape(one, index).sizes);
    if (String(sizes[0]) !== String(sizes[1])) {
      const [own, others] = sizes.map(([queries, keys]) => `(${queries}, ${keys})`);
      throw new RequestError(
        `runs are compared cell by cell, but one is ${own} and the other ${others};` +
          " give texts with the same number of tokens",
      );
    }
    const { values } = pooledTile(other, index, fields);
    tile.values = tile.values.map((value, place) => value - values[place]);
  }
  const { values, ...header } = tile;
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return { body: new Uint8Array(values.buffer), header: { ...header, type: "float32", scale: 1, largest } };
}

// The whole map, what it explains and its largest number; without a token its shape alone.
export function mapOverview(run, index, { head, token, sink }) {
  const shape = mapShape(run, index);
  if (token === null) return shape;
  const { keys } = run.attention(index);
  const explained = explainRow(run, token);
  const sizes = explained.head(index, head).map((change, at) => (at % keys === 0 && !sink ? 0 : Math.abs(change)));
  return { ...shape, ...explained.toObject(), largest: Math.max(...sizes) };
}

const largerSize = (a, b) => (Math.abs(a) >= Math.abs(b) ? a : b);

// The weights of a tile, or the influence of edges on a token, pooled into cells of side × side.
function pooledTile(run, index, { head, level, row, column, pool, sink, token }) {
  const { weights, queries, keys } = run.attention(index);
  const numbers = token === null ? weights[head] : explainRow(run, token).head(index, head);
  const { top } = mapShape(run, index);
  if (level > top) throw new RequestError(`the map has levels 0 to ${top}, but got ${level}; 0 has single weights`);
  const side = 2 ** level;
  const window = (tile, size) => [tile * TILE * side, Math.min((tile + 1) * TILE * side, size)];
  const [rows, columns] = [window(row, queries), window(column, keys)];
  if (rows[0] >= queries || columns[0] >= keys) {
    const tiles = [queries, keys].map((size) => Math.ceil(size / (TILE * side)));
    throw new RequestError(
      `level ${level} has ${tiles[0]} × ${tiles[1]} tiles, so (${row}, ${column}) is none of them`,
    );
  }
  const shape = [rows, columns].map(([first, last]) => Math.ceil((last - first) / side));
  const values = new Float32Array(shape[0] * shape[1]);
  const areas = new Float32Array(values.length);
  for (let query = rows[0]; query < rows[1]; query += 1) {
    for (let key = columns[0]; key < columns[1]; key += 1) {
      const number = key === 0 && !sink ? 0 : numbers[query * keys + key];
      const cell = Math.floor((query - rows[0]) / side) * shape[1] + Math.floor((key - columns[0]) / side);
      values[cell] = pool === "max" ? largerSize(values[cell], number) : values[cell] + number;
      areas[cell] += 1;
    }
  }
  if (pool === "mean") values.forEach((sum, cell) => (values[cell] = sum / areas[cell]));
  return { values, rows, keys: columns, side, pool, shape };
}
