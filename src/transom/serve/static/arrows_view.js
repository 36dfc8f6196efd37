// <transom-arrows>: which token looks at which, as arrows; an arrow can be knocked out to see whether it matters.

import { get, getText } from "./api.js";
import { headName } from "./attention_names.js";
import {
  describeDrawing,
  listenToDrawing,
  markChoice,
  parseDrawing,
  scrollToRow,
  takeNotes,
} from "./arrows_drawing.js";
import { drawByInfluence, influenceLegend, isOfWeights } from "./arrows_influence.js";
import { largest, moveByKey } from "./arrows_keys.js";
import { BySwitch, formatEstimate } from "./by_switch.js";
import { card, hint, make, row as rowOf, term } from "./dom.js";
import { EdgeEffects } from "./edge_effects.js";
import { describeHead } from "./head_words.js";
import { RowPlayer } from "./row_player.js";
import {
  announce,
  chosenRow,
  currentAttention,
  nextToken,
  NOTHING_CHOSEN,
  session,
  state,
  withErrors,
} from "./state.js";
import { displayToken, formatNumber, rowName, tokenLegend } from "./token_text.js";

const MOST_TOKENS = 64; // of each side
const PROOF = "✓ checked: these weights give what the model computed, to rounding";

class ArrowsView extends HTMLElement {
  connectedCallback() {
    const stopLoading = state.on(["attention", "head", "opened", "by"], () => this.load());
    const stopShowing = state.on(["row", "key", "token"], () => this.show());
    this.stopListening = () => [stopLoading, stopShowing].forEach((stop) => stop());
    this.picture = make("div", { class: "scroll" });
    this.legend = hint();
    this.heading = make("h2");
    this.proof = hint();
    this.words = make("p", { class: "head-words" });
    this.by = new BySwitch("What the width of an arrow shows");
    this.width = hint();
    this.notes = hint();
    this.player = new RowPlayer(this);
    this.effects = new EdgeEffects();
    const help = hint(
      "Choose a token below to see its ",
      term("weight", "weights"),
      ", or what mattered to it, an arrow to ask whether it matters; Esc shows all again.",
    );
    const controls = rowOf(this.player.element, this.legend);
    this.picture.append(hint("Reading this head …"));
    this.replaceChildren(
      card(this.heading, this.words, this.by.element, help, this.picture, this.width, controls, this.notes, this.proof),
      this.effects.element,
    );
    document.addEventListener("keydown", this.onEscape);
    this.load();
  }

  // Esc gives up the choice, wherever the focus is.
  onEscape = (event) => {
    if (event.key === "Escape" && !event.target.closest("input, textarea, select")) state.set(NOTHING_CHOSEN);
  };

  disconnectedCallback() {
    this.player.pause();
    document.removeEventListener("keydown", this.onEscape);
    this.stopListening();
    this.effects.close();
  }

  async load() {
    const { run, attention: index, head, by } = state.now;
    const attention = currentAttention();
    const path = `/api/runs/${run}/${index}`;
    const block = { head, rows: Math.min(MOST_TOKENS, attention.queries), keys: Math.min(MOST_TOKENS, attention.keys) };
    this.player.pause();
    this.by.show();
    await withErrors(async () => {
      const [data, drawing, influence] = await Promise.all([
        get(`${path}/weights`, block),
        getText(`${path}/picture/arrows`, { head, format: "svg" }),
        this.by.ask(`${path}/influence`, block),
      ]);
      const isCurrent = [["run", run], ["attention", index], ["head", head], ["by", by]]
        .every(([name, value]) => state.now[name] === value);
      if (isCurrent && this.isConnected) this.showDrawing({ ...data, influence }, drawing, attention);
    });
  }

  showDrawing(data, drawing, attention) {
    this.data = data;
    this.next = data.rows.map((_, row) => nextToken(row, attention));
    const tokens = [...data.rows, ...data.keys, ...this.next.filter((token) => token)];
    this.legend.textContent = tokenLegend(tokens.map((token) => token.replace(/^ (?=[^ ])/, "")));
    this.svg = parseDrawing(drawing);
    this.notes.textContent = takeNotes(this.svg).filter((one) => !data.influence || !isOfWeights(one)).join(" ");
    const { influence } = data;
    this.sizes = influence?.estimates ?? data.weights; // of all arrows, by what is shown
    if (influence) drawByInfluence(this.svg, data, influence);
    this.width.textContent = influence ? influenceLegend(influence) : "";
    this.heading.textContent = `Arrows of ${headName(attention.index, state.now.head)}`;
    this.proof.textContent = attention.receipt.holds ? PROOF : `The check failed: receipt ${attention.receipt.said}`;
    this.showWords(attention);
    this.proof.title = `receipt ${attention.receipt.said}`;
    describeDrawing(this.svg, this.heading.textContent, data);
    listenToDrawing(this.svg, {
      onArrow: (row, key) => this.chooseEdge(row, key),
      onWord: (side, index) => this.chooseWord(side, index),
      onKey: (event, side, index) => moveByKey(this, event, side, index),
    });
    this.svg.style.setProperty("--natural", `${this.svg.getAttribute("width")}px`);
    const focused = this.picture.querySelector(":focus")?.id;
    this.picture.replaceChildren(this.svg);
    this.show();
    if (scrollToRow(this.picture, this.row)) this.legend.prepend("Scroll the picture sideways for more tokens. ");
    if (focused) this.focusWord(...focused.split("-"));
  }

  // What the head does, as soon as that is known.
  async showWords({ index }) {
    const { run, head } = state.now;
    this.words.textContent = "";
    const words = await describeHead(session.run, index, head);
    if (state.now.run === run && state.now.attention === index && state.now.head === head) {
      this.words.textContent = words ?? "";
    }
  }

  show() {
    if (!this.svg) return;
    markChoice(this.svg, this.row, state.now.key);
    for (const side of ["from", "at"]) {
      const words = this.svg.querySelectorAll(`.${side} .word`);
      words.forEach((word, index) => word.setAttribute("aria-label", this.describeWord(side, index)));
    }
  }

  // The chosen row, if it is among those drawn.
  get row() {
    const row = chosenRow();
    return row !== null && row in this.data.rows ? row : null;
  }

  rowName(row) {
    return rowName(this.data.rows[row], this.next[row]);
  }

  sizeOf(row, key) {
    return this.data.influence ? formatEstimate(this.sizes[row][key]) : formatNumber(this.sizes[row][key], 2);
  }

  // An edge in words; masked edges have a weight of 0.
  edgeName(row, key) {
    return `row ${this.rowName(row)}, column ${displayToken(this.data.keys[key])}, ${this.sizeOf(row, key)}`;
  }

  describeWord(side, index) {
    if (side === "from") return `${this.rowName(index)}, looks`;
    return this.row !== null ? this.edgeName(this.row, index) : `${displayToken(this.data.keys[index])}, looked at`;
  }

  focusWord(side, index) {
    this.picture.querySelector(`#${side}-${index}`)?.focus();
  }

  // A word below chooses its row, or with `toggles` gives it up; one above an edge from the chosen row.
  chooseWord(side, index, toggles = true) {
    if (side === "from") this.chooseRow(index, toggles);
    else this.chooseEdge(this.row ?? largest(this.sizes.map((sizes) => sizes[index])), index);
  }

  chooseRow(row, toggles) {
    if (toggles && this.row === row) {
      state.set(NOTHING_CHOSEN);
      return;
    }
    state.set({ row, key: null });
    const key = largest(this.sizes[row]);
    const verb = this.data.influence ? "is moved most by what it reads at" : "looks most at";
    announce(`${this.rowName(row)} ${verb} ${displayToken(this.data.keys[key])}, ${this.sizeOf(row, key)}`);
  }

  chooseEdge(row, key) {
    if (this.data.scores[row][key] === null) {
      announce(`row ${this.rowName(row)} may not look at ${displayToken(this.data.keys[key])}: masked`);
      state.set({ row, key: null });
      return;
    }
    state.set({ row, key });
    announce(this.edgeName(row, key));
  }
}

customElements.define("transom-arrows", ArrowsView);
