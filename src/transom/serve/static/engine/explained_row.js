// The log-probability of the token after one row, followed back to every edge, as in transom/serve/explained_row.py.

import { gradients } from "./backward.js";
import { rowInfluences } from "./edge_influence.js";
import { largest, logSumExp, rowOf, softmax } from "./matrix.js";
import { RequestError } from "./request_error.js";

const kept = new WeakMap(); // of each run, the row that was explained last

// The token that came after a row; after the last one, the likeliest.
function targetOf(run, row) {
  const rows = run.targetIds.length;
  if (row >= rows) {
    throw new RequestError(`there are rows=${rows}, so ${row} is none of them; count from 0 to ${rows - 1}`);
  }
  return run.targetIds[row + 1] ?? largest(run.logitsOf(row), 1)[0];
}

// From the logits of a pass, the gradient by them of the log-probability of that token.
export function logProbabilityGradient(run, row) {
  const target = targetOf(run, row);
  const { vocabulary } = run;
  return (logits) => {
    const gradient = new Float64Array(logits.length);
    softmax(rowOf(logits, row, vocabulary)).forEach((chance, id) => (gradient[row * vocabulary + id] = -chance));
    gradient[row * vocabulary + target] += 1;
    return gradient;
  };
}

export class ExplainedRow {
  constructor(run, row) {
    const start = performance.now();
    this.target = targetOf(run, row);
    Object.assign(this, { run, row, token: run.translator.tokenizer.pieces([this.target])[0] });
    this.value = this.logProbability();
    const byLogits = logProbabilityGradient(run, row);
    this.attentions = gradients(run.translator.model, run.sourceIds, run.targetIds, byLogits);
    this.seconds = Number(((performance.now() - start) / 1000).toFixed(3));
  }

  // Of the target, in a run without some edges if their logits are given.
  logProbability(logits = undefined) {
    const own = this.run.logitsOf(this.row, logits);
    return own[this.target] - logSumExp(own);
  }

  // The change without each edge of a row of a head.
  edges(index, head, query, keys) {
    return rowInfluences(this.attentions[index], head, query, keys);
  }

  // Every edge of a head, row by row.
  head(index, head) {
    const { queries, keys } = this.attentions[index];
    const every = Array.from({ length: keys }, (_, key) => key);
    return Array.from({ length: queries }, (_, query) => this.edges(index, head, query, every)).flat();
  }

  toObject() {
    return { row: this.row, token: this.token, "log_probability": this.value, seconds: this.seconds };
  }
}

export function explainRow(run, row) {
  if (kept.get(run)?.row !== row) kept.set(run, new ExplainedRow(run, row));
  return kept.get(run);
}
