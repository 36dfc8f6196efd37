// What is open in the browser: the translator, and the last few runs, as the server's session has them.

import { Cut } from "./attention.js";
import { largest, logSumExp, rowOf } from "./matrix.js";
import { checkReceipt } from "./receipt.js";
import { RequestError } from "./request_error.js";

const MOST_RUNS = 8;
const FORMATS = { arrows: ["svg"], steps: ["json"] }; // pictures that can be downloaded without Python
const LIKELY = 5; // predictions listed for each row

// One text through the translator, with all its attentions.
export class EngineRun {
  constructor(number, translator, watched, seconds) {
    Object.assign(this, { number, translator, seconds }, watched);
    const { tokenizer } = translator;
    this.tokens = tokenizer.pieces(this.sourceIds);
    this.targets = tokenizer.pieces(this.targetIds);
    this.next = tokenizer.pieces(this.written);
    this.output = tokenizer.decode(this.targetIds.slice(1));
    this.receipts = this.attentions.map(checkReceipt);
  }

  attention(index) {
    const count = this.attentions.length;
    if (index in this.attentions) return this.attentions[index];
    throw new RequestError(`run ${this.number} has ${count} attentions, so there is no ${index}; count from 0`);
  }

  // For each row the token it reads and the one it predicts, for each column its token.
  labels(index) {
    const role = roleOf(this.attention(index).name);
    if (role === "encoder") return { reads: this.tokens, predicts: null, at: this.tokens };
    return { reads: this.targets, predicts: this.next, at: role === "cross" ? this.tokens : this.targets };
  }

  // The run again without some edges: the logits. An edge of the decoder leaves the encoder as it was.
  runWithout(edges, how) {
    const cut = new Cut(edges, how);
    const encoded = edges.some((edge) => roleOf(edge.layer) === "encoder") ? null : this.encoded;
    return this.translator.model.forward(this.sourceIds, this.targetIds, { cut, encoded });
  }

  get vocabulary() {
    return this.translator.model.vocabulary;
  }

  // The logits of one row.
  logitsOf(row, logits = this.logits) {
    return rowOf(logits, row, this.vocabulary);
  }

  get likely() {
    return this.targetIds.map((_, row) => {
      const logits = this.logitsOf(row);
      const level = logSumExp(logits);
      const ids = largest(logits, LIKELY);
      const tokens = this.translator.tokenizer.pieces(ids);
      return ids.map((id, place) => ({ token: tokens[place], probability: Math.exp(logits[id] - level) }));
    });
  }

  summary() {
    return { run: this.number, text: this.text, output: this.output, attentions: this.attentions.length };
  }

  toObject() {
    return {
      run: this.number,
      model: { name: this.translator.name, kind: "encoder_decoder" },
      text: this.text,
      tokens: this.tokens,
      targets: this.targets,
      written: this.next,
      output: this.output,
      likely: this.likely,
      seconds: this.seconds,
      note: null,
      unseen: [],
      attentions: this.attentions.map((_, index) => this.attentionInfo(index)),
    };
  }

  attentionInfo(index) {
    const { name, heads, queries, keys } = this.attentions[index];
    const role = roleOf(name);
    return { index, name, role, heads, queries, keys, predicts: role !== "encoder", receipt: this.receipts[index] };
  }
}

export const roleOf = (name) => name.endsWith(".cross") ? "cross" : name.startsWith("decoder") ? "decoder" : "encoder";

export class EngineSession {
  constructor(translator) {
    this.translator = translator;
    this.runs = new Map();
    this.count = 0;
  }

  // Run the translator on a text; `onToken` gets each token it writes, and the text so far.
  runText({ text, target = null, model = "", more = 0 }, onToken = () => {}) {
    const { tokenizer, name } = this.translator;
    if (model && model !== name) throw new RequestError(`there is no model '${model}' here; there are ${name}`);
    if (more) {
      throw new RequestError(`only a decoder continues a text, but ${name} is an encoder–decoder; leave it out`);
    }
    const start = performance.now();
    const ids = [];
    let written = "";
    const watched = this.translator.run(text, target, (id) => {
      ids.push(id);
      const decoded = tokenizer.decode(ids);
      if (!decoded.endsWith("\ufffd")) written = decoded; // a character of several bytes is shown when it is whole
      onToken({ token: tokenizer.pieces([id])[0], text: written });
    });
    this.count += 1;
    const seconds = Number(((performance.now() - start) / 1000).toFixed(4));
    const run = new EngineRun(String(this.count), this.translator, watched, seconds);
    this.runs.set(run.number, run);
    if (this.runs.size > MOST_RUNS) this.runs.delete(this.runs.keys().next().value);
    return run;
  }

  run(number) {
    const run = this.runs.get(number);
    if (run) return run;
    const last = [...this.runs.keys()].join(", ") || "none yet";
    throw new RequestError(`there is no run '${number}' here; the last ones are ${last}`);
  }

  toObject() {
    const { name } = this.translator;
    const runs = [...this.runs.values()].map((run) => run.summary());
    const opened = { lesson: false, replay: false, formats: FORMATS };
    return { name, models: [{ name, kind: "encoder_decoder" }], ...opened, runs };
  }
}
