// Take out what is on the stage, and see what became of the chosen token: an arrow, or the whole head.

import { headName } from "../attention_names.js";
import { button, hint, make } from "../dom.js";
import { isOffline } from "../offline.js";
import { changeSentence, changeWords, NATS, nextOf, quote } from "../prediction_text.js";
import { formatNumber, formatPercent, wordAt } from "../token_text.js";
import { largest } from "./draw_tools.js";
import { barList, nextTokens } from "./next_tokens.js";
import { sidesOf } from "./shape.js";

const MUCH_MORE = 2; // times the change at the chosen token: then it is said where the change is largest
const NOTICEABLE = 0.01; // nats
const RENORMALISED = "The weight of the arrow went to the other tokens of its row.";
const AS_IT_WAS = "All other numbers on the page are of the model as it is.";

// Buttons for what can be taken out here, and under them what was taken out last and what came of it.
export function knockOuts(stage) {
  return [...takeOuts(stage), stage.changes ? describeChanges(stage, stage.changes) : null];
}

function takeOuts(stage) {
  const { now, run } = stage;
  if (!run.model || isOffline || now.level < 3 || now.part) return [];
  const layer = run.attentions[now.attention].name;
  const edge = edgeOf(stage);
  const head = headName(now.attention, now.head);
  const takeHead = () => stage.knockOut([{ layer, head: now.head }], head);
  const asked = stage.shape.predicts
    ? `Did it matter for ${quote(nextOf(run, now.token)?.token)}? Take it out and see:`
    : "Did it matter? Take it out and see:";
  return [
    hint(asked),
    make(
      "div",
      { class: "take-outs" },
      edge
        ? takeOut(
          `Take out ${edge.name}`,
          () => stage.knockOut([{ layer, ...edge.edge }], `the arrow ${edge.name} of ${head}`),
        )
        : "",
      now.level < 5 ? takeOut(`Switch off head ${now.head}`, takeHead) : "",
    ),
  ];
}

const takeOut = (label, onclick) => button(label, onclick, { type: "button", class: "take-out" });

// The arrow that is looked at: the chosen one, else the strongest of the chosen row.
function edgeOf(stage) {
  const { now, shape, data } = stage;
  const sides = sidesOf(shape, now.attention);
  const found = now.level === 3 ? stage.level.found : data.row(now.attention, now.head, now.row);
  if (!found) return null;
  const row = now.level === 3 ? stage.level.row : now.row;
  const strongest = () =>
    now.level === 3
      ? largest(found.weights[row])
      : found.keys.reduce((one, other) => (other.weight > one.weight ? other : one)).key;
  const key = now.level === 5 ? now.key : strongest();
  const name = `“${wordAt(sides.rows.tokens, row)}” → “${wordAt(sides.keys.tokens, key)}”`;
  return { edge: { head: now.head, query: row, key }, name };
}

// About the chosen token, before and after; and where it changes more, if it does.
export function describeChanges(stage, changes) {
  const { run, now, shape } = stage;
  const back = button("Give it back", () => stage.giveBack(), { type: "button" });
  const title = make("h3", {}, `Without ${changes.label}`);
  if (!changes.rows.length) {
    const moved = `The output vectors move by ${formatNumber(changes.change, 4)} (the length of the difference).`;
    return make("section", { class: "changed" }, title, make("p", {}, moved), back);
  }
  const chosen = changes.rows[now.token];
  const { token } = nextOf(run, now.token);
  const said = `${changeSentence(chosen, token, "it")} (You chose the prediction after ${
    quote(shape.last.tokens[now.token])
  }.)`;
  return make(
    "section",
    { class: "changed" },
    title,
    make("p", { role: "status" }, said),
    barList(nextTokens(run, now.token, chosen), run.written[now.token]),
    elsewhere(stage, changes, chosen),
    back,
    hint(`${changes.key === null ? "The head added nothing to any token." : RENORMALISED} ${AS_IT_WAS}`),
    numbers(changes, chosen),
  );
}

function elsewhere(stage, changes, chosen) {
  const most = changes.rows.reduce((best, one) => (one.kl > best.kl ? one : best));
  if (most.row === chosen.row || most.kl < NOTICEABLE || most.kl < MUCH_MORE * chosen.kl) return "";
  const { token } = nextOf(stage.run, most.row);
  const word = most.words.find((one) => one.token === token) ?? most.words[0];
  if (formatPercent(word.before) === formatPercent(word.after)) return "";
  const go = button(`Choose ${quote(word.token)}`, () => stage.chooseToken(most.row), { type: "button" });
  return make(
    "p",
    {},
    `It matters most for another token: ${quote(word.token)} ${changeWords(word.before, word.after)}. `,
    go,
  );
}

function numbers(changes, { kl }) {
  return make(
    "details",
    {},
    make("summary", {}, "How far all predictions moved"),
    make(
      "p",
      { class: "hint" },
      `${formatNumber(kl, 3)} nats after this token, ${
        formatNumber(changes.change, 3)
      } after all tokens together. ${NATS}`,
    ),
  );
}
