// What the picture of the whole model asks about a run, as in transom/serve/stage_queries.py.

import { headInfluence, rowInfluences } from "./edge_influence.js";
import { roleOf } from "./engine_session.js";
import { explainRow } from "./explained_row.js";
import { largest, norm, rowOf } from "./matrix.js";

const round = (number) => Number(number.toPrecision(6));

// The map of every head in at most cells × cells bytes, row by row; the header has the shapes.
export function thumbnails(run, { cells, first, count }) {
  const attentions = run.attentions.slice(first, first + count);
  const shapes = attentions.map(({ heads, queries, keys }) => {
    const sides = [queries, keys].map((size) => Math.ceil(size / Math.ceil(size / cells)));
    return [heads, ...sides];
  });
  const parts = attentions.flatMap((attention) =>
    attention.weights.map((weights) => thumbnail(attention, weights, cells))
  );
  const body = Uint8Array.from(parts.flat());
  return { body, header: { first, attentions: shapes } };
}

// The largest weight of each cell as a byte b: (b / 255)².
function thumbnail({ queries, keys }, weights, cells) {
  const [tall, wide] = [queries, keys].map((size) => Math.ceil(size / cells));
  const columns = Math.ceil(keys / wide);
  const most = new Array(Math.ceil(queries / tall) * columns).fill(0);
  for (let row = 0; row < queries; row += 1) {
    for (let key = 0; key < keys; key += 1) {
      const cell = Math.floor(row / tall) * columns + Math.floor(key / wide);
      most[cell] = Math.max(most[cell], weights[row * keys + key]);
    }
  }
  return most.map((weight) => Math.round(Math.sqrt(Math.min(1, weight)) * 255));
}

// The rows and keys of an attention that a window shows.
function windowOf({ name, queries, keys }, { first, first_target: firstTarget, count }) {
  const role = roleOf(name);
  const span = (start, size) => {
    return Array.from({ length: Math.max(0, Math.min(count, size - start)) }, (_, place) => start + place);
  };
  return [
    span(role === "encoder" ? first : firstTarget, queries),
    span(role === "decoder" ? firstTarget : first, keys),
  ];
}

// For every attention the mean over its heads of the weights in a window.
export function meanWeights(run, fields) {
  const attentions = run.attentions.map((attention) => {
    const [rows, keys] = windowOf(attention, fields);
    const mean = (place) => attention.weights.reduce((sum, weights) => sum + weights[place], 0) / attention.heads;
    return rows.map((row) => keys.map((key) => round(mean(row * attention.keys + key))));
  });
  return { first: fields.first, first_target: fields.first_target, attentions };
}

// Per block and token, the length of what comes in, of what each part adds, and of what goes out.
export function residualSizes(run) {
  const { model } = run.translator;
  const [encoding, decoding] = [[], []];
  const encoded = model.encode(run.sourceIds, { tape: encoding });
  model.decode(run.targetIds, encoded, { tape: decoding });
  const blocks = [...stackSizes("encoder", encoding, model.encoder), ...stackSizes("decoder", decoding, model.decoder)];
  return { blocks, missing: "" };
}

function stackSizes(name, tape, stack) {
  const each = tape.length / stack.blocks.length;
  return stack.blocks.map((block, layer) => {
    const parts = tape.slice(layer * each, (layer + 1) * each);
    const after = tape[(layer + 1) * each]?.x ?? tape.last;
    const kinds = block.cross ? ["attention", "cross", "feed_forward"] : ["attention", "feed_forward"];
    const lengths = (x) =>
      Array.from({ length: parts[0].rows }, (_, row) => round(norm(rowOf(x, row, x.length / parts[0].rows))));
    return {
      block: `${name}.blocks.${layer}`,
      before: lengths(parts[0].x),
      parts: parts.map(({ added }, place) => ({ kind: kinds[place], size: lengths(added) })),
      after: lengths(after),
    };
  });
}

// What each head, and each edge of a window, was worth for the token after one row: the estimated change of its
// log-probability without it, by one backward pass.
export function influenceForRow(run, fields) {
  const { row } = fields;
  const { attentions } = explainRow(run, row);
  const heads = attentions.map((one) =>
    Array.from({ length: one.heads }, (_, head) => round(headInfluence(one, head)))
  );
  const edges = attentions.map((one) => {
    const [queries, keys] = windowOf(one, fields);
    return queries.map((query) => edgeInfluences(one, query, keys));
  });
  return { by: "influence", row, heads, edges };
}

// The change without each edge of a row, summed over the heads.
function edgeInfluences(attention, query, keys) {
  const perHead = attention.weights.map((_, head) => rowInfluences(attention, head, query, keys));
  return keys.map((_, place) => round(perHead.reduce((sum, changes) => sum + changes[place], 0)));
}

// One row of a head with all that makes it; of many keys, those with the largest weights.
export function rowArithmetic(run, index, { head, query, count }) {
  const attention = run.attention(index);
  const { reads, at } = run.labels(index);
  const { Q, K, V, joined, heads, width, keys } = attention;
  const weights = rowOf(attention.weights[head], query, keys);
  const vector = (x, row) => Array.from(rowOf(x, row * heads + head, width), round);
  const everyKey = Array.from(weights, (_, key) => key);
  const allowed = everyKey.filter((key) => !attention.isMasked(query, key));
  const isMasked = (key) => attention.isMasked(query, key);
  const strongest = () => largest(weights, count).sort((a, b) => a - b).filter((key) => !isMasked(key));
  const listed = keys > count ? strongest() : everyKey;
  const others = allowed.filter((key) => !listed.includes(key));
  return {
    token: reads[query],
    scale: attention.scale,
    softcap: null,
    Q: vector(Q, query),
    keys: listed.map((key) => ({
      key,
      token: at[key],
      score: isMasked(key) ? null : attention.score(head, query, key),
      weight: weights[key],
      K: vector(K, key),
      V: vector(V, key),
    })),
    others: { count: others.length, weight: others.reduce((sum, key) => sum + weights[key], 0) },
    masked: keys - allowed.length,
    output: vector(joined, query),
  };
}
