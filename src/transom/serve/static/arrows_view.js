// <transom-arrows>: which token looks at which, as arrows; an arrow can be knocked out to see whether it matters.

import { AgreementNote } from "./agreement_note.js";
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
import { ArrowWords } from "./arrows_words.js";
import { BY_INFLUENCE, BySwitch } from "./by_switch.js";
import { card, hint, make, row as rowOf, term } from "./dom.js";
import { EdgeEffects } from "./edge_effects.js";
import { explainedToken } from "./explained.js";
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
import { displayToken, tokenLegend } from "./token_text.js";

const MOST_TOKENS = 64; // of each side
const WAITING = "Following the prediction back through the model: one forward and one backward pass …";
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
    this.agreement = new AgreementNote();
    this.player = new RowPlayer(this);
    this.effects = new EdgeEffects();
    const help = hint(
      "Choose a token below to see its ",
      term("weight", "weights"),
      ", or what mattered to it, an arrow to ask whether it matters; Esc shows all again.",
    );
    const controls = rowOf(this.player.element, this.legend);
    const about = [this.agreement.element, controls, this.notes, this.proof];
    this.picture.append(hint("Reading this head …"));
    this.replaceChildren(
      card(this.heading, this.words, this.by.element, help, this.picture, this.width, ...about),
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
    this.agreement.close();
    this.effects.close();
  }

  async load() {
    const { run, attention: index, head, by } = state.now;
    const attention = currentAttention();
    const path = `/api/runs/${run}/${index}`;
    const block = { head, rows: Math.min(MOST_TOKENS, attention.queries), keys: Math.min(MOST_TOKENS, attention.keys) };
    const token = explainedToken();
    this.player.pause();
    this.by.show();
    if (by === BY_INFLUENCE && !this.by.isRefused) this.width.textContent = WAITING;
    await withErrors(async () => {
      const [data, drawing, influence] = await Promise.all([
        get(`${path}/weights`, block),
        getText(`${path}/picture/arrows`, { head, format: "svg" }),
        this.by.ask(`${path}/influence`, { ...block, token }),
      ]);
      const isCurrent = [["run", run], ["attention", index], ["head", head], ["by", by]]
        .every(([name, value]) => state.now[name] === value) && (!influence || token === explainedToken());
      if (isCurrent && this.isConnected) this.showDrawing({ ...data, influence }, drawing, attention);
    });
  }

  showDrawing(data, drawing, attention) {
    this.data = data;
    const next = data.rows.map((_, row) => nextToken(row, attention));
    this.spoken = new ArrowWords(data, next);
    const tokens = [...data.rows, ...data.keys, ...next.filter((token) => token)];
    this.legend.textContent = tokenLegend(tokens.map((token) => token.replace(/^ (?=[^ ])/, "")));
    this.svg = parseDrawing(drawing);
    this.notes.textContent = takeNotes(this.svg).filter((one) => !data.influence || !isOfWeights(one)).join(" ");
    const { influence } = data;
    this.sizes = influence?.estimates.map((line) => line.map(Math.abs)) ?? data.weights; // of all arrows
    if (influence) drawByInfluence(this.svg, data, influence);
    this.width.replaceChildren(...(influence ? influenceLegend(influence) : []));
    this.agreement.show(influence?.explained?.row ?? null, influence?.explained?.seconds);
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
    if (scrollToRow(this.picture, this.row ?? influence?.explained?.row ?? null)) {
      this.legend.prepend("Scroll the picture sideways for more tokens. ");
    }
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
    const { explained } = this.data.influence ?? {};
    if (explained && explained.row !== explainedToken()) this.load(); // another prediction is another picture
    markChoice(this.svg, this.row, state.now.key);
    for (const side of ["from", "at"]) {
      const words = this.svg.querySelectorAll(`.${side} .word`);
      words.forEach((word, index) => word.setAttribute("aria-label", this.spoken.word(side, index, this.row)));
    }
  }

  // The chosen row, if it is among those drawn.
  get row() {
    const row = chosenRow();
    return row !== null && row in this.data.rows ? row : null;
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
    announce(`${this.spoken.row(row)} ${verb} ${displayToken(this.data.keys[key])}, ${this.spoken.size(row, key)}`);
  }

  chooseEdge(row, key) {
    if (this.data.scores[row][key] === null) {
      announce(`row ${this.spoken.row(row)} may not look at ${displayToken(this.data.keys[key])}: masked`);
      state.set({ row, key: null });
      return;
    }
    state.set({ row, key });
    announce(this.spoken.edge(row, key));
  }
}

customElements.define("transom-arrows", ArrowsView);
