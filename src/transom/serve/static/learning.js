// <transom-learning>: how a head learned to look, update by update, beside the loss.

import { get } from "./api.js";
import { grid } from "./grid.js";
import { attempt, calm, say, state } from "./state.js";
import { draw, make, number } from "./words.js";

const WIDE = 640, TALL = 150;

class Learning extends HTMLElement {
  connectedCallback() {
    this.off = state.on(["attention", "head"], () => this.load());
    this.load();
  }

  disconnectedCallback() { this.off(); clearTimeout(this.timer); }

  async load() {
    await attempt(async () => {
      this.replay ??= await get("/api/replay");
      this.name ??= this.replay.attentions[0].name;
      this.head ??= this.replay.attentions[0].heads[0];
      this.frames = await get("/api/replay/frames", { name: this.name, head: this.head });
      this.build();
    });
  }

  build() {
    const chosen = this.replay.attentions.find((one) => one.name === this.name), last = this.replay.updates.length - 1;
    const pick = (values, now, title, told) => make("select", { "aria-label": title, onchange: (event) => { told(event.target.value); this.load(); } }, values.map((value) => make("option", { value, selected: String(value) === String(now) }, value)));
    this.slider = make("input", { type: "range", min: 0, max: last, value: Math.min(this.frame ?? last, last), "aria-label": "Update", oninput: () => this.show(), id: "update" });
    this.slider.style.width = "100%";
    this.place = make("div", { class: "scroll" });
    this.curve = make("div");
    this.told = make("p", { class: "hint", role: "status" });
    this.replaceChildren(make("div", { class: "card" }, make("h2", {}, "How it learned to look"),
      make("div", { class: "row" }, pick(this.replay.attentions.map((one) => one.name), this.name, "Attention", (value) => { this.name = value; this.head = null; }), "head", pick(chosen.heads, this.head, "Head", (value) => { this.head = Number(value); }), make("button", { onclick: () => this.play() }, "Play")),
      this.curve, this.slider, this.told, this.place));
    this.show();
  }

  show() {
    this.frame = Number(this.slider.value);
    const update = this.replay.updates[this.frame], { rows, keys, weights } = this.frames, [updates, losses] = this.replay.curve;
    const loss = losses[Math.max(0, updates.findLastIndex((one) => one <= update))];
    this.told.textContent = `after update ${update}${loss === undefined ? "" : `, loss ${number(loss, 3)}`}`;
    this.slider.setAttribute("aria-valuetext", this.told.textContent);
    this.place.replaceChildren(grid({ rows, columns: keys, values: weights[this.frame], heat: { low: 0, high: 1 }, digits: 2, down: "from \\ at" }, () => {}));
    this.curve.replaceChildren(this.drawn(update));
  }

  drawn(update) {
    const [updates, losses] = this.replay.curve, most = Math.max(...losses), least = Math.min(...losses), last = Math.max(...updates, 1);
    const x = (one) => (WIDE * one) / last, y = (loss) => TALL - 8 - ((TALL - 16) * (loss - least)) / (most - least || 1);
    return draw("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, width: "100%", height: TALL, role: "img", preserveAspectRatio: "none", "aria-label": `Loss from ${number(losses[0], 2)} to ${number(losses.at(-1), 2)}` },
      draw("polyline", { class: "arrow", points: updates.map((one, i) => `${x(one)},${y(losses[i])}`).join(" "), "stroke-width": 2 }), draw("line", { class: "arrow out", x1: x(update), x2: x(update), y1: 0, y2: TALL, "stroke-width": 2 }));
  }

  play() {
    clearTimeout(this.timer);
    if (Number(this.slider.value) === Number(this.slider.max)) this.slider.value = 0;
    const tick = () => {
      if (!this.isConnected || Number(this.slider.value) >= Number(this.slider.max)) { say(this.told.textContent); return; }
      this.slider.value = Number(this.slider.value) + 1;
      this.show();
      this.timer = setTimeout(tick, calm() ? 1000 : 120);
    };
    tick();
  }
}

customElements.define("transom-learning", Learning);
