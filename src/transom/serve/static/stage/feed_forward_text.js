// What is said of a feed-forward part: its units, what each was worth, and the same as a table.

import { nextOf, quote } from "../prediction_text.js";
import { formatNumber } from "../token_text.js";
import { placeOf } from "./shape.js";

// A change of a log-probability, with its sign; what is smaller than the last digit is said to be so.
export function effectText(effect) {
  if (effect === null) return "";
  if (effect === 0) return "0";
  if (Math.abs(effect) < 5e-5) return effect < 0 ? "> −0.0001" : "< 0.0001";
  const text = formatNumber(Math.abs(effect), Math.abs(effect) < 0.1 ? 4 : 2);
  return `${effect < 0 ? "−" : "+"}${text}`;
}

// The unit that is opened: a listed one, or one that was asked for.
export const unitOf = (found, { unit }) => [...found.units, found.asked].find((one) => one?.unit === unit);

export const explainedToken = ({ run, now }, found) =>
  found.by === "influence" ? quote(nextOf(run, now.token)?.token) : null;

export function feedForwardSentences(stage) {
  const { data, now, shape } = stage;
  const title = "Feed-forward";
  const found = data.feedForward(now);
  if (!found) return { title, say: [], act: "" };
  const token = quote(found.token);
  const next = explainedToken(stage, found);
  const gate = found.gated ? " times a second product" : "";
  const many = found.count.toLocaleString("en");
  const say = [
    `${token} alone meets ${many} hidden units: one dot product each, then ${found.activation}${gate}.`,
    `A unit that is on writes its row of W_2; the sum is added to ${token}.`,
    next
      ? `Shown are the units that did most for ${next}, by estimate: + helps, − hinders.`
      : `Shown are the units that write most.`,
  ];
  const place = placeOf(shape, now.attention).block.label;
  if (now.level === 3) return { title: `${title} of ${place}`, say, act: "Choose a unit for its arithmetic." };
  const unit = unitOf(found, now);
  if (!unit) return { title: `Unit ${now.unit}`, say: [], act: "" };
  const worth = next ? ` For ${next} that is worth ${effectText(unit.effect)} nats, by estimate.` : "";
  const done = `It writes its row of W_2, ${formatNumber(unit.size, 2)} long.${worth}`;
  const sum = `${token} and its column of ${found.gated ? "W_gate" : "W_1"} give ${
    formatNumber(unit.gate.value, 3)
  }; ${found.activation} makes it ${formatNumber(unit.active, 3)}.`;
  return { title: `Unit ${now.unit}`, say: [sum, done], act: "Play it, or go out with Esc." };
}

// The same as numbers: heads and rows of a table.
export function feedForwardTable(found) {
  const worth = (one) => (found.by === "influence" ? effectText(one.effect) : formatNumber(one.size, 3));
  const rows = found.units.map((one) => [
    `unit ${one.unit}`,
    formatNumber(one.gate.value, 3),
    formatNumber(one.hidden, 3),
    worth(one),
  ]);
  if (found.by === "influence") {
    rows.push([`${found.others.count.toLocaleString("en")} others`, "", "", effectText(found.others.effect)]);
    if (found.bias) rows.push(["bias", "", "", effectText(found.bias.effect)]);
    rows.push(["the whole part", "", "", effectText(found.effect)]);
  }
  return [["", "sum", "hidden", found.by === "influence" ? "worth" : "length"], rows];
}
