// What single edges do: weight, norm, contribution, pull, and the change without them, as in transom/lens/ablation.

import { gradients } from "./backward.js";
import { divergence, dot, largest, logSumExp, multiply, norm, rowOf, softmax } from "./matrix.js";

const [THICK, THIN, MATTERS_FROM, IDLE_BELOW] = [0.25, 0.05, 0.01, 0.001];
const [IDLE, VITAL] = ["thick, does not matter", "thin, but matters"];

// What an effect is measured on: the logit of the likeliest token of the edge's row; for an edge in the encoder, the
// log-probability of the whole translation.
function effectTarget(run, index, query) {
  if (run.labels(index).predicts === null) return null;
  return largest(run.logitsOf(query), 1)[0];
}

function readOutput(run, logits, target, query) {
  if (target !== null) return run.logitsOf(query, logits)[target];
  return run.written.reduce((sum, id, row) => {
    const own = run.logitsOf(row, logits);
    return row < run.targetIds.length - 1 ? sum + own[id] - logSumExp(own) : sum;
  }, 0);
}

// The gradient of that number by the logits.
function outputGradient(run, target, query) {
  const { vocabulary } = run;
  return (logits) => {
    const gradient = new Float64Array(logits.length);
    if (target !== null) {
      gradient[query * vocabulary + target] = 1;
      return gradient;
    }
    for (let row = 0; row < run.targetIds.length - 1; row += 1) {
      softmax(rowOf(logits, row, vocabulary)).forEach((chance, id) => (gradient[row * vocabulary + id] = -chance));
      gradient[row * vocabulary + run.written[row]] += 1;
    }
    return gradient;
  };
}

// ‖vector of a head through W_O‖.
function projectedNorm({ heads, width, output }, head, vector) {
  const joined = new Float64Array(heads * width);
  joined.set(vector, head * width);
  return norm(multiply(joined, 1, output.W, null, output.out));
}

// What one attention tells of an edge without another run.
function edgeValues(attention, gradient, head, query, key) {
  const { weights, V, joined, heads, width, keys } = attention;
  const line = heads * width;
  const at = query * line + head * width;
  const row = rowOf(weights[head], query, keys);
  const value = (one) => V.subarray(one * line + head * width, one * line + (head + 1) * width);
  const output = joined.subarray(at, at + width);
  const weight = row[key];
  const rest = row.reduce((sum, other, one) => one === key ? sum : sum + other, 0);
  const change = Float64Array.from(output, (number, i) => {
    if (rest <= 0) return -number;
    return row.reduce((sum, other, one) => one === key ? sum : sum + other * value(one)[i], 0) / rest - number;
  });
  const moved = Float64Array.from(value(key), (number) => weight * number);
  const length = dot(output, 0, output, 0, width);
  return {
    weight,
    norm: projectedNorm(attention, head, moved),
    contribution: length > 0 ? dot(moved, 0, output, 0, width) / length : 0,
    pull: dot(gradient, at, moved, 0, width),
    local_change: projectedNorm(attention, head, change),
  };
}

function flagOf(weight, effect) {
  if (weight >= THICK && effect < IDLE_BELOW) return IDLE;
  return weight <= THIN && effect >= MATTERS_FROM ? VITAL : "";
}

// The change of the output without one edge.
function measureEdge(run, edge, target, query, value) {
  const without = run.runWithout([edge], "before");
  const change = readOutput(run, without, target, query) - value;
  if (target === null) {
    return { change, probability_change: null, kl: null, effect: Math.abs(change) / Math.abs(value) };
  }
  const rows = [run.logitsOf(query), run.logitsOf(query, without)];
  const [before, after] = rows.map((logits) => softmax(logits)[target]);
  const kl = divergence(...rows);
  return { change, probability_change: after - before, kl, effect: kl };
}

// The strongest edges of one row with weight, norm, contribution, and the effect of knocking each out.
export function edgeEffects(run, index, { head, query, key, count }) {
  const attention = run.attention(index);
  const { reads, at } = run.labels(index);
  const weights = rowOf(attention.weights[head], query, attention.keys);
  const keys = (key === null ? largest(weights, count) : [key]).filter((one) => weights[one] > 0);
  const target = effectTarget(run, index, query);
  const value = readOutput(run, run.logits, target, query);
  const { model, tokenizer } = run.translator;
  const byLogits = outputGradient(run, target, query);
  const { gradient } = gradients(model, run.sourceIds, run.targetIds, byLogits)[index];
  const rows = keys.map((one) => {
    const edge = { layer: attention.name, head, query, key: one };
    const values = edgeValues(attention, gradient, head, query, one);
    const { effect, ...changes } = measureEdge(run, edge, target, query, value);
    return { ...edge, ...values, ...changes, flag: flagOf(values.weight, effect), looking: null, at: at[one] };
  });
  const probability = target === null ? null : softmax(run.logitsOf(query))[target];
  const found = { rows, how: "before", target, value, probability, notes: [], word: null };
  return { ...found, token: target === null ? null : tokenizer.pieces([target])[0], from: reads[query] };
}
