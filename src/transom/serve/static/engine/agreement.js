// How far estimates agree with true knock-outs of random edges, as in transom/lens/attribution/agreement.py.

import { explainRow } from "./explained_row.js";
import { rowOf } from "./matrix.js";

const NEAR_ONE = 0.9; // of a row's weight: without such an edge the row reads something else
const MOST_DRAWS = 50; // times the wanted number, before few edges are accepted

// Numbers from 0 to 1, the same each time (Mulberry32).
function drawNumbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

const pick = (list, number) => list[Math.min(list.length - 1, Math.floor(number * list.length))];

// The rows of a head that reach the number.
function reachingRows({ gradient, heads, width, queries }, head) {
  const isReaching = (query) => {
    const at = (query * heads + head) * width;
    return gradient.subarray(at, at + width).some((number) => number !== 0);
  };
  return Array.from({ length: queries }, (_, query) => query).filter(isReaching);
}

// Different edges that reach the number: a head and a row at random, then a key with the chance of its weight.
function drawEdges(attentions, samples) {
  const draw = drawNumbers(0);
  const heads = attentions.flatMap((one, index) =>
    one.weights.map((_, head) => ({ index, head, rows: reachingRows(one, head) })).filter(({ rows }) => rows.length)
  );
  const found = new Map();
  for (let i = 0; i < samples * MOST_DRAWS && heads.length && found.size < samples; i += 1) {
    const { index, head, rows } = pick(heads, draw());
    const query = pick(rows, draw());
    const weights = rowOf(attentions[index].weights[head], query, attentions[index].keys);
    let left = draw() * weights.reduce((sum, weight) => sum + weight, 0);
    const key = weights.findIndex((weight) => (left -= weight) <= 0 && weight > 0);
    if (key >= 0) found.set(`${index} ${head} ${query} ${key}`, { index, head, query, key, weight: weights[key] });
  }
  return [...found.values()];
}

export function correlation(pairs) {
  const columns = [0, 1].map((side) => pairs.map((pair) => pair[side]));
  if (pairs.length < 2 || columns.some((one) => one.every((number) => number === one[0]))) return null;
  const centred = columns.map((one) => {
    const mean = one.reduce((sum, number) => sum + number, 0) / one.length;
    return one.map((number) => number - mean);
  });
  const product = (a, b) => a.reduce((sum, number, i) => sum + number * b[i], 0);
  const [x, y] = centred;
  return product(x, y) / Math.sqrt(product(x, x) * product(y, y));
}

// The rank of each number; equal ones share their mean.
const ranks = (numbers) =>
  numbers.map((number) =>
    numbers.filter((other) => other < number).length + (numbers.filter((other) => other === number).length + 1) / 2
  );

function nearOne(attentions) {
  const isNear = (one, head, query) => Math.max(...rowOf(one.weights[head], query, one.keys)) > NEAR_ONE;
  const count = (one, head) => reachingRows(one, head).filter((query) => isNear(one, head, query)).length;
  return attentions.reduce((sum, one) => sum + one.weights.reduce((all, _, head) => all + count(one, head), 0), 0);
}

export function measureAgreement(run, { token, samples }) {
  const explained = explainRow(run, token);
  const rows = drawEdges(explained.attentions, samples).map(({ index, head, query, key, weight }) => {
    const layer = run.attentions[index].name;
    const without = run.runWithout([{ layer, head, query, key }], "before");
    const [estimate] = explained.edges(index, head, query, [key]);
    return { layer, head, query, key, weight, estimate, change: explained.logProbability(without) - explained.value };
  });
  const pairs = (some) => some.map(({ estimate, change }) => [estimate, change]);
  const sizes = [0, 1].map((side) => ranks(pairs(rows).map((pair) => Math.abs(pair[side]))));
  const small = rows.filter(({ weight }) => weight <= NEAR_ONE);
  const miss = ({ estimate, change }) => Math.abs(estimate - change);
  return {
    ...explained.toObject(),
    samples: rows.length,
    pearson: correlation(pairs(rows)),
    rank: correlation(sizes[0].map((rank, i) => [rank, sizes[1][i]])),
    "small_steps": small.length,
    "pearson_of_small_steps": correlation(pairs(small)),
    worst: rows.reduce((most, one) => (most === null || miss(one) > miss(most) ? one : most), null),
    "near_one": nearOne(explained.attentions),
    rows,
  };
}
