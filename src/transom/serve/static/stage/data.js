// What the stage shows of a run, asked for once and kept: thumbnails, mean weights, sizes, influence, rows.

import { get, getBytes } from "../api.js";
import { describeHead } from "../head_words.js";

const ATTENTIONS_AT_ONCE = 4; // of a long text: thumbnails come a few attentions at a time
const LONG = 512; // tokens

export class StageData {
  // `onChange` is called whenever something has come.
  constructor(run, windows, onChange) {
    Object.assign(this, { run, windows, onChange, kept: new Map(), problems: new Map() });
    this.path = `/api/runs/${run.run}`;
    this.aborting = new AbortController();
    this.thumbnails = run.attentions.map(() => null);
  }

  close() {
    this.aborting.abort();
  }

  get window() {
    const { source, text, target } = this.windows;
    const first = (source ?? text ?? target).first;
    const count = Math.max(...Object.values(this.windows).map((one) => one.count));
    return { first, first_target: target?.first ?? 0, count };
  }

  // Other tokens are in view.
  setWindows(windows) {
    this.windows = windows;
  }

  // An answer by its name: undefined until it has come, null if it never will.
  ask(name, request) {
    if (this.kept.has(name)) return this.kept.get(name);
    this.kept.set(name, undefined);
    request().then((found) => this.kept.set(name, found), (error) => {
      if (error.name === "AbortError") return;
      this.kept.set(name, null);
      this.problems.set(name.split(" ")[0], error.message);
    }).finally(() => {
      if (!this.aborting.signal.aborted) this.onChange();
    });
    return undefined;
  }

  get(path, fields = {}) {
    return get(`${this.path}/${path}`, fields, this.aborting.signal);
  }

  meanWeights() {
    const fields = this.window;
    return this.ask(`weights ${Object.values(fields)}`, () => this.get("mean_weights", fields));
  }

  // What a head does, in a sentence; null where none is known.
  description(attention, head) {
    return this.ask(`words ${attention} ${head}`, () => describeHead(this.run, attention, head)) ?? null;
  }

  residual() {
    return this.ask("residual", () => this.get("residual"));
  }

  // What mattered for the token after a row.
  influence(row) {
    const fields = { row: row ?? 0, ...this.window };
    return this.ask(`influence ${Object.values(fields)}`, () => this.get("influence", fields));
  }

  // The weights of one head between the tokens in view; of a short text, all of them.
  headWeights(attention, head, rows, keys) {
    // deno-lint-ignore camelcase -- the names of the route's fields
    const fields = { head, first_row: rows.first, rows: rows.count, first_key: keys.first, keys: keys.count };
    return this.ask(`head ${attention} ${Object.values(fields)}`, () => this.get(`${attention}/weights`, fields));
  }

  row(attention, head, query) {
    return this.ask(`row ${attention} ${head} ${query}`, () => this.get(`${attention}/row`, { head, query }));
  }

  // The feed-forward part of a block at one token, and what its units were worth for the chosen prediction.
  feedForward({ attention, row, token, level, unit }) {
    const fields = { query: row, explained: this.run.likely.length ? token : null };
    const name = `feed_forward ${attention} ${row} ${fields.explained}`;
    const found = this.ask(name, () => this.get(`${attention}/feed_forward`, fields));
    if (!found || level < 4 || found.units.some((one) => one.unit === unit)) return found;
    return this.ask(`${name} ${unit}`, () => this.get(`${attention}/feed_forward`, { ...fields, unit }));
  }

  async loadThumbnails() {
    const { attentions } = this.run;
    const isLong = attentions.some((one) => Math.max(one.queries, one.keys) > LONG);
    const count = isLong ? ATTENTIONS_AT_ONCE : attentions.length;
    try {
      for (let first = 0; first < attentions.length; first += count) {
        const fields = isLong ? { first, count } : {};
        this.addThumbnails(await getBytes(`${this.path}/thumbnails`, fields, "Thumbnails", this.aborting.signal));
        this.onChange();
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      this.problems.set("thumbnails", error.message);
      this.onChange();
    }
  }

  addThumbnails({ header, bytes }) {
    let place = 0;
    header.attentions.forEach(([heads, rows, columns], i) => {
      const size = rows * columns;
      const cells = Array.from(
        { length: heads },
        (_, head) => bytes.subarray(place + head * size, place + (head + 1) * size),
      );
      this.thumbnails[header.first + i] = { rows, columns, cells };
      place += heads * size;
    });
  }
}
