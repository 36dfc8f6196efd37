// <transom-training-replay>: how the weights of a head changed during training, update by update, beside the loss.

import { get } from "./api.js";
import { button, card, draw, make, row as rowOf } from "./dom.js";
import { matrixTable } from "./matrix_table.js";
import { announce, prefersReducedMotion, state, withErrors } from "./state.js";
import { formatNumber } from "./token_text.js";

const CURVE_WIDTH = 640;
const CURVE_HEIGHT = 150;
const FRAME_PAUSE = 120; // milliseconds
const CALM_FRAME_PAUSE = 1000;

class TrainingReplay extends HTMLElement {
  connectedCallback() {
    this.stopListening = state.on(["attention", "head"], () => this.load());
    this.load();
  }

  disconnectedCallback() {
    this.stopListening();
    clearTimeout(this.timer);
  }

  load() {
    return withErrors(async () => {
      this.replay ??= await get("/api/replay");
      this.name ??= this.replay.attentions[0].name;
      this.head ??= this.replay.attentions[0].heads[0];
      this.frames = await get("/api/replay/frames", { name: this.name, head: this.head });
      this.build();
    });
  }

  build() {
    const last = this.replay.updates.length - 1;
    const value = Math.min(this.frame ?? last, last);
    const oninput = () => this.showFrame();
    this.slider = make("input", {
      type: "range",
      min: 0,
      max: last,
      value,
      "aria-label": "Update",
      oninput,
      id: "update",
    });
    this.slider.style.width = "100%";
    this.matrix = make("div", { class: "scroll" });
    this.curve = make("div");
    this.status = make("p", { class: "hint", role: "status" });
    const title = make("h2", {}, "How the head learned to look");
    this.replaceChildren(card(title, this.pickers(), this.curve, this.slider, this.status, this.matrix));
    this.showFrame();
  }

  pickers() {
    const { attentions } = this.replay;
    const { heads } = attentions.find((one) => one.name === this.name);
    const attention = this.picker("Attention", attentions.map((one) => one.name), this.name, (value) => {
      this.name = value;
      this.head = null;
    });
    const head = this.picker("Head", heads, this.head, (value) => (this.head = Number(value)));
    return rowOf(attention, "head", head, button("Play", () => this.play()));
  }

  picker(label, values, current, onChoose) {
    const onchange = (event) => {
      onChoose(event.target.value);
      this.load();
    };
    const option = (value) => make("option", { value, selected: String(value) === String(current) }, value);
    return make("select", { "aria-label": label, onchange }, values.map(option));
  }

  showFrame() {
    this.frame = Number(this.slider.value);
    const update = this.replay.updates[this.frame];
    const [updates, losses] = this.replay.curve;
    const loss = losses[Math.max(0, updates.findLastIndex((one) => one <= update))];
    this.status.textContent = `after update ${update}${loss === undefined ? "" : `, loss ${formatNumber(loss, 3)}`}`;
    this.slider.setAttribute("aria-valuetext", this.status.textContent);
    const { rows, keys, weights } = this.frames;
    const heat = { low: 0, high: 1 };
    const panel = { rows, columns: keys, values: weights[this.frame], heat, digits: 2, down: "from \\ at" };
    this.matrix.replaceChildren(matrixTable(panel, () => {}));
    this.curve.replaceChildren(lossCurve(updates, losses, update));
  }

  play() {
    clearTimeout(this.timer);
    if (Number(this.slider.value) === Number(this.slider.max)) this.slider.value = 0;
    const tick = () => {
      if (!this.isConnected || Number(this.slider.value) >= Number(this.slider.max)) {
        announce(this.status.textContent);
        return;
      }
      this.slider.value = Number(this.slider.value) + 1;
      this.showFrame();
      this.timer = setTimeout(tick, prefersReducedMotion() ? CALM_FRAME_PAUSE : FRAME_PAUSE);
    };
    tick();
  }
}

// The loss by update, and a line at the update that is shown.
function lossCurve(updates, losses, current) {
  const [least, most] = [Math.min(...losses), Math.max(...losses)];
  const last = Math.max(...updates, 1);
  const x = (update) => (CURVE_WIDTH * update) / last;
  const y = (loss) => CURVE_HEIGHT - 8 - ((CURVE_HEIGHT - 16) * (loss - least)) / (most - least || 1);
  const points = updates.map((update, i) => `${x(update)},${y(losses[i])}`).join(" ");
  const label = `Loss from ${formatNumber(losses[0], 2)} to ${formatNumber(losses.at(-1), 2)}`;
  const cursor = { x1: x(current), x2: x(current), y1: 0, y2: CURVE_HEIGHT };
  return draw(
    "svg",
    {
      viewBox: `0 0 ${CURVE_WIDTH} ${CURVE_HEIGHT}`,
      width: "100%",
      height: CURVE_HEIGHT,
      role: "img",
      preserveAspectRatio: "none",
      "aria-label": label,
    },
    draw("polyline", { class: "curve", points }),
    draw("line", { class: "curve selected", ...cursor }),
  );
}

customElements.define("transom-training-replay", TrainingReplay);
