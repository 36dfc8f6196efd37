// The column beside the stage: one sentence on what is shown, one thing to do, its numbers; or a scene of the story.

import { button, hint, make } from "../dom.js";
import { isOffline } from "../offline.js";
import { session, state } from "../state.js";
import { formatNumber, wordOf } from "../token_text.js";
import { lightSentence } from "./head_buttons.js";
import { barList, nextTokens, predictions } from "./next_tokens.js";
import { sentences } from "./reading_text.js";
import { placeOf, sidesOf } from "./shape.js";
import { Story } from "./story.js";

const VIEWS = [["see", "arrows"], ["map", "map"], ["walk", "every step"], ["heads", "all heads"]];

export class Reading {
  constructor(stage) {
    this.stage = stage;
    this.story = new Story(stage);
    this.element = make("aside", { class: "reading", "aria-label": "What you see" });
    this.peekNote = make("p", { class: "peek" });
  }

  sentence() {
    return sentences(this.stage).spoken;
  }

  turnScene(by) {
    return this.story.turn(by);
  }

  show() {
    if (!this.stage.level) return;
    const content = this.story.isOpen ? this.story.content() : this.content();
    const focused = this.element.querySelector(":focus")?.textContent;
    this.element.replaceChildren(...content.flat().filter((one) => one));
    if (focused) [...this.element.querySelectorAll("button")].find((one) => one.textContent === focused)?.focus();
  }

  content() {
    const { title, say, act } = sentences(this.stage);
    return [
      this.story.invitation(),
      this.suggestion(),
      make("h2", {}, title),
      say.map((one) => make("p", {}, one)),
      act ? make("p", { class: "do" }, act) : null,
      this.peekNote,
      this.knockOuts(),
      this.table(),
      this.explore(),
      this.stage.now.level === 1 ? legend(this.stage) : null,
      problems(this.stage),
    ];
  }

  // A head that the server found to matter: a suggestion, never a change of what is shown.
  suggestion() {
    const found = session.run?.suggestion;
    const { now, shape } = this.stage;
    if (!found || (now.level >= 3 && now.attention === found.attention && now.head === found.head)) return null;
    const place = placeOf(shape, found.attention);
    if (!place) return null;
    const go = () => this.stage.open({ level: 3, attention: found.attention, head: found.head });
    const kind = place.part.kind === "cross" ? " (cross)" : "";
    return button(`Look at ${place.block.label}${kind}, head ${found.head}`, go, {
      type: "button",
      class: "chip",
      title: found.why,
    });
  }

  describePeek(peek) {
    if (!peek) {
      this.peekNote.textContent = "";
      return;
    }
    const { now, data } = this.stage;
    const { place, index, head } = peek;
    const cross = place.part.kind === "cross" ? ", cross-attention" : "";
    const worth = lightSentence(data.influence(now.token), index, head);
    this.peekNote.textContent = `${place.block.label}${cross}, head ${head}${worth ? `: ${worth}` : ""}`;
  }

  // Take out what is on the stage, and see what would come out.
  knockOuts() {
    const { stage } = this;
    const { now, run, changes } = stage;
    if (changes) return this.changed(changes);
    if (!run.model || isOffline || now.level < 3) return null;
    const layer = run.attentions[now.attention].name;
    const sides = sidesOf(stage.shape, now.attention);
    const name = `head ${now.head}`;
    if (now.level < 5) {
      const label = `head ${now.head} of ${layer}`;
      return button(`Switch off ${name}`, () => stage.knockOut([{ layer, head: now.head }], label), {
        type: "button",
        class: "take-out",
      });
    }
    const [row, key] = [sides.rows.tokens[now.row], sides.keys.tokens[now.key]].map(wordOf);
    const edge = [{ layer, head: now.head, query: now.row, key: now.key }];
    return button("Take this arrow out", () => stage.knockOut(edge, `“${row}” → “${key}”`), {
      type: "button",
      class: "take-out",
    });
  }

  changed(changes) {
    const { stage } = this;
    const { run, now, shape } = stage;
    const back = button("Give it back", () => stage.giveBack(), { type: "button" });
    const title = make("h3", {}, `Without ${changes.label}`);
    if (!changes.rows.length) {
      return [title, make("p", {}, `The output moves by ${formatNumber(changes.change, 4)}.`), back];
    }
    const most = changes.rows.reduce((best, one) => (one.kl > best.kl ? one : best));
    const row = changes.rows[now.token].kl > 0.1 * most.kl ? now.token : most.row;
    const read = wordOf(shape.last.tokens[row]);
    const entries = nextTokens(run, row, changes.rows[row]);
    const moved = `After “${read}” the prediction moves by ${formatNumber(changes.rows[row].kl, 3)} nats.`;
    return [
      make("section", { class: "changed" }, title, make("p", {}, moved), barList(entries, run.written[row]), back),
    ];
  }

  // The same as numbers.
  table() {
    const { stage } = this;
    const { now } = stage;
    if (now.level === 1 && stage.shape.predicts) {
      return asTable(
        ["after", "next token", "probability"],
        predictions(stage.run, stage.shape.last.tokens, now.token),
      );
    }
    const found = now.level >= 4 ? stage.data.row(now.attention, now.head, now.row) : null;
    if (!found) return null;
    const rows = found.keys.map((
      one,
    ) => [
      `${one.key} ${wordOf(one.token)}`,
      one.score === null ? "masked" : formatNumber(one.score, 3),
      formatNumber(one.weight, 4),
    ]);
    return asTable(["key", "score", "weight"], rows);
  }

  explore() {
    const { now } = this.stage;
    if (now.level < 3) return null;
    const links = VIEWS.map(([view, title]) => button(title, () => state.set({ view }), { type: "button" }));
    return make(
      "div",
      { class: "explore", role: "group", "aria-label": "Explore this head as" },
      hint("Explore this head as"),
      links,
    );
  }
}

function asTable(heads, rows) {
  const line = ([first, ...rest]) =>
    make("tr", {}, make("th", { scope: "row" }, first), rest.map((one) => make("td", {}, one)));
  const head = make("thead", {}, make("tr", {}, heads.map((one) => make("th", { scope: "col" }, one))));
  const table = make("table", {}, head, make("tbody", {}, rows.map(line)));
  return make("details", {}, make("summary", {}, "As a table"), make("div", { class: "scroll" }, table));
}

// What the signs of the picture mean.
function legend({ data, now }) {
  const influence = data.influence(now.token);
  const light = influence?.by === "carried"
    ? "a head: lit, it carries much"
    : influence === undefined
    ? "a head; its light is being computed …"
    : "a head: lit, it mattered for the next token";
  const ribbon = now.by === "influence" && influence?.edges
    ? "what mattered, all heads together"
    : "what a token reads, the mean of the heads";
  const items = [["pane", light], ["ribbon", ribbon], ["plus", "added to the token, after a norm"], [
    "gauge",
    "what the feed-forward part adds",
  ]];
  return make(
    "ul",
    { class: "stage-legend" },
    items.map(([kind, text]) => make("li", {}, make("span", { class: `sign ${kind}`, "aria-hidden": "true" }), text)),
  );
}

// What could not be had, in words.
function problems({ data }) {
  const said = [...data.problems].map(([name, message]) => hint(`${name}: ${message}`));
  const { missing } = data.residual() ?? {};
  return [...said, missing ? hint(`${missing}.`) : null];
}
