// Arithmetic on rows of numbers: every matrix is a Float32Array, row after row. Sums are kept in double precision.

// x Wᵀ + b for `rows` rows of x; W is (width out, width in), as parameters are stored. Four rows at a time share the
// pass over W, which is what takes the time.
export function multiply(x, rows, W, b, out) {
  const y = new Float32Array(rows * out);
  const width = x.length / rows;
  for (let first = 0; first < rows; first += 4) {
    const count = Math.min(4, rows - first);
    if (count === 4) multiplyFour(x, first * width, W, b, width, out, y, first * out);
    else {for (let row = first; row < first + count; row += 1) {
        multiplyOne(x, row * width, W, b, width, out, y, row * out);
      }}
  }
  return y;
}

function multiplyFour(x, start, W, b, width, out, y, at) {
  const [x0, x1, x2, x3] = [0, 1, 2, 3].map((row) => x.subarray(start + row * width, start + (row + 1) * width));
  let w = 0;
  for (let o = 0; o < out; o += 1) {
    const bias = b === null ? 0 : b[o];
    let s0 = bias;
    let s1 = bias;
    let s2 = bias;
    let s3 = bias;
    for (let i = 0; i < width; i += 1, w += 1) {
      const weight = W[w];
      s0 += x0[i] * weight;
      s1 += x1[i] * weight;
      s2 += x2[i] * weight;
      s3 += x3[i] * weight;
    }
    y[at + o] = s0;
    y[at + out + o] = s1;
    y[at + 2 * out + o] = s2;
    y[at + 3 * out + o] = s3;
  }
}

function multiplyOne(x, start, W, b, width, out, y, at) {
  const even = width & ~1;
  let w = 0;
  for (let o = 0; o < out; o += 1) {
    let s0 = b === null ? 0 : b[o];
    let s1 = 0;
    for (let i = 0; i < even; i += 2) {
      s0 += x[start + i] * W[w + i];
      s1 += x[start + i + 1] * W[w + i + 1];
    }
    if (even < width) s0 += x[start + even] * W[w + even];
    y[at + o] = s0 + s1;
    w += width;
  }
}

// LayerNorm of each row: (x − mean) / √(variance + ε) · weight + bias.
export function layerNorm(x, rows, { weight, bias, eps }) {
  const width = x.length / rows;
  const y = new Float32Array(x.length);
  for (let at = 0; at < x.length; at += width) {
    let sum = 0;
    for (let i = 0; i < width; i += 1) sum += x[at + i];
    const mean = sum / width;
    let squares = 0;
    for (let i = 0; i < width; i += 1) squares += (x[at + i] - mean) ** 2;
    const factor = 1 / Math.sqrt(squares / width + eps);
    for (let i = 0; i < width; i += 1) {
      y[at + i] = (x[at + i] - mean) * factor * weight[i] + (bias === null ? 0 : bias[i]);
    }
  }
  return y;
}

export function add(x, y) {
  const sum = new Float32Array(x.length);
  for (let i = 0; i < x.length; i += 1) sum[i] = x[i] + y[i];
  return sum;
}

// The logarithm of Σ exp over part of an array; −∞ if all of it is −∞.
export function logSumExp(x, start = 0, end = x.length) {
  let largest = -Infinity;
  for (let i = start; i < end; i += 1) if (x[i] > largest) largest = x[i];
  if (largest === -Infinity) return largest;
  let sum = 0;
  for (let i = start; i < end; i += 1) sum += Math.exp(x[i] - largest);
  return largest + Math.log(sum);
}

// The indices of the `count` largest numbers of a row, largest first; the first of equal ones comes first.
export function largest(x, count) {
  const best = [];
  for (let i = 0; i < x.length; i += 1) {
    if (best.length === count && !(x[i] > x[best[count - 1]])) continue;
    let place = best.length;
    while (place > 0 && x[i] > x[best[place - 1]]) place -= 1;
    best.splice(place, 0, i);
    if (best.length > count) best.pop();
  }
  return best;
}

// One row of a matrix, not copied.
export const rowOf = (x, row, width) => x.subarray(row * width, (row + 1) * width);

export function dot(x, at, y, start, count) {
  let sum = 0;
  for (let i = 0; i < count; i += 1) sum += x[at + i] * y[start + i];
  return sum;
}

export const norm = (x) => Math.sqrt(dot(x, 0, x, 0, x.length));

// KL(p ‖ q) in nats, of two rows of logits.
export function divergence(before, after) {
  const [a, b] = [logSumExp(before), logSumExp(after)];
  let sum = 0;
  for (let i = 0; i < before.length; i += 1) {
    const log = before[i] - a;
    sum += Math.exp(log) * (log - (after[i] - b));
  }
  return Math.max(0, sum);
}

export function softmax(logits) {
  const level = logSumExp(logits);
  return Float64Array.from(logits, (logit) => Math.exp(logit - level));
}
