// Which number is explained where it is asked what mattered, in words: the prediction after one token, as on the stage.

import { unitText } from "./by_switch.js";
import { make } from "./dom.js";
import { quote } from "./prediction_text.js";
import { chosenToken } from "./stage/place.js";
import { modelShape } from "./stage/shape.js";
import { rowTokens, session, state } from "./state.js";
import { formatPercent } from "./token_text.js";

// The row whose next token is explained: the chosen one, else the one that the stage shows first. Null where rows
// predict nothing: then it is the whole output that may move.
export function explainedToken() {
  const { run } = session;
  return run?.likely.length ? chosenToken(run, modelShape(run), state.now.token) : null;
}

// The token that comes after it, quoted.
export const explainedName = ({ token }) => quote(token);

// “ses”, which comes after “perdu” (86 %)
export function explainedText({ row, token, log_probability: value }) {
  const last = session.run.attentions.findLast((one) => one.predicts) ?? session.run.attentions.at(-1);
  return `${quote(token)}, which comes after ${quote(rowTokens(last)[row])} (${formatPercent(Math.exp(value))})`;
}

// Helps or hinders, by the sign of a change: without an edge that helps, the number falls.
export const verbOf = (change) => (change <= 0 ? "helps" : "hinders");

// A change with its sign and two digits that count.
export function formatChange(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-3 ? size.toExponential(0) : String(Number(size.toPrecision(2)));
  return `${value < 0 ? "−" : "+"}${text}`;
}

// −0.12 nats: helps “ses”
export function changeText(value, explained) {
  if (value === 0) return "no influence";
  return `${formatChange(value)} ${unitText("nats")}: ${verbOf(value)} ${explainedName(explained)}`;
}

// The signs of both colours, in the words of the stage.
export function signLegend(explained) {
  const name = explainedName(explained);
  const item = (kind, text) =>
    make("span", { class: "influence-sign" }, make("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text);
  return [
    item("helps", `helps ${name}: without it, ${name} is less likely`),
    item("hinders", `hinders ${name}: without it, likelier`),
  ];
}
