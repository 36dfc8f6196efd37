// What edges and heads do to a run: knocked out, ranked, compared, as in transom/serve/run_queries.py.

import { roleOf } from "./engine_session.js";
import { RequestError } from "./request_error.js";
import { divergence, largest, softmax } from "./matrix.js";

const LIKELY = 5; // tokens that were most likely
const MOVED = 8; // tokens whose probability changed most
const ALMOST_ALL = 0.999; // a row with only one key gives it at least this weight
const MATTERS = "without it, what the model gives would change most";

// Raise an error for an edge that this run does not have, or that is masked in it.
function checkEdge(run, { layer, head, query = null, key = null }) {
  const attention = run.attentions.find((one) => one.name === layer);
  if (!attention) {
    const names = run.attentions.map((one) => one.name).join(", ");
    throw new RequestError(`layer '${layer}' was to be knocked out, but no attention ran in it; there are ${names}`);
  }
  const axes = [["head", head, attention.heads], ["query", query, attention.queries], ["key", key, attention.keys]];
  for (const [axis, position, size] of axes) {
    if (position === null || position < size) continue;
    const plural = { head: "heads", query: "queries", key: "keys" }[axis];
    throw new RequestError(
      `${axis} ${position} was to be knocked out of ${layer}, but the ${plural} there are 0 to ${
        size - 1
      }; count from 0`,
    );
  }
  if (query !== null && key !== null && attention.isMasked(query, key)) {
    throw new RequestError(
      `head ${head}, query ${query}, key ${key} was to be knocked out of ${layer}, but it is masked there already;` +
        " name an edge that the model may use",
    );
  }
}

// Run again without some edges: for each row the predictions before and after, where they changed most.
export function knockOut(run, { edges, how = "before" }) {
  edges.forEach((edge) => checkEdge(run, edge));
  const without = run.runWithout(edges, how);
  const { tokenizer } = run.translator;
  const rows = run.targetIds.map((_, row) => {
    const logits = [run.logitsOf(row), run.logitsOf(row, without)];
    const [before, after] = logits.map(softmax);
    const moved = largest(before.map((chance, id) => Math.abs(after[id] - chance)), MOVED);
    const ids = [...new Set([...largest(before, LIKELY), ...moved, ...largest(after, 1)])].sort((a, b) => a - b);
    const tokens = tokenizer.pieces(ids);
    const words = ids.map((id, place) => ({ token: tokens[place], before: before[id], after: after[id] }));
    return { row, kl: divergence(...logits), words: words.sort((a, b) => b.before - a.before) };
  });
  return { change: rows.reduce((sum, { kl }) => sum + kl, 0), rows };
}

// The head of a cross-attention without which the output changes most.
export function firstHead(run) {
  const layers = run.attentions.filter(({ name }) => roleOf(name) === "cross");
  const heads = layers.flatMap(({ name, heads }) =>
    Array.from({ length: heads }, (_, head) => ({ layer: name, head }))
  );
  let best = null;
  for (const head of heads) {
    const without = run.runWithout([head], "after");
    const change = run.targetIds.reduce(
      (sum, _, row) => sum + divergence(run.logitsOf(row), run.logitsOf(row, without)),
      0,
    );
    if (best === null || change > best.change) best = { ...head, change };
  }
  const { layer, head } = best;
  const attention = run.attentions.findIndex(({ name }) => name === layer);
  return { attention, layer, head, why: MATTERS, compared: heads.length };
}

// The outputs of two runs, and row by row what each read, wrote, and with what probability.
export function compareRuns(run, other) {
  const runs = [run, other];
  const sides = runs.map(predictionRows);
  const rows = Array.from({ length: Math.max(...sides.map((side) => side.length)) }, (_, row) => ({
    row,
    sides: sides.map((side) => side[row] ?? null),
    kl: sides.every((side) => row in side) ? divergence(run.logitsOf(row), other.logitsOf(row)) : null,
  }));
  return { runs: runs.map((one) => ({ run: one.number, text: one.text, output: one.output })), rows };
}

// For each row the token it read, the one that followed (after the last the most likely), and its probability.
function predictionRows(run) {
  const last = largest(run.logitsOf(run.targetIds.length - 1), 1);
  const following = [...run.targetIds.slice(1), ...last];
  const tokens = run.translator.tokenizer.pieces(following);
  return following.map((id, row) => {
    return { reads: run.targets[row], writes: tokens[row], probability: softmax(run.logitsOf(row))[id] };
  });
}

// The strongest edges of a head; those of rows that may see no other key come last.
export function strongestEdges(run, index, { head, count, sink }) {
  const { weights, keys, causal } = run.attention(index);
  const { reads, at } = run.labels(index);
  const shown = sink ? weights[head] : weights[head].map((weight, place) => place % keys === 0 ? 0 : weight);
  const edges = largest(shown, count).filter((place) => shown[place] > 0).map((place) => {
    const [query, key] = [Math.floor(place / keys), place % keys];
    return { query, key, weight: shown[place], from: reads[query], at: at[key] };
  });
  for (const edge of edges) edge.only = edge.weight >= ALMOST_ALL && (causal ? edge.query + 1 : keys) === 1;
  return { edges: [...edges.filter(({ only }) => !only), ...edges.filter(({ only }) => only)] };
}
