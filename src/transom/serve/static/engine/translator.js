// The model with its tokenizer: a text as tokens, its translation, and one watched run.

import { generationSettings, writeByBeams, writeGreedily } from "./generation.js";
import { Model } from "./model.js";
import { RequestError } from "./request_error.js";
import { readSafetensors } from "./safetensors.js";
import { isBlank, Tokenizer } from "./tokenizer.js";

const EXTRA_TOKENS = 10; // a translation may have twice the tokens of its source, and these
const BEAMS = 4;
export const FILES = ["config.json", "generation_config.json", "tokenizer.json", "model.safetensors"];

export class Translator {
  // `files` are the files of a model's folder, by name: ArrayBuffers.
  constructor(files, name) {
    const json = (file) => JSON.parse(new TextDecoder().decode(files[file]));
    this.name = name;
    this.model = new Model(json("config.json"), readSafetensors(files["model.safetensors"]));
    this.tokenizer = new Tokenizer(json("tokenizer.json"));
    this.settings = generationSettings(json("generation_config.json"));
    this.longest = this.model.config.longest;
    if (this.tokenizer.size !== this.model.vocabulary) {
      throw new Error(`the tokenizer has ${this.tokenizer.size} tokens, but the model ${this.model.vocabulary}`);
    }
  }

  // The tokens of a text that is not empty and fits the model.
  encode(text) {
    if (isBlank(text)) {
      throw new RequestError("the text is empty, but there must be something to read; give a word or more");
    }
    const ids = [...this.tokenizer.encode(text), this.tokenizer.end];
    if (ids.length > this.longest) {
      const count = ids.length - 1 + Math.ceil((ids.length - 1) / (this.longest - 1));
      throw new RequestError(
        `the text has ${count} tokens, but ${this.name} takes ${this.longest} at most; give a shorter one`,
      );
    }
    return ids;
  }

  // How many tokens a translation of so many may have, the start token left out.
  mostNew(tokens) {
    return Math.min(this.longest, 2 * tokens + EXTRA_TOKENS) - 1;
  }

  // The translation that beam search finds, as `transom translate` does.
  translate(text, beams = BEAMS) {
    const ids = this.encode(text);
    const encoded = this.model.encode(ids);
    const most = this.mostNew(ids.length);
    const written = beams > 1
      ? writeByBeams(this.model, encoded, this.settings, beams, most)
      : writeGreedily(this.model, encoded, this.settings, most);
    return { ids: written, text: this.tokenizer.decode(written) };
  }

  // The tokens of the target: the given one, or what greedy search writes.
  findTarget(ids, target, onToken) {
    if (target === null) {
      return writeGreedily(this.model, this.model.encode(ids), this.settings, this.mostNew(ids.length), onToken);
    }
    const written = [...this.tokenizer.encode(target), this.tokenizer.end];
    if (written.length > this.longest) {
      const limit = `${this.name} takes ${this.longest} at most`;
      throw new RequestError(`the target has ${written.length} tokens, but ${limit}; give a shorter one`);
    }
    return written;
  }

  // A text through the model: its tokens, its logits, and every attention in the order of running.
  run(text, target = null, onToken = () => {}) {
    const sourceIds = this.encode(text);
    const written = this.findTarget(sourceIds, target, onToken);
    const targetIds = [this.settings.start, ...written.slice(0, -1)];
    return { text, sourceIds, targetIds, written, ...this.forward(sourceIds, targetIds) };
  }

  // One forward pass on record, without the edges that are cut.
  forward(sourceIds, targetIds, cut = null) {
    const attentions = [];
    const encoded = this.model.encode(sourceIds, { attentions, cut });
    const logits = this.model.forward(sourceIds, targetIds, { attentions, cut, encoded });
    return { logits, attentions, encoded };
  }
}
