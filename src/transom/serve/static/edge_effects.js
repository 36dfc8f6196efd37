// Does this arrow matter? Its numbers, and the model run again without it, or without the whole head.

import { get, post } from "./api.js";
import { BY_INFLUENCE, formatEstimate, unitText } from "./by_switch.js";
import { button, columnHead, hint, make, row as rowOf, rowHead, scrollTable, term } from "./dom.js";
import { changeText, explainedToken } from "./explained.js";
import { isOffline } from "./offline.js";
import { probabilityBar } from "./probability_bar.js";
import { announce, chosenRow, currentAttention, nextToken, session, state, withErrors } from "./state.js";
import { changeSentence, NATS, nextOf, quote } from "./prediction_text.js";
import { displayToken, formatNumber, rowName, wordOf } from "./token_text.js";

const TITLE = "Does it matter?";

export class EdgeEffects {
  constructor() {
    this.element = make("section", { class: "card", "aria-label": TITLE });
    this.close = state.on(["row", "key", "token", "head", "attention", "by"], () => this.show());
    this.show();
  }

  get hasModel() {
    return Boolean(session.run?.model) && !isOffline;
  }

  show() {
    const [row, { key }] = [chosenRow(), state.now];
    if (!this.hasModel && !isOffline) {
      this.element.replaceChildren(
        hint("This run is a trace without its model: arrows can be seen, but not knocked out."),
      );
    } else if (row === null || key === null) this.showHint();
    else this.showEdge(row, key);
  }

  showHint() {
    const text = this.hasModel ? "Choose an arrow to knock it out alone, or:" : "Choose an arrow to read its numbers.";
    this.element.replaceChildren(make("h2", {}, TITLE), hint(text), this.hasModel ? this.headButton() : "");
  }

  async showEdge(row, key) {
    const { run, attention, head } = state.now;
    const path = `/api/runs/${run}/${attention}`;
    const isCurrent = () => chosenRow() === row && state.now.key === key;
    // deno-lint-ignore camelcase -- the names of the route's fields
    const block = { head, first_row: row, first_key: key, rows: 1, keys: 1 };
    const found = await withErrors(() => get(`${path}/weights`, block));
    const wanted = { ...block, token: explainedToken() };
    const estimate = this.hasModel && state.now.by === BY_INFLUENCE
      ? await get(`${path}/influence`, wanted).catch(() => null) // why there is none stands beside the switch
      : null;
    if (!found || !isCurrent()) return;
    const edge = `“${rowName(found.rows[0], nextToken(row))}” → “${wordOf(found.keys[0])}” (${key})`;
    this.element.replaceChildren(
      make("h2", {}, `Does ${edge} matter?`),
      numbersOf(found.scores[0][0], found.weights[0][0]),
      estimate ? hint(estimateText(estimate)) : "",
      this.hasModel ? this.edgeButtons(row, key, edge) : "",
    );
    if (!this.hasModel && !hasStoredEffects(attention, head)) return;
    const effects = await withErrors(() => get(`${path}/effects`, { head, query: row }));
    if (effects && isCurrent()) this.element.append(effectsTable(effects, row, key));
  }

  edgeButtons(row, key, edge) {
    const how = make(
      "select",
      { "aria-label": "How to knock it out" },
      make("option", { value: "before" }, "before the softmax: the rest is renormalised"),
      make("option", { value: "after" }, "after the softmax: it is not"),
    );
    const edges = [{ layer: currentAttention().name, head: state.now.head, query: row, key }];
    const knock = button("Knock it out", () => this.knockOut(edges, edge, how.value), { class: "main" });
    return rowOf(knock, how, this.headButton());
  }

  headButton() {
    const { head } = state.now;
    const edges = [{ layer: currentAttention().name, head }];
    return button(`Switch off head ${head}`, () => this.knockOut(edges, `all of head ${head}`));
  }

  // What is said is about the chosen token; where none is chosen, about the one that changes most.
  async knockOut(edges, what, how = "before") {
    const { run, token } = state.now;
    const found = await withErrors(() => post(`/api/runs/${run}/knock_out`, { edges, how }));
    if (!found) return;
    const chosen = found.rows[token];
    const shown = chosen ?? mostChanged(found.rows);
    this.element.querySelector(".result")?.remove();
    const title = make("h2", {}, `Without ${what}`);
    this.element.append(make("div", { class: "result" }, title, ...knockOutResult(found, shown, Boolean(chosen))));
    announce(shown ? sentenceOf(shown) : `the output vectors moved by ${formatNumber(found.change)}`);
  }
}

const mostChanged = (rows) => rows.reduce((most, one) => (most === null || one.kl > most.kl ? one : most), null);
const sentenceOf = (row) => changeSentence(row, nextOf(session.run, row.row)?.token, "it");

function numbersOf(score, weight) {
  return make(
    "p",
    {},
    term("score"),
    ` (scaled) ${formatNumber(score)} · `,
    term("weight"),
    ` ${formatNumber(weight)}`,
  );
}

function estimateText({ unit, explained, estimates: [[size]] }) {
  if (explained) return `By estimate, ${changeText(size, explained)}; knock it out to compare.`;
  return `Without it the whole output moves by ${formatEstimate(size)} ${unitText(unit)}, by estimate; ` +
    "knock it out to compare.";
}

// Whether an offline copy holds the effects of a head.
function hasStoredEffects(attention, head) {
  const stored = session.server.taken;
  return stored.effects && attention === stored.attention && head === stored.head;
}

// The strongest arrows of a row: what each reads, carries, and contributes to the prediction.
function effectsTable(found, row, key) {
  const effect = found.rows[0]?.kl === null ? "effect on the whole text (nats)" : "effect (nats)";
  const terms = [term("weight"), term("norm"), term("norm", "share"), term("knock-out", effect)];
  const cell = (value) => make("td", {}, value === null ? "–" : formatNumber(value, 3));
  const line = (one) => {
    const name = rowHead(`${one.key === key ? "▸ " : ""}${displayToken(one.at)} (${one.key})`);
    const numbers = [one.weight, one.norm, one.contribution, one.kl ?? Math.abs(one.change)];
    return make("tr", {}, name, numbers.map(cell), make("td", { class: "word" }, one.flag));
  };
  const heads = [columnHead("looks at"), ...terms.map((one) => columnHead(one)), columnHead("note")];
  const title = `The strongest arrows from “${rowName(found.from, nextToken(row))}”, and what each contributes`;
  const table = scrollTable(heads, found.rows.map(line));
  return make("details", {}, make("summary", {}, title), table, hint(NATS), found.notes.map((note) => hint(note)));
}

function knockOutResult(found, row, isChosen) {
  if (!row) return [make("p", {}, `The output vectors move by ${formatNumber(found.change)}, all together.`)];
  const tokens = session.run.targets.length ? session.run.targets : session.run.tokens;
  const after = quote(tokens[row.row]);
  const about = isChosen
    ? `You chose the prediction after ${after}.`
    : `No token is chosen: this is the prediction that changes most, after ${after}.`;
  const caption = make("caption", { class: "hint" }, `What was expected after ${after}`);
  const heads = [columnHead("token"), ...["with it", "without"].map((title) => columnHead(title, { class: "bars" }))];
  const line = (word) => {
    const bars = [probabilityBar(word.before, ""), probabilityBar(word.after, "after")];
    return make("tr", {}, rowHead(wordOf(word.token)), bars);
  };
  const said = `Here ${formatNumber(row.kl, 3)} nats, over all tokens together ${
    formatNumber(found.change, 3)
  }. ${NATS}`;
  return [
    make("p", {}, sentenceOf(row)),
    hint(about),
    scrollTable(heads, row.words.map(line), caption),
    make("details", {}, make("summary", {}, "In nats"), hint(said)),
  ];
}
