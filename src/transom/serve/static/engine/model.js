// The embedded encoder–decoder: its parameters, and its forward pass, with every attention on record.

import { Attention, project } from "./attention.js";
import { add, layerNorm, multiply, rowOf } from "./matrix.js";

// What this engine can run; sizes are free. A setting that is not named must be null, false or its default.
const FIXED = {
  model: "encoder_decoder",
  positions: "sinusoidal",
  norm: "layer",
  "feed_forward": "relu",
  tying: "all",
};
const ARRANGEMENTS = ["pre_norm", "post_norm"];
const SIZES = ["format", "d_model", "heads", "d_hidden", "longest", "vocabulary", "encoder_layers", "decoder_layers"];
const FREE = [...SIZES, "arrangement", "bias", "scaled", "padding", "initial", "dropout", "attention_dropout"];
const OF_TRAINING = ["hidden_dropout", "norm_eps", "position_base"];

function requireKnown(config) {
  for (const [name, value] of Object.entries(FIXED)) {
    if (config[name] !== value) {
      throw new Error(`the browser runs models with ${name}=${value}, but it is ${config[name]}`);
    }
  }
  const known = [...FREE, ...OF_TRAINING, ...Object.keys(FIXED)];
  for (const [name, value] of Object.entries(config)) {
    if (known.includes(name) || value === null || value === false) continue;
    throw new Error(`the browser cannot run a model with ${name}=${JSON.stringify(value)}; use transom serve`);
  }
  if (!ARRANGEMENTS.includes(config.arrangement)) {
    throw new Error(`the browser runs models in ${ARRANGEMENTS.join(" or ")}, but this is ${config.arrangement}`);
  }
}

export class Model {
  constructor(config, tensors) {
    requireKnown(config);
    const { d_model: width, heads } = config;
    Object.assign(this, { config, tensors, width, heads, headWidth: width / heads });
    this.eps = config.norm_eps ?? 1e-5;
    this.embedding = this.parameter("source_embedding.vectors").data;
    this.vocabulary = this.embedding.length / width;
    this.encoder = this.readStack("encoder", config.encoder_layers, false);
    this.decoder = this.readStack("decoder", config.decoder_layers, true);
  }

  parameter(name) {
    const found = this.tensors.get(name);
    if (!found) throw new Error(`the model's file should hold ${name}, but it does not; take another copy`);
    return found;
  }

  linear(name) {
    const { data: W, shape } = this.parameter(`${name}.weight`);
    return { W, b: this.tensors.get(`${name}.bias`)?.data ?? null, out: shape[0] };
  }

  norm(name) {
    const bias = this.tensors.get(`${name}.bias`)?.data ?? null;
    return { weight: this.parameter(`${name}.weight`).data, bias, eps: this.eps };
  }

  readStack(name, layers, cross) {
    const blocks = Array.from({ length: layers }, (_, layer) => this.readBlock(`${name}.blocks.${layer}`, cross));
    return { blocks, closing: this.config.arrangement === "pre_norm" ? this.norm(`${name}.closing`) : null };
  }

  readBlock(path, cross) {
    const readAttention = (part) => ({
      name: `${path}.${part}`,
      ...Object.fromEntries(["Q", "K", "V", "O"].map((letter) => [letter, this.linear(`${path}.${part}.W_${letter}`)])),
    });
    const parts = ["attention", ...(cross ? ["cross"] : []), "feed_forward"];
    return {
      attention: readAttention("attention"),
      cross: cross ? readAttention("cross") : null,
      first: this.linear(`${path}.feed_forward.W_1`),
      second: this.linear(`${path}.feed_forward.W_2`),
      norms: Object.fromEntries(parts.map((part) => [part, this.norm(`${path}.norm_${part}`)])),
    };
  }

  // The tokens' vectors with their positions, which count from `start`.
  embed(ids, start = 0) {
    const x = new Float32Array(ids.length * this.width);
    const scale = this.config.scaled ? Math.fround(Math.sqrt(this.width)) : 1;
    const base = this.config.position_base ?? 10_000;
    for (const [row, id] of ids.entries()) {
      const vector = rowOf(this.embedding, id, this.width);
      for (let i = 0; i < this.width; i += 1) {
        const angle = (start + row) * base ** (-(i - (i % 2)) / this.width);
        const wave = Math.fround(i % 2 ? Math.cos(angle) : Math.sin(angle));
        x[row * this.width + i] = Math.fround(vector[i] * scale) + wave;
      }
    }
    return x;
  }

  // x after one part, with its residual and its norm in the model's order. A tape gets what the way back needs.
  around(x, rows, norm, part, tape = null) {
    const entry = { x, rows, norm };
    tape?.push(entry);
    const isPreNorm = this.config.arrangement === "pre_norm";
    entry.added = part(isPreNorm ? layerNorm(x, rows, norm) : x, entry);
    entry.sum = add(x, entry.added);
    if (isPreNorm) return entry.sum;
    return layerNorm(entry.sum, rows, norm);
  }

  attend(x, rows, [source, keys], parts, run, entry) {
    const sizes = { heads: this.heads, width: this.headWidth, queries: rows, keys };
    const attention = new Attention(parts.name, sizes, { causal: run.causal && source === x });
    Object.assign(attention, { x, source: source === x ? null : source, parts, output: parts.O });
    attention.Q = project(x, rows, parts.Q);
    attention.K = project(source, keys, parts.K);
    attention.V = project(source, keys, parts.V);
    attention.solve(run.cut?.of(parts.name) ?? null);
    run.attentions?.push(attention);
    Object.assign(entry, { attention, parts });
    return multiply(attention.joined, rows, parts.O.W, parts.O.b, this.width);
  }

  feedForward(x, rows, block, entry = {}) {
    const hidden = multiply(x, rows, block.first.W, block.first.b, block.first.out);
    for (let i = 0; i < hidden.length; i += 1) if (hidden[i] < 0) hidden[i] = 0;
    Object.assign(entry, { input: x, hidden, block });
    return multiply(hidden, rows, block.second.W, block.second.b, this.width);
  }

  runBlock(x, rows, block, source, keys, run) {
    const { norms } = block;
    const look = (part) => (y, entry) =>
      this.attend(y, rows, part === "cross" ? [source, keys] : [y, rows], block[part], run, entry);
    x = this.around(x, rows, norms.attention, look("attention"), run.tape);
    if (block.cross) x = this.around(x, rows, norms.cross, look("cross"), run.tape);
    return this.around(x, rows, norms.feed_forward, (y, entry) => this.feedForward(y, rows, block, entry), run.tape);
  }

  runStack(x, rows, stack, source, keys, run) {
    for (const block of stack.blocks) x = this.runBlock(x, rows, block, source, keys, run);
    if (run.tape) run.tape.last = x;
    return this.close(x, rows, stack);
  }

  close(x, rows, stack) {
    return stack.closing ? layerNorm(x, rows, stack.closing) : x;
  }

  // A vector per source token. `run` holds what is cut, and gets every attention.
  encode(ids, run = {}) {
    return this.runStack(this.embed(ids), ids.length, this.encoder, null, 0, { ...run, causal: false });
  }

  // A vector per target token.
  decode(ids, encoded, run = {}) {
    const keys = encoded.length / this.width;
    return this.runStack(this.embed(ids), ids.length, this.decoder, encoded, keys, { ...run, causal: true });
  }

  logits(x, rows) {
    return multiply(x, rows, this.embedding, null, this.vocabulary);
  }

  // Logits of each target row, (rows, vocabulary).
  forward(source, target, run = {}) {
    return this.logits(this.decode(target, run.encoded ?? this.encode(source, run), run), target.length);
  }
}
