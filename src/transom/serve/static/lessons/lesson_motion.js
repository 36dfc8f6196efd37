// One row of attention after the other, in motion: a query meets every key, scores become weights, values add up.
// Every number is the lesson's own; it is there when it has been computed, and not before.

import { draw, hint, make } from "../dom.js";
import { buildPlayer } from "./lesson_player.js";
import { drawVector, numberText, vectorWidth } from "./lesson_vectors.js";
import { displayToken } from "../token_text.js";

const BEATS = 4;
const BEAT_PAUSE = 2600; // milliseconds
const FULL_BAR = 70; // pixels of a weight of 1
const Y = { token: 26, query: 44, from: 76, key: 168, keyVector: 180, score: 224, bar: 334, weight: 352, value: 364 };
Y.sum = 484;
const LEAST_COLUMN = 112;

export function buildMotion(motion) {
  const stage = make("div", { class: "lesson-picture" });
  const caption = make("p", { class: "lesson-caption" });
  const show = (index, moves) => {
    const [row, beat] = [Math.floor(index / BEATS), index % BEATS];
    caption.textContent = beatText(motion, row, beat);
    const svg = drawRow(motion, row, beat);
    stage.replaceChildren(svg);
    if (moves) animate(svg, beat);
  };
  const name = (index) => beatText(motion, Math.floor(index / BEATS), index % BEATS);
  const count = motion.tokens.length * BEATS;
  const player = buildPlayer({ count, show, name, pause: BEAT_PAUSE });
  return make("div", { class: "lesson-motion" }, caption, stage, player, hint("Numbers to two decimals."));
}

function beatText(motion, row, beat) {
  const token = `“${displayToken(motion.tokens[row])}”`;
  const masked = motion.taken[row].some((score) => score === null);
  return [
    `${token} looks: its query meets ${
      masked ? "every key it may see" : "every key"
    }, number by number. Each gives a score.`,
    `The softmax makes weights of the scores. ${masked ? "What is masked gets 0; the rest" : "They"} sum to 1.`,
    "Each value comes in by its weight.",
    `They add up: this is what ${token} takes with it.`,
  ][beat];
}

// The picture of a row up to some beat; what belongs to the beat itself has its class, so that it can move.
function drawRow(motion, row, beat) {
  const widest = Math.max(vectorWidth(motion.K[0]), vectorWidth(motion.V[0]));
  const column = Math.max(LEAST_COLUMN, widest + 20);
  const width = Math.max(column * motion.keys.length, vectorWidth(motion.sum[row]) + 200, 520);
  const middle = (j) => (width * (j + 0.5)) / motion.keys.length;
  const isSame = motion.tokens.length === motion.keys.length;
  const asks = isSame ? middle(row) : width / 2;
  const label = beatText(motion, row, beat);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${Y.sum + 58}`, role: "img", "aria-label": label });
  svg.append(...queryParts(motion, row, asks, isSame ? middle : null));
  motion.keys.forEach((_, j) => svg.append(...keyParts(motion, row, j, { beat, x: middle(j), asks, out: width / 2 })));
  if (beat >= 3) {
    const sum = draw("g", { class: "beat-3" }, words(width / 2, Y.sum + 50, "the weighted sum", "motion-note"));
    sum.append(drawVector(motion.sum[row], width / 2, Y.sum + 6));
    svg.append(sum);
  }
  return svg;
}

function queryParts(motion, row, asks, middle) {
  const others = middle
    ? motion.tokens.map((token, i) => [token, middle(i), i === row])
    : [[motion.tokens[row], asks, true]];
  const names = others.map(([token, x, chosen]) =>
    words(x, Y.token, displayToken(token), chosen ? "motion-from" : "motion-dim")
  );
  return [...names, drawVector(motion.Q[row], asks, Y.query), words(asks, Y.from + 4, "query", "motion-note")];
}

function keyParts(motion, row, j, { beat, x, asks, out }) {
  const taken = motion.taken[row][j];
  const weight = motion.weights[row][j] ?? 0;
  const masked = taken === null;
  const group = draw("g", { class: masked ? "motion-masked" : "" });
  group.append(words(x, Y.key, displayToken(motion.keys[j]), masked ? "motion-dim" : "motion-at"));
  group.append(drawVector(motion.K[j], x, Y.keyVector), words(x, Y.score - 8, "key", "motion-note"));
  if (masked) return [group, words(x, Y.score + 20, "masked", "motion-dim")];
  const wide = beat >= 1 ? 0.6 + 7 * weight : 1.2;
  group.append(...arrow([asks, Y.from + 10], [x, Y.key - 16], wide, "beat-0"));
  group.append(words(x, Y.score + 11, `score ${numberText(motion.scores[row][j])}`, "motion-number beat-0"));
  if (motion.taken_name !== "scores") {
    group.append(words(x, Y.score + 28, `${motion.taken_name} ${numberText(taken)}`, "motion-number beat-0"));
  }
  if (beat >= 1) {
    const height = Math.max(1, FULL_BAR * weight);
    const bar = { x: x - 16, y: Y.bar - height, width: 32, height, class: "motion-bar beat-1" };
    group.append(draw("rect", bar), words(x, Y.weight, numberText(weight), "motion-number motion-strong beat-1"));
  }
  if (beat >= 2) group.append(...valueParts(motion.V[j], weight, x, out));
  return [group];
}

function valueParts(value, weight, x, out) {
  const parts = [
    ...arrow([x, Y.value + 44], [out, Y.sum], 0.6 + 7 * weight, "motion-value beat-2"),
    draw("g", { class: "beat-2" }, drawVector(value, x, Y.value), words(x, Y.value + 38, "value", "motion-note")),
  ];
  const dot = { cx: out, cy: Y.sum, r: 2 + 5 * weight, class: "motion-dot beat-2" };
  return [...parts, draw("circle", { ...dot, "data-from": `${x - out},${Y.value + 44 - Y.sum}` })];
}

// A straight arrow; its head is at the end.
function arrow(from, to, width, className) {
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  const size = 6 + width;
  const at = (back, side) => {
    const turned = [-back * Math.cos(angle) - side * Math.sin(angle), -back * Math.sin(angle) + side * Math.cos(angle)];
    return `${to[0] + turned[0]},${to[1] + turned[1]}`;
  };
  const line = { d: `M${from}L${at(size, 0)}`, "stroke-width": width, pathLength: 1 };
  const points = [at(0, 0), at(size, size / 2), at(size, -size / 2)].join(" ");
  return [
    draw("path", { ...line, class: `motion-line ${className}` }),
    draw("polygon", { points, class: `motion-tip ${className}` }),
  ];
}

const words = (x, y, text, className) => draw("text", { x, y, class: className, "text-anchor": "middle" }, text);

// Lines are drawn, bars grow, dots travel; all of it ends where the picture without motion begins.
function animate(svg, beat) {
  [...svg.querySelectorAll(`.beat-${beat}`)].forEach((part, index) => {
    const timing = { duration: 700, delay: Math.min(1100, 90 * index), fill: "backwards", easing: "ease-in-out" };
    const { dataset: { from } } = part;
    const start = { transform: `translate(${from?.replace(",", "px,")}px)`, opacity: 1 };
    if (from) part.animate([start, { transform: "none", opacity: 1 }], timing);
    else if (part.tagName === "path") part.animate([{ strokeDasharray: "0 1" }, { strokeDasharray: "1 0" }], timing);
    else part.animate([{ opacity: 0 }, { opacity: 1 }], timing);
  });
}
