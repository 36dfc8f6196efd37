// What mattered, head by head: estimates of all of them beside true knock-outs of the first few.

import { sizeText, unitText } from "./by_switch.js";

export const isInfluence = (measure) => measure === "estimate" || measure === "effect";

// The measures that a ranking adds to those of the weights.
export function influenceMeasures({ unit }) {
  if (!unit) return {};
  const size = sizeText(unit);
  return {
    estimate: { spoken: `what mattered (${unitText(unit)})`, meaning: `Without the head, ${size}: an estimate` },
    effect: { spoken: "knocked out", meaning: `Without the head, ${size}: measured by running the model without it` },
  };
}

// The estimate of a head, and its effect where it was knocked out.
export function influenceOf({ layer, head }, ranking) {
  if (!ranking?.unit) return {};
  const found = ranking.rows.find((one) => one.layer === layer && one.head === head);
  return { estimate: found?.estimate ?? null, effect: found?.effect ?? null };
}

// How well estimates agree with knock-outs, of the heads that have both; their ratios, as sizes differ widely.
export function agreementText({ rows }) {
  const both = rows.filter(({ estimate, effect }) => estimate > 0 && effect > 0);
  if (!both.length) return "First-order estimates; none of these heads was knocked out to check them.";
  const ratios = both.map(({ estimate, effect }) => estimate / effect);
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toPrecision(2));
  return `First-order estimates of a size, which does not say whether a head helps or hinders. Agreement: of the ` +
    `${both.length} heads with the largest ones, which were knocked out truly, estimates are ${low} to ${high} times ` +
    "the true change.";
}

// As much amber as a share of the largest.
export function light(cell, value, high) {
  cell.style.background = `color-mix(in srgb, var(--lit) ${Math.round((100 * value) / (high || 1))}%, var(--raised))`;
}
