// The gradient of one number by what goes into each W_O: the forward pass again, and back through it.

import { dot } from "./matrix.js";

// dy · W for W of (width out, width in): the gradient by the input of `multiply`.
function multiplyBack(dy, rows, { W, out }) {
  const width = W.length / out;
  const dx = new Float64Array(rows * width);
  for (let row = 0; row < rows; row += 1) {
    for (let o = 0; o < out; o += 1) {
      const factor = dy[row * out + o];
      if (factor === 0) continue;
      for (let i = 0; i < width; i += 1) dx[row * width + i] += factor * W[o * width + i];
    }
  }
  return dx;
}

function normBack(x, dy, rows, { weight, eps }) {
  const width = x.length / rows;
  const dx = new Float64Array(x.length);
  for (let at = 0; at < x.length; at += width) {
    let mean = 0;
    for (let i = 0; i < width; i += 1) mean += x[at + i] / width;
    let variance = 0;
    for (let i = 0; i < width; i += 1) variance += (x[at + i] - mean) ** 2 / width;
    const factor = 1 / Math.sqrt(variance + eps);
    let average = 0;
    let along = 0;
    for (let i = 0; i < width; i += 1) {
      const g = dy[at + i] * weight[i];
      average += g / width;
      along += (g * (x[at + i] - mean) * factor) / width;
    }
    for (let i = 0; i < width; i += 1) {
      dx[at + i] = factor * (dy[at + i] * weight[i] - average - (x[at + i] - mean) * factor * along);
    }
  }
  return dx;
}

function addTo(sum, x) {
  for (let i = 0; i < sum.length; i += 1) sum[i] += x[i];
  return sum;
}

// Back through one attention; its `gradient` is that by the joined heads. Returns the gradients by x and by the source.
function attentionBack(attention, parts, dy) {
  const { queries, keys, heads, width, scale, Q, K, V } = attention;
  const line = heads * width;
  const gradient = attention.gradient = multiplyBack(dy, queries, parts.O);
  const [dQ, dK, dV] = [queries, keys, keys].map((rows) => new Float64Array(rows * line));
  for (let head = 0; head < heads; head += 1) {
    for (let row = 0; row < queries; row += 1) {
      const at = row * line + head * width;
      const weights = attention.weights[head].subarray(row * keys, (row + 1) * keys);
      const byWeight = Array.from(weights, (_, key) => dot(gradient, at, V, key * line + head * width, width));
      const mean = weights.reduce((sum, weight, key) => sum + weight * byWeight[key], 0);
      for (let key = 0; key < keys; key += 1) {
        const place = key * line + head * width;
        const byScore = weights[key] * (byWeight[key] - mean) * scale;
        for (let i = 0; i < width; i += 1) {
          dV[place + i] += weights[key] * gradient[at + i];
          dQ[at + i] += byScore * K[place + i];
          dK[place + i] += byScore * Q[at + i];
        }
      }
    }
  }
  const dSource = addTo(multiplyBack(dK, keys, parts.K), multiplyBack(dV, keys, parts.V));
  const dx = multiplyBack(dQ, queries, parts.Q);
  return attention.source === null ? [addTo(dx, dSource), null] : [dx, dSource];
}

function feedForwardBack(hidden, block, dy, rows) {
  const dHidden = multiplyBack(dy, rows, block.second);
  for (let i = 0; i < dHidden.length; i += 1) if (hidden[i] <= 0) dHidden[i] = 0;
  return multiplyBack(dHidden, rows, block.first);
}

// Back through the parts of a stack, the last first; returns the gradients by its input and by the source.
function stackBack(tape, dy, isPreNorm) {
  let ofSource = null;
  for (const entry of tape.toReversed()) {
    const { x, sum, rows, norm, attention, parts, hidden, block } = entry;
    const into = entry.gradient = isPreNorm ? dy : normBack(sum, dy, rows, norm);
    const [ofPart, source] = attention
      ? attentionBack(attention, parts, into)
      : [feedForwardBack(hidden, block, into, rows), null];
    if (source) ofSource = ofSource ? addTo(ofSource, source) : source;
    dy = addTo(isPreNorm ? normBack(x, ofPart, rows, norm) : ofPart, into);
  }
  return [dy, ofSource];
}

// The attentions of a run again, each with its `gradient` of a number; `byLogits` is the gradient of that number by the
// logits, (rows, vocabulary), for the logits of this pass.
export function gradients(model, sourceIds, targetIds, byLogits) {
  return gradientsAlong(model, sourceIds, targetIds, [byLogits])[0];
}

// The same for several numbers of one forward pass; `tapes` gets what each part took and gave, with its gradient.
export function gradientsAlong(model, sourceIds, targetIds, directions, tapes = { encoder: [], decoder: [] }) {
  const isPreNorm = model.config.arrangement === "pre_norm";
  const { encoder: encoding, decoder: decoding } = tapes;
  const attentions = [];
  const encoded = model.encode(sourceIds, { attentions, tape: encoding });
  const hidden = model.decode(targetIds, encoded, { attentions, tape: decoding });
  const rows = targetIds.length;
  const output = { W: model.embedding, out: model.vocabulary };
  const close = (stack, x, dy, count) => stack.closing ? normBack(x, dy, count, stack.closing) : dy;
  const logits = model.logits(hidden, rows);
  return directions.map((byLogits) => {
    const dHidden = multiplyBack(byLogits(logits), rows, output);
    const [, dSource] = stackBack(decoding, close(model.decoder, decoding.last, dHidden, rows), isPreNorm);
    stackBack(encoding, close(model.encoder, encoding.last, dSource, sourceIds.length), isPreNorm);
    return attentions.map((one) => Object.assign(Object.create(Object.getPrototypeOf(one)), one));
  });
}
