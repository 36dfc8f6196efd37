// Above the stage: where one is, what ribbons show, and a search for a token.

import { attentionName } from "../attention_names.js";
import { byButtons } from "../by_switch.js";
import { button, make } from "../dom.js";
import { announce } from "../state.js";
import { displayToken, wordAt } from "../token_text.js";
import { placeOf, sidesOf } from "./shape.js";

const MOST_FOUND = 40;

export class StageHeader {
  constructor(stage) {
    this.stage = stage;
    this.crumbs = make("nav", { class: "crumbs", "aria-label": "Where you are" });
    this.by = make("div", { class: "by-switch", role: "group", "aria-label": "What the width of a ribbon shows" });
    this.found = make("datalist", { id: "stage-tokens-found" });
    this.search = make("input", {
      type: "search",
      class: "stage-search",
      placeholder: "find a token ( / )",
      "aria-label": "Find a token",
      list: "stage-tokens-found",
      onchange: () => this.goToToken(),
      onfocus: () => this.listTokens(),
    });
    this.windows = make("div", { class: "stage-windows" });
    this.element = make("div", { class: "stage-header" }, this.crumbs, this.windows, this.by, this.search, this.found);
  }

  show() {
    const { now } = this.stage;
    const names = this.names(now);
    const parts = names.map((name, i) => {
      const isLast = i === names.length - 1;
      if (isLast) return make("span", { "aria-current": "location" }, name);
      return button(name, () => this.goTo(i + 1), { type: "button" });
    });
    this.crumbs.replaceChildren(
      ...parts.flatMap((part, i) => (i ? [make("span", { "aria-hidden": "true" }, "›"), part] : [part])),
    );
    if (now.level > 1) this.crumbs.append(make("kbd", {}, "Esc goes out"));
    this.showWindows(now);
    const influence = this.stage.data.influence(now.token);
    this.by.hidden = now.level !== 1 || (influence && !influence.edges);
    const buttons = byButtons(now.by);
    const focused = [...this.by.children].indexOf(document.activeElement);
    this.by.replaceChildren(...buttons);
    if (focused >= 0) buttons[focused].focus();
  }

  // A lane that is too long for the stage: which of its tokens are shown.
  showWindows(now) {
    const { shape, windows } = this.stage;
    const long = now.level === 1 ? shape.lanes.filter((lane) => lane.tokens.length > windows[lane.side].count) : [];
    const isSame = this.windows.children.length === long.length;
    const sliders = long.map((lane) => {
      const { first, count } = windows[lane.side];
      const last = first + count - 1;
      const label = `${lane.side} ${first}–${last} of ${lane.tokens.length.toLocaleString("en")}`;
      const oninput = (event) => this.stage.moveWindow(lane.side, Number(event.target.value));
      const limits = { type: "range", min: count - 1, max: lane.tokens.length - 1, value: last, oninput };
      return { label, last, limits };
    });
    if (isSame) {
      sliders.forEach(({ label, last }, i) => {
        const [text, slider] = this.windows.children[i].children;
        text.textContent = label;
        if (document.activeElement !== slider) slider.value = last;
      });
    } else {
      const element = ({ label, limits }) => make("label", {}, make("span", {}, label), make("input", limits));
      this.windows.replaceChildren(...sliders.map(element));
    }
  }

  names(now) {
    const { shape } = this.stage;
    const found = placeOf(shape, now.attention);
    if (!found || now.level === 1) return ["the whole model"];
    const sides = sidesOf(shape, now.attention);
    if (now.part) {
      const token = `feed-forward, “${wordAt(sides.rows.tokens, now.row)}” (token ${now.row})`;
      return ["model", found.block.label, token, `unit ${now.unit}`].slice(0, now.level);
    }
    const kind = attentionName(now.attention, this.stage.run).split(", ")[1];
    const names = ["model", found.block.label, `${kind ? `${kind}, ` : ""}head ${now.head}`];
    if (now.row !== null) names.push(`“${wordAt(sides.rows.tokens, now.row)}” (row ${now.row})`);
    if (now.key !== null) names.push(`“${wordAt(sides.keys.tokens, now.key)}” (key ${now.key})`);
    return names.slice(0, now.level);
  }

  goTo(level) {
    this.stage.open({ level });
  }

  focusSearch() {
    this.search.focus();
    return true;
  }

  // Every token with its place, so that repeated ones can be told apart.
  entries() {
    return this.stage.shape.lanes.flatMap((lane) =>
      lane.tokens.map((token, index) => ({ lane, index, name: `${displayToken(token)} (${lane.side} ${index})` }))
    );
  }

  listTokens() {
    const options = this.entries().slice(0, 400).map((one) => make("option", { value: one.name }));
    this.found.replaceChildren(...options);
  }

  goToToken() {
    const wanted = this.search.value.trim().toLowerCase();
    if (!wanted) return;
    const all = this.entries();
    const exact = all.find((one) => one.name.toLowerCase() === wanted);
    const matches = exact ? [exact] : all.filter((one) => one.name.toLowerCase().includes(wanted)).slice(0, MOST_FOUND);
    announce(matches.length ? `${matches.length} found; the first is ${matches[0].name}` : "no such token");
    if (!matches.length) return;
    const [{ lane, index }] = matches;
    const { shape } = this.stage;
    this.stage.open({ level: 1 });
    if (lane === shape.last && shape.predicts) this.stage.chooseToken(index);
    else this.stage.chooseFocus(index);
  }
}
