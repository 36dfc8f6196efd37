// What single edges and whole heads change, to first order, from the gradient of a number by the output of each head.

import { dot, rowOf } from "./matrix.js";

const NEAR_ONE = 0.9; // above this weight the other keys are summed instead

// −Σ gradient · output: the change without a whole head.
export function headInfluence(attention, head) {
  const { gradient, joined, heads, width, queries } = attention;
  let sum = 0;
  for (let query = 0; query < queries; query += 1) {
    const at = (query * heads + head) * width;
    sum -= dot(gradient, at, joined, at, width);
  }
  return sum;
}

// The change without each edge of one row of a head, before the softmax: A / (1 − A) · (g·o − g·v).
export function rowInfluences(attention, head, query, keys) {
  const { gradient, joined, V, heads, width } = attention;
  const line = heads * width;
  const at = query * line + head * width;
  const weights = rowOf(attention.weights[head], query, attention.keys);
  const value = (key) => dot(gradient, at, V, key * line + head * width, width);
  const output = dot(gradient, at, joined, at, width);
  return keys.map((key) => {
    if (weights[key] > NEAR_ONE) return withoutKey(weights, value, key, output);
    return (weights[key] / (1 - weights[key])) * (output - value(key));
  });
}

// The same for a key that has nearly all the weight: from the other keys.
function withoutKey(weights, value, key, output) {
  let rest = 0;
  let sum = 0;
  weights.forEach((weight, other) => {
    if (other === key) return;
    rest += weight;
    sum += weight * value(other);
  });
  return (rest > 0 ? sum / rest : 0) - output;
}
