// The feed-forward part of a block at one token, unit by unit, as in transom/serve/feed_forward_queries.py.

import { gradientsAlong } from "./backward.js";
import { dot, multiply, norm, rowOf } from "./matrix.js";
import { RequestError } from "./request_error.js";
import { logProbabilityGradient } from "./explained_row.js";

const CURVE_POINTS = 61;
const CURVE_REACH = 3; // at least so far to both sides of 0

const round = (number) => Number(number.toPrecision(6));
const rounded = (numbers) => Array.from(numbers, round);

// The pass again with all that it computes; with the gradients of a prediction, if one is explained.
function tapesOf(run, explained) {
  const { model } = run.translator;
  const tapes = { encoder: [], decoder: [] };
  if (explained === null) {
    const encoded = model.encode(run.sourceIds, { tape: tapes.encoder });
    model.decode(run.targetIds, encoded, { tape: tapes.decoder });
  } else gradientsAlong(model, run.sourceIds, run.targetIds, [logProbabilityGradient(run, explained)], tapes);
  return tapes;
}

// The sum of what some units write: hidden · their rows of W_2.
function sumOf(places, hidden, { W, out }) {
  const sum = new Float64Array(out);
  for (let o = 0; o < out; o += 1) for (const j of places) sum[o] += hidden[j] * W[o * hidden.length + j];
  return sum;
}

function unitsOf(run, index, { query, explained }) {
  const [side, , layer] = run.attention(index).name.split(".");
  const tape = tapesOf(run, explained)[side];
  const each = tape.length / run.translator.model[side].blocks.length;
  const entry = tape[(Number(layer) + 1) * each - 1];
  const { block, rows } = entry;
  const x = rowOf(entry.input, query, entry.input.length / rows);
  const hidden = rowOf(entry.hidden, query, entry.hidden.length / rows);
  const width = block.second.out;
  const gradient = explained === null ? null : rowOf(entry.gradient ?? new Float64Array(rows * width), query, width);
  const before = multiply(x, 1, block.first.W, block.first.b, hidden.length);
  return { x, before, hidden, output: rowOf(entry.added, query, width), gradient, ...block };
}

const some = (number) => (number === null ? null : round(number));

// What each unit writes, its length and its effect; and a unit with all its numbers.
function measureUnits({ x, before, hidden, gradient, first, second }) {
  const alone = Array.from(hidden, (_, unit) => sumOf([unit], hidden, second));
  const sizes = alone.map(norm);
  const effectOf = (vector) => (gradient === null ? null : dot(vector, 0, gradient, 0, vector.length));
  const effects = alone.map(effectOf);
  const unitOf = (unit) => ({
    unit,
    gate: {
      W: rounded(rowOf(first.W, unit, x.length)),
      b: first.b && round(first.b[unit]),
      value: round(before[unit]),
    },
    up: null,
    active: round(hidden[unit]),
    hidden: round(hidden[unit]),
    effect: some(effects[unit]),
    size: round(sizes[unit]),
    writes: rounded(alone[unit]),
  });
  return { keys: gradient === null ? sizes : effects.map(Math.abs), effectOf, unitOf };
}

export function feedForwardUnits(run, index, { query, explained, count, unit: asked }) {
  const units = unitsOf(run, index, { query, explained });
  const { x, before, hidden, output, gradient, second } = units;
  const { keys, effectOf, unitOf } = measureUnits(units);
  if (asked !== null && asked >= hidden.length) {
    const last = hidden.length - 1;
    throw new RequestError(`there are unit=${hidden.length}, so ${asked} is none of them; count from 0 to ${last}`);
  }
  const ranked = Array.from(keys, (_, unit) => unit).sort((a, b) => keys[b] - keys[a]);
  const rest = ranked.slice(count);
  const others = sumOf(rest, hidden, second);
  return {
    token: run.labels(index).reads[query],
    activation: "ReLU",
    gated: false,
    by: gradient === null ? "size" : "influence",
    explained,
    input: rounded(x),
    count: hidden.length,
    on: before.filter((one) => one > 0).length,
    units: ranked.slice(0, count).map(unitOf),
    asked: asked === null ? null : unitOf(asked),
    others: { count: rest.length, effect: some(effectOf(others)), writes: rounded(others) },
    bias: second.b && { effect: some(effectOf(second.b)), writes: rounded(second.b) },
    output: rounded(output),
    effect: some(effectOf(output)),
    curve: curveOf(before),
  };
}

function curveOf(before) {
  const reach = before.reduce((most, one) => Math.max(most, Math.abs(one)), CURVE_REACH);
  return Array.from({ length: CURVE_POINTS }, (_, i) => {
    const at = reach * ((2 * i) / (CURVE_POINTS - 1) - 1);
    return [round(at), round(Math.max(0, at))];
  });
}
