// Writing token by token with a cache: greedily, or by beam search as in transom/models/generation/beam_search.py.

import { Attention, project } from "./attention.js";
import { largest, logSumExp, multiply, rowOf } from "./matrix.js";

const KNOWN = [
  "eos_token_id",
  "pad_token_id",
  "decoder_start_token_id",
  "length_penalty",
  "early_stopping",
  "num_beams",
];

// The settings of generation_config.json; one that this engine does not follow is an error.
export function generationSettings(file) {
  const unknown = Object.keys(file).filter((name) => !KNOWN.includes(name));
  if (unknown.length) throw new Error(`the browser cannot generate with ${unknown.join(", ")}; use transom serve`);
  const ends = file.eos_token_id ?? 2;
  return {
    ends: Array.isArray(ends) ? ends : [ends],
    start: file.decoder_start_token_id ?? 1,
    penalty: file.length_penalty ?? 1,
    early: file.early_stopping ?? false,
  };
}

// The keys and values of some target sequences of the same length, row by row and block by block.
class Cache {
  constructor(model, encoded) {
    const keys = encoded.length / model.width;
    this.model = model;
    this.length = 0;
    this.rows = [model.decoder.blocks.map(() => ({ K: [], V: [] }))];
    this.source = model.decoder.blocks.map(({ cross }) => ({
      keys,
      K: project(encoded, keys, cross.K),
      V: project(encoded, keys, cross.V),
    }));
  }

  // Continue these rows, each by one token; a row may be continued more than once.
  select(rows) {
    this.rows = rows.map((row) => this.rows[row].map(({ K, V }) => ({ K: [...K], V: [...V] })));
  }

  // The logits after one more token of each row, (rows, vocabulary).
  next(tokens) {
    const { model } = this;
    const count = tokens.length;
    let x = new Float32Array(count * model.width);
    tokens.forEach((token, row) => x.set(model.embed([token], this.length), row * model.width));
    for (const [layer, block] of model.decoder.blocks.entries()) {
      const { norms } = block;
      x = model.around(x, count, norms.attention, (y) => this.attendSelf(y, count, layer, block.attention));
      x = model.around(x, count, norms.cross, (y) => this.attendSource(y, count, layer, block.cross));
      x = model.around(x, count, norms.feed_forward, (y) => model.feedForward(y, count, block));
    }
    this.length += 1;
    return model.logits(model.close(x, count, model.decoder), count);
  }

  attendSelf(x, count, layer, parts) {
    const { model } = this;
    const [Q, K, V] = [parts.Q, parts.K, parts.V].map((part) => project(x, count, part));
    const joined = new Float32Array(count * parts.Q.out);
    for (let row = 0; row < count; row += 1) {
      const cache = this.rows[row][layer];
      cache.K.push(rowOf(K, row, parts.K.out));
      cache.V.push(rowOf(V, row, parts.V.out));
      const keys = cache.K.length;
      const sizes = { heads: model.heads, width: model.headWidth, queries: 1, keys };
      const attention = new Attention(parts.name, sizes);
      Object.assign(attention, { Q: rowOf(Q, row, parts.Q.out), K: join(cache.K), V: join(cache.V) });
      joined.set(attention.solve().joined, row * parts.Q.out);
    }
    return multiply(joined, count, parts.O.W, parts.O.b, model.width);
  }

  attendSource(x, count, layer, parts) {
    const { model } = this;
    const { K, V, keys } = this.source[layer];
    const attention = new Attention(parts.name, { heads: model.heads, width: model.headWidth, queries: count, keys });
    Object.assign(attention, { Q: project(x, count, parts.Q), K, V });
    return multiply(attention.solve().joined, count, parts.O.W, parts.O.b, model.width);
  }
}

function join(vectors) {
  const joined = new Float32Array(vectors.length * vectors[0].length);
  vectors.forEach((vector, row) => joined.set(vector, row * vector.length));
  return joined;
}

// The tokens that greedy search writes, at most so many; `onToken` gets each, and may throw to stop.
export function writeGreedily(model, encoded, settings, most, onToken = () => {}) {
  const cache = new Cache(model, encoded);
  const written = [];
  for (let token = settings.start; written.length < most;) {
    [token] = largest(cache.next([token]), 1);
    written.push(token);
    onToken(token);
    if (settings.ends.includes(token)) break;
  }
  return written;
}

// The best sequence that beam search finds, at most so many tokens.
export function writeByBeams(model, encoded, settings, beams, most) {
  const cache = new Cache(model, encoded);
  const finished = new FinishedBeams(beams);
  let open = [{ score: 0, tokens: [] }];
  let logits = cache.next([settings.start]);
  for (let length = 1;; length += 1) {
    const candidates = bestContinuations(logits, open, Math.max(2, 1 + settings.ends.length) * beams, model.vocabulary);
    const hasEnded = (one) => settings.ends.includes(one.token) || length >= most;
    for (const one of candidates.slice(0, beams).filter(hasEnded)) {
      finished.add(one.score / length ** settings.penalty, [...open[one.beam].tokens, one.token]);
    }
    const chosen = candidates.filter((one) => !hasEnded(one)).slice(0, beams);
    const horizon = settings.early === "never" && settings.penalty > 0 ? most : length;
    const canImprove = chosen.length > 0 && finished.wouldEnter(chosen[0].score / horizon ** settings.penalty);
    if (!canImprove || (settings.early === true && finished.isFull)) return finished.best;
    open = chosen.map((one) => ({ score: one.score, tokens: [...open[one.beam].tokens, one.token] }));
    cache.select(chosen.map((one) => one.beam));
    logits = cache.next(chosen.map((one) => one.token));
  }
}

// The best few of score + log-probability, best first.
function bestContinuations(logits, open, count, vocabulary) {
  const candidates = open.flatMap(({ score }, beam) => {
    const row = rowOf(logits, beam, vocabulary);
    const level = logSumExp(row);
    return largest(row, count).map((token) => ({ beam, token, score: score + row[token] - level }));
  });
  return candidates.sort((a, b) => b.score - a.score).slice(0, count);
}

class FinishedBeams {
  constructor(most) {
    this.most = most;
    this.beams = [];
  }

  add(score, tokens) {
    this.beams.push({ score, tokens });
    this.beams.sort((a, b) => b.score - a.score);
    this.beams.length = Math.min(this.beams.length, this.most);
  }

  get isFull() {
    return this.beams.length === this.most;
  }

  wouldEnter(score) {
    return !this.isFull || score > this.beams.at(-1).score;
  }

  get best() {
    return this.beams[0]?.tokens ?? [];
  }
}
