// Scores to drag, and the shares that softmax makes of them.

import { make } from "../dom.js";
import { formatNumber, formatPercent, wordOf } from "../token_text.js";

const MOST = 6;

// One score: a slider, its share, and a bar.
function scoreLine(key, limits, onScore) {
  const share = make("output", { class: "share" });
  const bar = make("span", { class: "next-bar before" });
  const name = wordOf(key.token);
  const oninput = (event) => onScore(Number(event.target.value));
  const slider = make("input", {
    type: "range",
    ...limits,
    value: key.score,
    "aria-label": `score of ${name}`,
    oninput,
  });
  const track = make("span", { class: "bar-track", "aria-hidden": "true" }, bar);
  const element = make("li", {}, make("span", { class: "token" }, name), slider, share, track);
  return { share, bar, slider, element };
}

// The strongest keys of a row can be dragged; the others keep their scores.
export function softmaxPlayground(found) {
  const open = found.keys.filter((key) => key.score !== null);
  const keys = [...open].sort((one, other) => other.weight - one.weight).slice(0, MOST);
  const rest = open.filter((key) => !keys.includes(key)).map((key) => key.score);
  const scores = keys.map((key) => key.score);
  const limits = { min: Math.floor(Math.min(...scores) - 3), max: Math.ceil(Math.max(...scores) + 3), step: 0.1 };
  const lines = keys.map((key, i) =>
    scoreLine(key, limits, (score) => {
      scores[i] = score;
      show();
    })
  );

  function show() {
    const most = Math.max(...scores, ...rest);
    const powers = [...scores, ...rest].map((score) => Math.exp(score - most));
    const total = powers.reduce((sum, one) => sum + one, 0);
    lines.forEach(({ share, bar, slider }, i) => {
      share.textContent = `${formatNumber(scores[i], 1)} → ${formatPercent(powers[i] / total)}`;
      bar.style.width = `${(100 * powers[i]) / total}%`;
      slider.setAttribute("aria-valuetext", share.textContent);
    });
  }

  show();
  return [make("ol", { class: "next-tokens playground" }, lines.map((one) => one.element))];
}
