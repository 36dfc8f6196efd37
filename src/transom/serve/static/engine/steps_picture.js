// Every step of a head as a picture of grids, as in transom/show/views/steps.py and transom/lessons/head_steps.py.

import { givenText, quotientText, softmaxText, sumText, unchangedText } from "./arithmetic.js";

const [TOKENS, COLUMNS, DIGITS] = [12, 8, 4]; // rows and keys, numbers of a vector, and decimals that are drawn
const BEFORE = "X is the input of this attention, after all that comes before it: positions, norm, earlier layers.";
const MASKED = "Grey or – is masked: the row may not look there.";
const TITLES = { Q: "what each token asks for", K: "what each token answers to", V: "what each token gives" };

const numbers = (count) => Array.from({ length: count }, (_, place) => String(place + 1));

// One step: `at(row, column)` is its number, `text(row, column)` its arithmetic.
function makeStep(name, title, equation, labels, at, text, byKey = false) {
  const values = labels.rows.map((_, row) => Float64Array.from(labels.columns, (_, column) => at(row, column)));
  return { name, title, equation, ...labels, values, text, byKey };
}

// left · right (+ bias); `right(k, column)` is a number of the matrix.
function productStep([name, title, equation], labels, left, right, bias, byKey = false) {
  const at = (row, column) => {
    return left[row].reduce((sum, number, k) => sum + number * right(k, column), bias ? bias[column] : 0);
  };
  const text = (row, column, value) => {
    const terms = Array.from(left[row], (number, k) => [number, right(k, column)]);
    return sumText(bias ? [...terms, [bias[column]]] : terms, value);
  };
  return makeStep(name, title, equation, labels, at, text, byKey);
}

// Rows of a matrix as arrays of their own, or the part of a head.
function split(x, rows, first = 0, width = x.length / rows) {
  const line = x.length / rows;
  return Array.from({ length: rows }, (_, row) => x.subarray(row * line + first, row * line + first + width));
}

function givenStep(name, title, equation, rows, vectors) {
  const labels = { rows, columns: numbers(vectors[0].length) };
  return makeStep(name, title, equation, labels, (i, j) => vectors[i][j], (_, __, value) => givenText(value));
}

function projectionStep(letter, vectors, rows, { W, b, out }, head, width) {
  const line = W.length / out;
  const right = (k, column) => W[(head * width + column) * line + k];
  const bias = b?.subarray(head * width, (head + 1) * width);
  const equation = `${letter} = X W_${letter}${bias ? ` + b_${letter}` : ""}`;
  return productStep([letter, TITLES[letter], equation], { rows, columns: numbers(width) }, vectors, right, bias);
}

// From the scores to the weighted sum, of one head.
function headSteps({ Q, K, V, queries, keys, width, causal, start }, head, labels) {
  const [q, k, v] = [[Q, queries], [K, keys], [V, keys]].map(([x, rows]) => split(x, rows, head * width, width));
  const root = `√${width}`;
  const scores = productStep(
    ["scores", "how well each query matches each key", "scores = Q Kᵀ"],
    labels,
    q,
    (i, column) => k[column][i],
    null,
    true,
  );
  const divide = (row, column) => scores.values[row][column] / Math.sqrt(width);
  const divideText = (row, column, value) => quotientText(scores.values[row][column], root, value);
  const titles = ["scaled", `scores divided by ${root}`, `scaled = scores / ${root}`];
  const steps = [scores, makeStep(...titles, labels, divide, divideText, true)];
  if (causal) steps.push(maskedStep(steps[1], labels, start));
  const weights = weightsStep(steps.at(-1), labels);
  return [...steps, weights, sumStep(weights, v, labels)];
}

function maskedStep(scaled, labels, start) {
  const at = (row, column) => column > start + row ? -Infinity : scaled.values[row][column];
  const text = (row, column, value) => unchangedText(value, labels.rows[row], labels.columns[column]);
  const title = "scores, without those where a row may not look";
  return makeStep("masked", title, "masked = scores, −∞ where masked", labels, at, text, true);
}

function weightsStep(before, labels) {
  const rows = before.values.map((scores) => {
    const highest = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - highest));
    const total = powers.reduce((sum, power) => sum + power, 0);
    return powers.map((power) => power / total);
  });
  const text = (row, column, value) => softmaxText(before.values[row][column], Array.from(before.values[row]), value);
  const equation = `weights = softmax(${before.name}), over each row`;
  return makeStep("weights", "each row of scores as shares of 1", equation, labels, (i, j) => rows[i][j], text, true);
}

function sumStep(weights, values, { rows }) {
  const terms = (row, column) => {
    const all = Array.from(weights.values[row], (weight, key) => [weight, values[key][column]]);
    return all.filter(([weight]) => weight !== 0);
  };
  const at = (row, column) => terms(row, column).reduce((sum, [weight, value]) => sum + weight * value, 0);
  const text = (row, column, value) => sumText(terms(row, column), value);
  const labels = { rows, columns: numbers(values[0].length) };
  return makeStep("sum", "the values, each times its weight, summed up", "sum = weights · V", labels, at, text);
}

// All heads side by side, and through W_O.
function joinedSteps(attention, labels) {
  const { heads, width, output } = attention;
  const sums = Array.from({ length: heads }, (_, head) => headSteps(attention, head, labels).at(-1).values);
  const columns = sums.flatMap((_, head) => numbers(width).map((label) => `${head}.${label}`));
  const at = (row, column) => sums[Math.floor(column / width)][row][column % width];
  const text = (row, column, value) => unchangedText(value, labels.rows[row], columns[column]);
  const { rows } = labels;
  const equation = "joined = head 0, head 1 …";
  const joined = makeStep("joined", "the heads side by side", equation, { rows, columns }, at, text);
  const title = "what the heads found, mixed into one vector";
  const info = ["output", title, `output = joined W_O${output.b ? " + b_O" : ""}`];
  const right = (k, column) => output.W[column * columns.length + k];
  return [joined, productStep(info, { rows, columns: numbers(output.out) }, joined.values, right, output.b)];
}

function allSteps(attention, head, { reads, at }) {
  const { x, source, queries, keys, width, parts } = attention;
  const vectors = split(x, queries);
  const others = source ? split(source, keys) : vectors;
  const steps = [givenStep("embedding", "each token as a vector", "X", reads, vectors)];
  if (source) {
    const titles = ["at_embedding", "each token looked at, as a vector", "X of the other sequence"];
    steps.push(givenStep(...titles, at, others));
  }
  steps.push(projectionStep("Q", vectors, reads, parts.Q, head, width));
  for (const letter of ["K", "V"]) steps.push(projectionStep(letter, others, at, parts[letter], head, width));
  const labels = { rows: reads, columns: at };
  return [...steps, ...headSteps(attention, head, labels), ...joinedSteps(attention, labels)];
}

// The rows and columns of a step that are drawn, and notes on what is left out.
function gridOf(step, notes) {
  const [height, width] = [step.rows.length, step.columns.length];
  const shown = Math.min(width, step.byKey ? TOKENS : COLUMNS);
  const what = step.byKey ? "keys" : "numbers of each vector";
  if (shown < width) notes.push(`Of ${width} ${what}, the first ${shown} are drawn.`);
  if (TOKENS < height) notes.push(`Of ${height} tokens, the first ${TOKENS} are drawn.`);
  const values = step.values.slice(0, TOKENS).map((row) => Array.from(row.subarray(0, shown)));
  const opens = values.map((row, i) => row.map((value, j) => step.text(i, j, value)));
  const drawn = values.map((row) => row.map((value) => value === -Infinity ? null : value));
  return {
    type: "grid",
    rows: step.rows.slice(0, TOKENS),
    columns: step.columns.slice(0, shown),
    values: drawn,
    heat: heatOf(step.name, drawn.flat().filter((value) => value !== null)),
    title: `${step.name}: ${step.title}`,
    equation: step.equation,
    down: step.byKey ? "from" : "",
    across: step.byKey ? "at" : "",
    digits: fewestDecimals(drawn.flat()),
    numbers: true,
    opens,
  };
}

function heatOf(name, values) {
  if (name === "weights") return { low: Math.min(0, ...values), high: 1, colours: "blues", scale: "linear" };
  const most = Math.max(...values.map(Math.abs)) || 1;
  return { low: -most, high: most, colours: "diverging", scale: "linear" };
}

function fewestDecimals(values) {
  const known = values.filter((value) => value !== null);
  for (let digits = 0; digits < DIGITS; digits += 1) {
    if (known.every((value) => Number(value.toFixed(digits)) === value)) return digits;
  }
  return DIGITS;
}

// The picture of a head's steps, as JSON.
export function stepsPicture(run, index, head) {
  const attention = run.attention(index);
  const { name, heads } = attention;
  const notes = [BEFORE];
  const panels = allSteps(attention, head, run.labels(index)).map((step) => gridOf(step, notes));
  if (panels.some((grid) => grid.values.flat().includes(null))) notes.push(MASKED);
  const place = heads > 1 ? `${head} of 0–${heads - 1}` : String(head);
  const source = { model: run.translator.name, layer: name, head: place, receipt: run.receipts[index].said };
  const rows = panels.flatMap((grid) =>
    grid.values.flatMap((row, i) => row.map((value, j) => [grid.title, grid.rows[i], grid.columns[j], value]))
  );
  const table = { columns: ["step", "row", "column", "value"], rows };
  const title = `Every step of ${name}, head ${head}`;
  return { view: "steps", title, panels, source, notes: [...new Set(notes)], table };
}
