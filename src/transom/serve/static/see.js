// <transom-see>: who looks at whom, as arrows between words; an arrow can be taken out to see what it was for.

import { get } from "./api.js";
import { Asked } from "./ask.js";
import { attempt, attention, calm, nextWord, say, state } from "./state.js";
import { draw, make, named, number, shown, signs } from "./words.js";

const ROW_PAUSE = 700; // milliseconds
const MOST = 64, TALL = 190, WORD = 26, GAP = 14, LETTER = 8.6, HIGH = TALL + 3 * WORD + 10;

class See extends HTMLElement {
  connectedCallback() {
    this.off = state.on(["attention", "head", "opened"], () => this.load());
    this.offRow = state.on(["row", "key"], () => this.show());
    this.picture = make("div", { class: "scroll" });
    this.note = make("p", { class: "hint" });
    this.legend = make("p", { class: "hint" });
    this.player = make("button", { onclick: () => (this.timer ? this.stop() : this.play()) }, "Play, row by row");
    this.asked = new Asked();
    this.replaceChildren(make("div", { class: "card" }, this.note, this.picture, make("div", { class: "row" }, this.player, this.legend)), this.asked.place);
    this.load();
  }

  disconnectedCallback() { this.stop(); this.off(); this.offRow(); this.asked.close(); }

  // Each row in its turn: whom it looks at while it makes the model write the next token.
  play() {
    this.player.textContent = "Pause";
    let row = state.now.row === null || state.now.row >= this.data.rows.length - 1 ? 0 : state.now.row + 1;
    const tick = () => {
      if (row >= this.data.rows.length) { this.stop(); return; }
      this.look(row, false);
      row += 1;
      this.timer = setTimeout(tick, calm() ? 3 * ROW_PAUSE : ROW_PAUSE);
    };
    tick();
  }

  stop() { clearTimeout(this.timer); this.timer = null; this.player.textContent = "Play, row by row"; }

  async load() {
    const { run, attention: index, head } = state.now;
    this.stop();
    await attempt(async () => {
      const one = attention();
      this.data = await get(`/api/runs/${run}/${index}/weights`, { head, rows: Math.min(MOST, one.queries), keys: Math.min(MOST, one.keys) });
      this.show();
    });
  }

  show() {
    if (!this.data || !this.isConnected) return;
    const one = attention(), cut = one.queries > MOST || one.keys > MOST;
    this.next = this.data.rows.map((_, row) => nextWord(row, one));
    this.note.replaceChildren(
      make("span", {}, "Below: the tokens that look. Above: what they look at. The wider the arrow, the larger its "), make("dfn", { "data-word": "weight" }, "weight"),
      `. ${this.next.some((word) => word !== undefined) ? "In brackets: the token that comes next, which the row is to predict. " : ""}Choose a token to see its numbers, an arrow to ask whether it matters.${cut ? ` Only the first ${MOST} tokens are drawn here; the map has all.` : ""}`);
    this.legend.textContent = signs([...this.data.rows, ...this.data.keys, ...this.next.filter((word) => word)]);
    this.places = { from: placed(this.data.rows, this.next), at: placed(this.data.keys) };
    const width = Math.max(this.places.from.width, this.places.at.width) + 2 * GAP;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${HIGH}`, width, height: HIGH, role: "group", "aria-label": `Arrows of ${one.name}, head ${state.now.head}` });
    svg.append(draw("g", {}, this.arrows()), this.line("at", this.data.keys, 0), this.line("from", this.data.rows, TALL + WORD + 10), this.writes(TALL + 2 * WORD + 24));
    const focused = this.picture.querySelector(":focus")?.id;
    this.picture.replaceChildren(svg);
    if (focused) this.picture.querySelector(`#${focused}`)?.focus();
  }

  arrows() {
    const drawn = [];
    const { row, key } = state.now;
    this.data.weights.forEach((weights, from) => weights.forEach((weight, at) => {
      if (this.data.scores[from][at] === null || (weight < 0.02 && from !== row)) return;
      if (row !== null && from !== row) return;
      const x1 = this.places.from.middles[from], x2 = this.places.at.middles[at], top = WORD + 6, low = TALL + WORD + 6;
      const chosen = from === row && at === key;
      const path = draw("path", { class: "arrow", d: `M${x1} ${low} C${x1} ${low - TALL / 2} ${x2} ${top + TALL / 2} ${x2} ${top}`, "stroke-width": Math.max(0.6, 11 * weight), "stroke-opacity": row === null ? 0.15 + 0.75 * weight : 0.3 + 0.7 * weight, onclick: () => this.choose(from, at) },
        draw("title", {}, `${this.called(from)} → ${shown(this.data.keys[at])}: ${number(weight)}`));
      if (chosen) path.classList.add("out");
      drawn.push([weight, path]);
      if (from === row && weight >= 0.005) drawn.push([2, draw("text", { class: "number", x: chosen ? x2 + 10 : x2, y: top + 16 + (at % 2) * 14, "text-anchor": chosen ? "start" : "middle" }, number(weight, 2))]);
    }));
    return drawn.sort((one, other) => one[0] - other[0]).map(([, element]) => element);
  }

  line(side, words, y) {
    const places = this.places[side];
    return draw("g", { class: side, role: "group", "aria-label": side === "from" ? "tokens that look" : "tokens looked at" }, words.map((word, i) => {
      const chosen = side === "from" ? i === state.now.row : i === state.now.key;
      const one = draw("g", { class: "word", role: "button", id: `${side}-${i}`, "aria-pressed": chosen, tabindex: i === (side === "from" ? state.now.row ?? 0 : state.now.key ?? 0) ? 0 : -1, "aria-label": this.spoken(side, i) },
        draw("rect", { x: places.middles[i] - places.widths[i] / 2, y, width: places.widths[i], height: WORD, rx: 5 }),
        draw("text", { x: places.middles[i], y: y + 18, "text-anchor": "middle" }, ...faint(shown(word))));
      one.addEventListener("click", () => (side === "from" ? this.look(i) : this.choose(state.now.row ?? this.strongest(i), i)));
      one.addEventListener("keydown", (event) => this.pressed(event, side, i));
      return one;
    }));
  }

  // Beneath each token that looks, the one that comes next.
  writes(y) {
    return draw("g", { class: "writes", "aria-hidden": "true" }, this.next.map((word, i) => (word === undefined ? null : draw("text", { x: this.places.from.middles[i], y, "text-anchor": "middle" }, `(${shown(word)})`))));
  }

  called(row) { return named(this.data.rows[row], this.next[row]); }

  spoken(side, i) {
    const word = shown(this.data[side === "from" ? "rows" : "keys"][i]), { row } = state.now;
    return side === "at" && row !== null ? `row ${this.called(row)}, column ${word}, ${number(this.data.weights[row][i], 2)}` : side === "from" ? `${this.called(i)}, looks` : `${word}, looked at`;
  }

  pressed(event, side, i) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], words = side === "from" ? this.data.rows : this.data.keys;
    if (step) {
      event.preventDefault();
      const next = (i + step + words.length) % words.length;
      if (side === "from") this.look(next, false); else this.choose(state.now.row ?? this.strongest(next), next);
      this.picture.querySelector(`#${side}-${next}`)?.focus();
    } else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); if (side === "from") this.look(i); else this.choose(state.now.row ?? this.strongest(i), i); }
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      event.preventDefault();
      const other = side === "from" ? "at" : "from", at = Math.min(i, (other === "from" ? this.data.rows : this.data.keys).length - 1);
      this.picture.querySelector(`#${other}-${other === "at" && state.now.row !== null ? this.best(state.now.row) : at}`)?.focus();
    } else if (event.key === "Escape") state.set({ row: null, key: null });
  }

  look(row, toggles = true) {
    state.set({ row: toggles && state.now.row === row ? null : row, key: null });
    if (state.now.row === null) return;
    const at = this.best(row);
    say(`${this.called(row)} looks most at ${shown(this.data.keys[at])}, ${number(this.data.weights[row][at], 2)}`);
  }

  best(row) { return this.data.weights[row].indexOf(Math.max(...this.data.weights[row])); }

  strongest(key) { const column = this.data.weights.map((row) => row[key]); return column.indexOf(Math.max(...column)); }

  choose(row, key) {
    if (this.data.scores[row][key] === null) { say(`row ${this.called(row)} may not look at ${shown(this.data.keys[key])}: masked`); state.set({ row, key: null }); return; }
    state.set({ row, key });
    say(`row ${this.called(row)}, column ${shown(this.data.keys[key])}, ${number(this.data.weights[row][key], 2)}`);
  }
}

// A space before a word is shown, but not as loud as the word.
const faint = (word) => (word.startsWith("·") ? [draw("tspan", { class: "space" }, "·"), word.slice(1)] : [word]);

// Where the words of a line stand.
function placed(words, beneath = []) {
  const widths = words.map((word, i) => Math.max(26, shown(word).length * LETTER + 10, 7 * ((beneath[i] ? shown(beneath[i]).length : -2) + 2) + 6)), middles = [];
  let x = GAP;
  for (const width of widths) { middles.push(x + width / 2); x += width + GAP / 2; }
  return { widths, middles, width: x };
}

customElements.define("transom-see", See);
