// Play, pause, step back and on through pictures or the beats of an animation.

import { button, make, row } from "../dom.js";
import { announce, prefersReducedMotion } from "../state.js";

const CALM_PAUSE = 3000; // milliseconds, where motion is not wanted: pictures change, nothing moves

class Player {
  constructor(beats) {
    this.beats = beats;
    this.timer = null;
    const oninput = () => {
      this.stop();
      this.go(this.place, false);
    };
    const attributes = { type: "range", min: 0, max: beats.count - 1, value: 0, oninput };
    this.slider = make("input", { ...attributes, "aria-label": "Place in the animation" });
    this.status = make("span", { class: "hint" });
    this.playButton = button("Play", () => this.toggle(), { class: "main" });
    const back = button("← Step", () => this.step(-1));
    this.element = row(back, this.playButton, button("Step →", () => this.step(1)), this.slider, this.status);
    this.go(0, false);
  }

  get place() {
    return Number(this.slider.value);
  }

  go(index, moves) {
    const { count, show, name } = this.beats;
    this.slider.value = Math.min(count - 1, Math.max(0, index));
    show(this.place, moves && !prefersReducedMotion());
    this.status.textContent = `${this.place + 1} of ${count}`;
    this.slider.setAttribute("aria-valuetext", name(this.place));
  }

  step(by) {
    this.stop();
    this.go(this.place + by, by > 0);
    announce(this.beats.name(this.place));
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.playButton.textContent = "Play";
  }

  toggle() {
    if (this.timer !== null) {
      this.stop();
      return;
    }
    this.playButton.textContent = "Pause";
    this.go(this.place >= this.beats.count - 1 ? 0 : this.place, true);
    this.wait();
  }

  wait() {
    this.timer = setTimeout(() => this.tick(), prefersReducedMotion() ? CALM_PAUSE : this.beats.pause);
  }

  tick() {
    if (!this.slider.isConnected || this.place >= this.beats.count - 1) {
      this.stop();
      return;
    }
    this.go(this.place + 1, true);
    this.wait();
  }
}

// `show(index, moves)` draws one of `count` beats, with motion if `moves`; `name(index)` says what it is; each takes
// `pause` milliseconds.
export const buildPlayer = (beats) => new Player(beats).element;

// Several pictures, one at a time.
export function buildFrames(pictures, pause = 1500) {
  const stage = make("div", { class: "lesson-picture" }, pictures[0]);
  const name = (index) => pictures[index].getAttribute("aria-label") ?? `picture ${index + 1}`;
  const show = (index) => stage.replaceChildren(pictures[index]);
  return make("div", {}, stage, buildPlayer({ count: pictures.length, show, name, pause }));
}
