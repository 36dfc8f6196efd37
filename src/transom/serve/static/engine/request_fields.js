// The fields of every request, each with its bounds, as in transom/serve/request_fields.py.

import { RequestError } from "./request_error.js";

const MOST_CHARACTERS = 20_000;
const MOST_EDGES = 64;
const LARGEST = 2 ** 24;

const index = (initial = 0) => ({ least: 0, most: LARGEST, initial });
const count = (initial, most) => ({ least: 1, most, initial });
const flag = (initial) => ({ choices: { true: true, false: false }, initial });
const oneOf = (...names) => ({ choices: Object.fromEntries(names.map((name) => [name, name])), initial: names[0] });
const text = (initial = "") => ({ text: true, initial });

const BLOCK = { head: index(), "first_row": index(), "first_key": index(), rows: count(32, 64), keys: count(32, 64) };

export const FIELDS = {
  none: {},
  head: { head: index() },
  compare: { other: text() },
  tile: {
    head: index(),
    level: index(),
    row: index(),
    column: index(),
    pool: oneOf("max", "mean"),
    sink: flag(true),
    against: text(),
    token: index(null),
  },
  weights: BLOCK,
  edges: { ...BLOCK, token: index(null) },
  agreement: { token: index(), samples: count(16, 64) },
  strongest: {
    head: index(),
    count: count(20, 100),
    sink: flag(true),
    by: oneOf("weight", "influence"),
    token: index(null),
  },
  ranking: { refine: { least: 0, most: 64, initial: 0 } },
  effects: { head: index(), query: index(), key: index(null), count: count(8, 24) },
  thumbnails: { cells: { least: 4, most: 32, initial: 16 }, first: index(), count: count(512, 512) },
  window: { first: index(), first_target: index(), count: count(16, 32) },
  influence: { first: index(), first_target: index(), count: count(16, 32), row: index() },
  row: { head: index(), query: index(), count: count(20, 64) },
  feedForward: { query: index(), explained: index(null), count: count(10, 32), unit: index(null) },
  picture: {
    head: index(),
    format: oneOf("json", "svg", "html", "txt", "png", "pdf", "mmd", "dot"),
    token: index(null),
    key: index(null),
  },
};

// The fields of a query string; an unknown one is an error.
export function parseQuery(kinds, query) {
  const fields = Object.fromEntries(Object.entries(kinds).map(([name, { initial }]) => [name, initial]));
  for (const [name, value] of new URLSearchParams(query)) {
    if (!Object.hasOwn(kinds, name)) throw new RequestError(`there is no field '${name.slice(0, 60)}'; leave it out`);
    fields[name] = parseField(name, value, kinds[name]);
  }
  return fields;
}

function parseField(name, value, { choices, text: isText, least, most }) {
  if (isText) return value;
  if (choices) {
    if (Object.hasOwn(choices, value)) return choices[value];
    throw new RequestError(`${name} may be ${Object.keys(choices).join(", ")}, but got '${value.slice(0, 60)}'`);
  }
  const number = /^[0-9]{1,9}$/.test(value) ? Number(value) : NaN;
  if (number >= least && number <= most) return number;
  throw new RequestError(`${name} should be a whole number from ${least} to ${most}, but got '${value.slice(0, 60)}'`);
}

// Indices that an attention has; an error says which it has.
export function checkIndices(attention, { head = null, query = null, key = null, token = null }) {
  const { heads, queries, keys } = attention;
  for (
    const [axis, position, size] of [["heads", head, heads], ["queries", query ?? token, queries], ["keys", key, keys]]
  ) {
    if (position === null || position < size) continue;
    throw new RequestError(`there are ${axis}=${size}, so ${position} is none of them; count from 0 to ${size - 1}`);
  }
}

export function checkRun(fields) {
  for (const name of ["text", "target"]) {
    const given = fields[name] ?? "";
    if (typeof given === "string" && given.length <= MOST_CHARACTERS) continue;
    throw new RequestError(`${name} should be a text of at most ${MOST_CHARACTERS} characters`);
  }
  return fields;
}

export function checkKnockOut({ edges, how = "before" }) {
  const isIndex = (value) => Number.isInteger(value) && value >= 0;
  const isEdge = ({ layer, head, query, key }) =>
    typeof layer === "string" && isIndex(head) && [query, key].every((one) => isIndex(one ?? 0));
  if (
    Array.isArray(edges) && edges.length >= 1 && edges.length <= MOST_EDGES && edges.every(isEdge) &&
    ["before", "after"].includes(how)
  ) {
    return { edges, how };
  }
  throw new RequestError(
    `edges should be 1 to ${MOST_EDGES} of layer, head, query and key, knocked out before or after`,
  );
}
