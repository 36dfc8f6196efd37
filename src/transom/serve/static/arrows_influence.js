// The arrows of a head by what mattered: the server's drawing, with arrows as wide as their estimates.

import { formatEstimate, sizeText, unitText } from "./by_switch.js";
import { draw } from "./dom.js";
import { changeText, explainedText, formatChange, signLegend } from "./explained.js";
import { makeVisible } from "./token_text.js";

const [WIDEST, NARROWEST] = [11, 0.6]; // pixels, as for weights
const LEAST = 0.02; // of the largest: weaker arrows are hidden until their row is chosen
const FAINTEST = 0.001; // of the largest: weaker ones are not drawn
const NUMBERED = 0.005; // of the largest: in a chosen row, an arrow of at least this has its number
const OF_WEIGHTS = ["Tokens below look at tokens above;", "Arrows below "]; // how notes on weights begin
const CHARACTER = 6.6; // pixels of a number's digit

// Redraw arrows and numbers by `estimates`, the widest last.
export function drawByInfluence(svg, { rows, keys }, { estimates, unit, explained }) {
  const old = [...svg.querySelectorAll(".arrow")];
  if (!old.length) return;
  const place = old[0].parentNode;
  const [, low, , , , , , top] = old[0].getAttribute("d").match(/-?[\d.]+/g).map(Number);
  const most = largestSize(estimates);
  const all = estimates.flatMap((line, row) =>
    line.map((size, key) => ({ row, key, size, share: Math.abs(size) / most, isSigned: Boolean(explained) }))
  );
  const edges = all.filter(({ share }) => share >= FAINTEST).sort((a, b) => a.share - b.share);
  const xOf = (side, index) => centreOf(svg.querySelector(`#${side}-${index} rect`));
  const paths = edges.map((edge) => {
    const tip = `from ${makeVisible(rows[edge.row])} at ${makeVisible(keys[edge.key])}: ` +
      (explained ? changeText(edge.size, explained) : `mattered ${formatEstimate(edge.size)} ${unitText(unit)}`);
    return arrowPath(edge, [xOf("from", edge.row), low], [xOf("at", edge.key), top], tip);
  });
  old.forEach((arrow) => arrow.remove());
  place.prepend(...paths);
  for (const group of svg.querySelectorAll(".numbers")) {
    const own = edges.filter(({ row, share }) => row === Number(group.dataset.row) && share >= NUMBERED);
    group.replaceChildren(...own.flatMap((edge) => numberOf(edge, xOf("at", edge.key), top)));
  }
}

// Whether a note says something of weights; the legend says what the arrows show instead.
export const isOfWeights = (note) => OF_WEIGHTS.some((start) => note.startsWith(start));

const centreOf = (rect) => Number(rect.getAttribute("x")) + Number(rect.getAttribute("width")) / 2;

export const largestSize = (estimates) => Math.max(...estimates.flat().map(Math.abs)) || 1;

function arrowPath({ row, key, share, size, isSigned }, [x, low], [x2, top], tip) {
  const middle = (low + top) / 2;
  const sign = isSigned && size > 0 ? " hinders" : "";
  const attributes = {
    class: `arrow mattered${sign}${share >= LEAST ? "" : " weak"}`,
    "data-row": row,
    "data-key": key,
    fill: "none",
    d: `M${x} ${low}C${x} ${middle} ${x2} ${middle} ${x2} ${top}`,
    "stroke-width": Math.max(NARROWEST, WIDEST * share).toFixed(2),
    opacity: (0.5 + 0.45 * share).toFixed(2),
    "marker-end": "url(#arrowhead)",
  };
  return draw("path", attributes, draw("title", {}, tip));
}

function numberOf({ key, size, isSigned }, x, top) {
  const text = isSigned ? formatChange(size) : formatEstimate(size);
  const y = top + 16 + (key % 2) * 14;
  const box = { x: x + 6, y: y - 10, width: CHARACTER * text.length + 2, height: 13, class: "paper-fill" };
  return [draw("rect", box), draw("text", { x: x + 7, y, "font-size": 12, class: "ink-fill" }, text)];
}

// What the arrows show, and how far it can be trusted.
export function influenceLegend({ estimates, unit, explained }) {
  const most = largestSize(estimates);
  const rest = "Arrows below 2 % of the widest are drawn only for a chosen row. A download shows weights.";
  if (!explained) {
    return [
      `Width: ${sizeText(unit)}, without this arrow alone; the widest here is ${formatEstimate(most)}. First-order ` +
      "estimates of a size, which does not say whether an arrow helps or hinders: choose one and knock it out to " +
      `measure it. ${rest}`,
    ];
  }
  return [
    `What mattered for ${explainedText(explained)}. `,
    ...signLegend(explained),
    ` Width: how far its log-probability changes without this arrow alone, in nats; the widest here is ${
      formatEstimate(most)
    }. First-order estimates: choose an arrow and knock it out to measure it. ${rest}`,
  ];
}
