// Every head with its measures, as in transom/lens/metrics/head_measures.py.

import { describeHead } from "./head_descriptions.js";
import { norm, rowOf } from "./matrix.js";

const OTHER = "it looks from one sequence at another, so that positions and tokens of the two do not compare";
const NO_ROWS = "no row has what it asks for";
const SEQUENCE = true;

// Name, what people read, its meaning, how to compute it of a row (null: the row does not count; null instead of a
// function: it is of all rows together), and whether it needs rows and columns to be one sequence.
const MEASURES = [
  [
    "entropy",
    "entropy (of log n)",
    "how evenly a row spreads over what it may see: 0 one key alone, 1 all alike",
    entropy,
  ],
  ["entropy_without_sink", "entropy without sink (of log n)", "the same without the first key", withoutSink, SEQUENCE],
  ["sink", "sink", "the share the first key gets", (one) => one.weights[0], SEQUENCE],
  ["largest_sink", "largest sink", "the share of all attention that one key gets, the one with the most", null],
  ["own", "own", "the weight on the row's own token", ownToken, SEQUENCE],
  ["previous", "previous", "the weight on the token before", previous, SEQUENCE],
  ["next", "next", "the weight on the token after", nextToken, SEQUENCE],
  ["induction", "induction", "the weight on what came after an earlier copy", induction, SEQUENCE],
  ["duplicate", "duplicate", "the weight on earlier copies", duplicate, SEQUENCE],
  [
    "retrieval",
    "retrieval",
    "how often the largest weight is on a copy of the token that comes next",
    retrieval,
    SEQUENCE,
  ],
  ["distance", "distance", "how many tokens away a row looks", distance, SEQUENCE],
  ["confidence", "confidence", "the largest weight", (one) => Math.max(...one.weights)],
  ["value_norm", "value norm", "how long the values are that it moves, by weight", valueNorm],
];

// What a measure gets of a row: its weights, its number, the tokens, how many keys it may see, the lengths of values.
function entropy({ weights, visible }, first = 0) {
  if (visible - first < 2) return null;
  let total = 0;
  for (let key = first; key < visible; key += 1) total += weights[key];
  let sum = 0;
  for (let key = first; key < visible; key += 1) {
    const share = weights[key] / total;
    if (share > 0) sum -= share * Math.log(share);
  }
  return Math.max(0, sum) / Math.log(visible - first);
}

function withoutSink(one) {
  return entropy(one, 1);
}

function ownToken({ weights, row }) {
  return weights[row];
}

function nextToken({ weights, row, visible }) {
  return row + 1 < visible ? weights[row + 1] : null;
}

function previous({ weights, row }) {
  return row > 0 ? weights[row - 1] : null;
}

// The weight on earlier keys that match, of rows that may see one.
function weightOn({ weights, row }, matches) {
  let sum = null;
  for (let key = 0; key < row; key += 1) if (matches(key)) sum = (sum ?? 0) + weights[key];
  return sum;
}

function induction(one) {
  return weightOn(one, (key) => key > 0 && one.tokens[key - 1] === one.tokens[one.row]);
}

function duplicate(one) {
  return weightOn(one, (key) => one.tokens[key] === one.tokens[one.row]);
}

function retrieval({ weights, row, tokens, visible }) {
  if (row + 1 >= tokens.length || row + 1 < visible) return null;
  const copies = [...Array(row + 1).keys()].filter((key) => tokens[key] === tokens[row + 1]);
  const strongest = weights.indexOf(Math.max(...weights.slice(0, visible)));
  return copies.length ? Number(copies.includes(strongest)) : null;
}

function distance({ weights, row }) {
  return weights.reduce((sum, weight, key) => sum + weight * Math.abs(key - row), 0);
}

function valueNorm({ weights, lengths }) {
  return weights.reduce((sum, weight, key) => sum + weight * lengths[key], 0);
}

function valueLengths({ V, heads, width, keys }, head) {
  return Array.from({ length: keys }, (_, key) => norm(rowOf(V, key * heads + head, width)));
}

// The attention that the key with the most gets, of each row.
function largestSink({ weights, queries, keys }, head) {
  const received = new Float64Array(keys);
  for (let row = 0; row < queries; row += 1) {
    rowOf(weights[head], row, keys).forEach((weight, key) => (received[key] += weight));
  }
  return Array(queries).fill(Math.max(...received) / queries);
}

// The mean of each measure over the rows that count, and how many those are.
function measureHead(attention, head, tokens, isCross) {
  const { queries, keys, causal } = attention;
  const lengths = valueLengths(attention, head);
  const values = {};
  const counts = {};
  for (const [name, , , measure, needsSequence] of MEASURES) {
    const found = measure ? [] : largestSink(attention, head);
    for (let row = 0; measure && row < queries && !(isCross && needsSequence); row += 1) {
      const weights = rowOf(attention.weights[head], row, keys);
      const value = measure({ weights, row, tokens, lengths, visible: causal ? row + 1 : keys });
      if (value !== null) found.push(value);
    }
    counts[name] = found.length;
    values[name] = found.length ? found.reduce((sum, value) => sum + value) / found.length : null;
  }
  return { values, counts };
}

// One head of a run: its measures, and what it does in words.
export function measureOneHead(run, index, head) {
  const attention = run.attentions[index];
  const layer = attention.name;
  const cross = layer.endsWith(".cross");
  const { values, counts } = measureHead(attention, head, run.labels(index).at, cross);
  return { layer, head, cross, ...values, rows: counts, description: describeHead(values, counts, cross) };
}

// The table of all heads of a run, as JSON.
export function measureHeads(run) {
  const heads = [];
  const missing = [];
  for (const [index, attention] of run.attentions.entries()) {
    const layer = attention.name;
    const cross = layer.endsWith(".cross");
    const rows = Array.from({ length: attention.heads }, (_, head) => measureOneHead(run, index, head));
    heads.push(...rows);
    for (const [measure, , , , needsSequence] of MEASURES) {
      if (rows.some(({ rows: counts }) => counts[measure])) continue;
      missing.push({ layer, measure, why: cross && needsSequence ? OTHER : NO_ROWS });
    }
  }
  const measures = Object.fromEntries(MEASURES.map(([name, spoken, meaning]) => [name, { spoken, meaning }]));
  return { heads, missing, unseen: null, measures };
}
