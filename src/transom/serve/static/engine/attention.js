// One multi-head attention: Q, K and V of a run, its scores and weights, and edges that are cut.

import { dot, multiply } from "./matrix.js";

// What one attention computed. Q is (queries, heads · d), K and V are (keys, heads · d); weights[head] is
// (queries, keys). `x` and `source` are what queries and keys were made from, `joined` the heads side by side.
export class Attention {
  constructor(name, sizes, { causal = false, start = 0 } = {}) {
    Object.assign(this, sizes, { name, causal, start });
  }

  get scale() {
    return 1 / Math.sqrt(this.width);
  }

  isMasked(row, key) {
    return this.causal && key > this.start + row;
  }

  // The score of a query and a key before any cut; −∞ where it is masked.
  score(head, row, key) {
    if (this.isMasked(row, key)) return -Infinity;
    const line = this.heads * this.width;
    const at = head * this.width;
    return dot(this.Q, row * line + at, this.K, key * line + at, this.width) * this.scale;
  }

  // Weights and joined outputs of all heads, without the edges that `cut` names.
  solve(cut = null) {
    const line = this.heads * this.width;
    this.joined = new Float32Array(this.queries * line);
    this.weights = Array.from({ length: this.heads }, () => new Float32Array(this.queries * this.keys));
    this.lse = Array.from({ length: this.heads }, () => new Float64Array(this.queries));
    const scores = new Float64Array(this.keys);
    for (let head = 0; head < this.heads; head += 1) {
      for (let row = 0; row < this.queries; row += 1) {
        for (let key = 0; key < this.keys; key += 1) {
          scores[key] = cut?.before(head, row, key) ? -Infinity : this.score(head, row, key);
        }
        this.softmaxRow(head, row, scores);
        for (let key = 0; cut && key < this.keys; key += 1) {
          if (cut.after(head, row, key)) this.weights[head][row * this.keys + key] = 0;
        }
        this.sumValues(head, row, line);
      }
    }
    return this;
  }

  softmaxRow(head, row, scores) {
    const at = row * this.keys;
    const largest = scores.reduce((most, score) => Math.max(most, score), -Infinity);
    this.lse[head][row] = largest;
    if (largest === -Infinity) return; // no key is left: the row reads nothing
    let sum = 0;
    for (let key = 0; key < this.keys; key += 1) sum += Math.exp(scores[key] - largest);
    for (let key = 0; key < this.keys; key += 1) this.weights[head][at + key] = Math.exp(scores[key] - largest) / sum;
    this.lse[head][row] += Math.log(sum);
  }

  // Σ weight · value into the joined output.
  sumValues(head, row, line) {
    const weights = this.weights[head];
    const sums = new Float64Array(this.width);
    for (let key = 0; key < this.keys; key += 1) {
      const weight = weights[row * this.keys + key];
      if (weight === 0) continue;
      const at = key * line + head * this.width;
      for (let i = 0; i < this.width; i += 1) sums[i] += weight * this.V[at + i];
    }
    this.joined.set(sums, row * line + head * this.width);
  }
}

// Q of `rows` vectors, or K and V.
export const project = (x, rows, { W, b, out }) => multiply(x, rows, W, b, out);

// The edges to cut of one attention: those of a list that name it. Without a query or a key, all of them.
export class Cut {
  constructor(edges, how) {
    this.edges = edges;
    this.how = how;
  }

  // The cut of one attention; null if it has none.
  of(name) {
    const edges = this.edges.filter((edge) => edge.layer === name);
    return edges.length ? new Cut(edges, this.how) : null;
  }

  holds(head, row, key) {
    return this.edges.some((edge) => edge.head === head && (edge.query ?? row) === row && (edge.key ?? key) === key);
  }

  before(head, row, key) {
    return this.how === "before" && this.holds(head, row, key);
  }

  after(head, row, key) {
    return this.how === "after" && this.holds(head, row, key);
  }
}
