// How far the whole output would move without each head or edge, by a few backward passes, as in
// transom/lens/attribution/output_estimates.py.

import { gradientsAlong } from "./backward.js";
import { explainRow } from "./explained_row.js";
import { headInfluence, rowInfluences } from "./edge_influence.js";
import { divergence, largest, rowOf, softmax } from "./matrix.js";
import { RandomSigns } from "./random_signs.js";

const PROBES = 8; // random directions of the output
const UNIT = "nats";
const LOG_PROBABILITY = "log_probability"; // of the token after a row, in nats; signed: negative where an edge helps it
const MATTERS = "without it, what the model gives would change most";

const estimates = new WeakMap(); // of each run

// √p ⊙ ε − p (√p · ε) for each row: its covariance is the curvature of the KL divergence.
function drawProbe(logits, vocabulary, signs) {
  const probe = new Float64Array(logits.length);
  for (let at = 0; at < logits.length; at += vocabulary) {
    const chances = softmax(logits.subarray(at, at + vocabulary));
    const steps = chances.map((chance) => Math.sqrt(chance) * signs.next());
    const along = steps.reduce((sum, step) => sum + step, 0);
    steps.forEach((step, id) => (probe[at + id] = step - chances[id] * along));
  }
  return probe;
}

// Half the mean of the squared changes along all probes, in nats.
function sizeOf(changes) {
  return changes.reduce((sum, change) => sum + change * change, 0) / changes.length / 2;
}

class OutputEstimates {
  constructor(run) {
    const signs = new RandomSigns(0);
    const draw = (logits) => drawProbe(logits, run.vocabulary, signs);
    const { model } = run.translator;
    // For each probe, every attention with its gradient.
    this.probes = gradientsAlong(model, run.sourceIds, run.targetIds, new Array(PROBES).fill(draw));
  }

  head(index, head) {
    return sizeOf(this.probes.map((attentions) => headInfluence(attentions[index], head)));
  }

  row(index, head, query, keys) {
    const changes = this.probes.map((attentions) => rowInfluences(attentions[index], head, query, keys));
    return keys.map((_, place) => sizeOf(changes.map((one) => one[place])));
  }
}

function estimatesOf(run) {
  if (!estimates.has(run)) estimates.set(run, new OutputEstimates(run));
  return estimates.get(run);
}

// KL(with ‖ without) of the whole output, if a head is knocked out.
function headEffect(run, { layer, head }) {
  const without = run.runWithout([{ layer, head }], "after");
  return run.targetIds.reduce((sum, _, row) => sum + divergence(run.logitsOf(row), run.logitsOf(row, without)), 0);
}

// All heads by how far the output moves without each: by estimate, the first `refine` by a knock-out.
export function rankHeads(run, { refine }) {
  const found = estimatesOf(run);
  const rows = run.attentions.flatMap(({ name, heads }, attention) =>
    Array.from({ length: heads }, (_, head) => {
      return { attention, layer: name, head, estimate: found.head(attention, head), effect: null };
    })
  ).sort((a, b) => b.estimate - a.estimate);
  const first = rows.slice(0, refine).map((row) => ({ ...row, effect: headEffect(run, row) }));
  first.sort((a, b) => b.effect - a.effect);
  const all = refine >= rows.length;
  const why = refine === 0
    ? `by estimate, ${MATTERS}`
    : all
    ? MATTERS
    : `${MATTERS} (${refine} were tried, the others estimated)`;
  return { unit: UNIT, why, rows: [...first, ...rows.slice(refine)] };
}

const range = (first, count, size) =>
  Array.from({ length: Math.max(0, Math.min(count, size - first)) }, (_, i) => first + i);

// A block of single edges, beside their weights: how far the output is estimated to move without each; with a token,
// the signed change of its log-probability.
export function influenceBlock(run, index, { head, token, first_row: firstRow, first_key: firstKey, ...counts }) {
  const attention = run.attention(index);
  const { reads, at } = run.labels(index);
  const queries = range(firstRow, counts.rows, attention.queries);
  const keys = range(firstKey, counts.keys, attention.keys);
  const explained = token === null ? null : explainRow(run, token);
  const found = explained ?? estimatesOf(run);
  const changes = (query) =>
    explained ? explained.edges(index, head, query, keys) : found.row(index, head, query, keys);
  return {
    rows: queries.map((query) => reads[query]),
    keys: keys.map((key) => at[key]),
    first: [firstRow, firstKey],
    unit: explained ? LOG_PROBABILITY : UNIT,
    explained: explained?.toObject() ?? null,
    estimates: queries.map(changes),
    weights: queries.map((query) => {
      const weights = rowOf(attention.weights[head], query, attention.keys);
      return keys.map((key) => weights[key]);
    }),
  };
}

// The edges of a head without which the output, or the prediction of one row, is estimated to change most.
export function mostInfluentialEdges(run, index, { head, count, sink, token }) {
  const { weights, queries, keys } = run.attention(index);
  const { reads, at } = run.labels(index);
  const explained = token === null ? null : explainRow(run, token);
  const everyKey = range(0, keys, keys);
  const changes = explained
    ? explained.head(index, head)
    : range(0, queries, queries).flatMap((query) => estimatesOf(run).row(index, head, query, everyKey));
  const shown = sink ? changes : changes.map((change, place) => place % keys === 0 ? 0 : change);
  const edges = largest(shown.map(Math.abs), count).filter((place) => shown[place] !== 0).map((place) => {
    const [query, key] = [Math.floor(place / keys), place % keys];
    return { query, key, weight: weights[head][place], estimate: shown[place], from: reads[query], at: at[key] };
  });
  return { edges, unit: explained ? LOG_PROBABILITY : UNIT, explained: explained?.toObject() ?? null };
}
