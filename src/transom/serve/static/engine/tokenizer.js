// Byte-level BPE from a tokenizer.json, as transom/text/tokenizer.py reads it.

import { LABELS, markCase, MARKS, restoreCase } from "./case_marks.js";
import { RequestError } from "./request_error.js";

const SPECIAL = { padding: "<pad>", start: "<s>", end: "</s>", unknown: "<unk>" };
// What Python and Rust call white space; JavaScript's \s is another set.
const SPACE = "\\t-\\r\\x1c-\\x1f \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const WHITE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
// GPT-2's words: contractions, letters, numbers, signs, each with the space before it.
const WORDS = new RegExp(
  `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${WHITE}\\p{L}\\p{N}]+|[${WHITE}]+(?![^${WHITE}])|[${WHITE}]+`,
  "gu",
);
const BLANK = new RegExp(`^[${SPACE}]*$`, "u");
const MOST_WORDS = 20_000; // in the cache of words

// Each byte as the character that stands for it: a visible byte is itself.
const CHARACTERS = byteCharacters();
const BYTES = new Map(CHARACTERS.map((character, byte) => [character, byte]));

function byteCharacters() {
  const isVisible = (byte) => (byte >= 0x21 && byte < 0x7f) || (byte >= 0xa1 && byte !== 0xad);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isVisible(byte) ? byte : next++));
}

export const isBlank = (text) => BLANK.test(text);

export class Tokenizer {
  constructor(file) {
    const { model } = file;
    const patterns = splitPatterns(file);
    requireBpe(file, patterns);
    this.case = patterns.includes(MARKS);
    this.splits = patterns.map((pattern) => new RegExp(pattern.replaceAll("\\d", "\\p{Nd}"), "gu"));
    this.vocabulary = new Map(Object.entries(model.vocab));
    this.tokens = [...this.vocabulary].sort((a, b) => a[1] - b[1]).map(([token]) => token);
    this.ranks = new Map(
      model.merges.map((pair, rank) => [(Array.isArray(pair) ? pair : pair.split(" ")).join("\n"), rank]),
    );
    for (const [name, token] of Object.entries(SPECIAL)) this[name] = this.vocabulary.get(token);
    this.special = new Set(Object.keys(SPECIAL).map((name) => this[name]));
    this.words = new Map();
  }

  get size() {
    return this.tokens.length;
  }

  // The tokens of a text, without special ones.
  encode(text) {
    if (!text.isWellFormed()) {
      throw new RequestError("the text has half of a surrogate pair; paste it again as Unicode");
    }
    let parts = [this.case ? markCase(text) : text];
    for (const pattern of this.splits) parts = parts.flatMap((part) => isolate(part, pattern));
    return parts.flatMap((part) => part.match(WORDS) ?? []).flatMap((word) => this.encodeWord(word));
  }

  encodeWord(word) {
    let ids = this.words.get(word);
    if (ids) return ids;
    const signs = Array.from(new TextEncoder().encode(word), (byte) => CHARACTERS[byte]);
    ids = this.merge(signs).map((token) => this.vocabulary.get(token));
    if (this.words.size > MOST_WORDS) this.words.clear();
    this.words.set(word, ids);
    return ids;
  }

  // Join the pair with the lowest rank, the first of equal ones, until no pair is known.
  merge(signs) {
    for (;;) {
      let best = Infinity;
      let place = -1;
      for (let i = 0; i + 1 < signs.length; i += 1) {
        const rank = this.ranks.get(`${signs[i]}\n${signs[i + 1]}`) ?? Infinity;
        if (rank < best) [best, place] = [rank, i];
      }
      if (place < 0) return signs;
      signs.splice(place, 2, signs[place] + signs[place + 1]);
    }
  }

  // The text of some tokens; special ones are left out.
  decode(ids) {
    const bytes = ids.filter((id) => !this.special.has(id)).flatMap((id) => tokenBytes(this.tokens[id]));
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    return this.case ? restoreCase(text) : text;
  }

  // Each token as text to show; bytes that are not a whole character come as \xe2.
  pieces(ids) {
    return ids.map((id) => {
      const text = this.special.has(id) ? this.tokens[id] : showBytes(tokenBytes(this.tokens[id]));
      return this.case ? LABELS[text] ?? text : text;
    });
  }
}

function splitPatterns({ pre_tokenizer: before }) {
  const parts = before?.pretokenizers ?? [before];
  return parts.map((part) => part?.pattern?.Regex).filter((pattern) => pattern !== undefined);
}

function requireBpe({ model, pre_tokenizer: before, normalizer }, patterns) {
  const last = before?.pretokenizers?.at(-1) ?? before;
  const known = patterns.every((pattern) => pattern === MARKS || pattern === "\\d");
  if (
    model?.type === "BPE" && last?.type === "ByteLevel" && last.use_regex && !last.add_prefix_space && known &&
    !normalizer
  ) {
    return;
  }
  throw new Error("the browser reads byte-level BPE as Transom trains it, but this tokenizer is another; use Python");
}

// The parts of a text before, at and after each match.
function isolate(text, pattern) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > end) parts.push(text.slice(end, match.index));
    parts.push(match[0]);
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

function tokenBytes(token) {
  const bytes = Array.from(token, (character) => BYTES.get(character));
  return bytes.includes(undefined) ? [...new TextEncoder().encode(token)] : bytes;
}

// Bytes as text; a byte that belongs to no whole character as \xe2.
function showBytes(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const length = characterLength(bytes, at);
    text += length
      ? new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes.slice(at, at + length)))
      : `\\x${bytes[at].toString(16).padStart(2, "0")}`;
    at += length || 1;
  }
  return text;
}

// How many bytes the character at a place has; 0 if there is none.
function characterLength(bytes, at) {
  const length = bytes[at] < 0x80 ? 1 : bytes[at] < 0xc2 ? 0 : bytes[at] < 0xe0 ? 2 : bytes[at] < 0xf0 ? 3 : 4;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes.slice(at, at + length)));
  } catch {
    return 0;
  }
  return length;
}
