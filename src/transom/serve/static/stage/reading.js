// The column beside the stage: one sentence on what is shown, one thing to do, its numbers; or a scene of the story.

import { AgreementNote } from "../agreement_note.js";
import { headName } from "../attention_names.js";
import { button, hint, make } from "../dom.js";
import { session, state } from "../state.js";
import { strongestHead } from "../suggestion.js";
import { formatNumber, wordOf } from "../token_text.js";
import { feedForwardTable } from "./feed_forward_text.js";
import { headList } from "./head_list.js";
import { knockOuts } from "./knock_outs.js";
import { legend } from "./legend.js";
import { predictions } from "./next_tokens.js";
import { sentences } from "./reading_text.js";
import { Story } from "./story.js";
import { worthLabel, worthOf } from "./worth_text.js";

const VIEWS = [["see", "arrows"], ["map", "map"], ["walk", "every step"], ["heads", "all heads"]];

export class Reading {
  constructor(stage) {
    this.stage = stage;
    this.story = new Story(stage);
    this.element = make("aside", { class: "reading", "aria-label": "What you see" });
    this.peekNote = make("p", { class: "peek" });
    this.agreement = new AgreementNote();
  }

  sentence() {
    return sentences(this.stage).spoken;
  }

  turnScene(by) {
    return this.story.turn(by);
  }

  show() {
    if (!this.stage.level) return;
    this.stage.toggleAttribute("data-story", this.story.isOpen);
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
      this.stage.now.level === 1 ? headList(this.stage) : null,
      knockOuts(this.stage),
      this.table(),
      this.explore(),
      this.stage.now.level === 1 ? legend(this.stage) : null,
      this.showAgreement(),
      problems(this.stage),
    ];
  }

  // How far what lights heads and ribbons can be trusted; it is measured where ribbons show what mattered.
  showAgreement() {
    const { now, data } = this.stage;
    const influence = now.by === "influence" ? data.influence(now.token) : null;
    this.agreement.show(influence?.by === "influence" ? now.token : null, session.run?.seconds ?? 0);
    return this.agreement.element;
  }

  // A head that mattered for the chosen token: a suggestion, never a change of what is shown.
  suggestion() {
    const { now, shape, run, data } = this.stage;
    const influence = shape.predicts ? data.influence(now.token) : null;
    if (influence === undefined) return null;
    const found = strongestHead(influence, run, now.token) ?? session.run?.suggestion;
    if (!found || (now.level >= 3 && !now.part && now.attention === found.attention && now.head === found.head)) {
      return null;
    }
    const go = () => this.stage.open({ level: 3, attention: found.attention, head: found.head, row: null });
    const label = `Look at ${headName(found.attention, found.head)}: ${found.why}`;
    return button(label, go, { type: "button", class: "chip", title: found.hint });
  }

  describePeek(peek) {
    if (!peek) {
      this.peekNote.textContent = "";
      return;
    }
    const worth = worthLabel(worthOf(this.stage, peek.index, peek.head));
    this.peekNote.textContent = `${headName(peek.index, peek.head)}${worth ? `: ${worth}` : ""}`;
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
    if (now.part) {
      const found = stage.data.feedForward(now);
      return found ? asTable(...feedForwardTable(found)) : null;
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
    if (now.level < 3 || now.part) return null;
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

// What could not be had, in words.
function problems({ data }) {
  const said = [...data.problems].map(([name, message]) => hint(`${name}: ${message}`));
  const { missing } = data.residual() ?? {};
  return [...said, missing ? hint(`${missing}.`) : null];
}
