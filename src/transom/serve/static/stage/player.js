// Play, pause, step, speed and a scrubber. Reduced motion shows end states only: then playing is stepping.

import { button, make } from "../dom.js";
import { prefersReducedMotion } from "../state.js";

const SPEEDS = [["½×", 0.5], ["1×", 1], ["2×", 2]];
const CALM_PAUSE = 1600; // milliseconds between steps with reduced motion
const PAUSE = 350; // after each step

export class Player {
  // `stage` has `level` (what is on it) and `step(by)`, which is false where there is nothing more.
  constructor(stage) {
    this.stage = stage;
    this.progress = 1;
    this.speed = 1;
    this.back = button("‹", () => this.step(-1), { type: "button", "aria-label": "One step back" });
    this.toggle = button("Play", () => this.toggleplay(), { type: "button", class: "main play" });
    this.next = button("›", () => this.step(1), { type: "button", "aria-label": "One step on" });
    const oninput = () => this.scrub(Number(this.scrubber.value) / 1000);
    this.scrubber = make("input", {
      type: "range",
      min: 0,
      max: 1000,
      value: 1000,
      "aria-label": "How far it has come",
      oninput,
    });
    const onchange = (event) => (this.speed = Number(event.target.value));
    const speeds = SPEEDS.map(([label, value]) => make("option", { value, selected: value === 1 }, label));
    const speed = make("select", { "aria-label": "Speed", onchange }, speeds);
    this.element = make(
      "div",
      { class: "transport", role: "group", "aria-label": "Play" },
      this.back,
      this.toggle,
      this.next,
      this.scrubber,
      speed,
    );
  }

  toggleplay() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  // Play what is on the stage: `once`, or step after step.
  play(once = false) {
    this.isPlaying = true;
    this.once = once;
    this.toggle.textContent = "Pause";
    if (prefersReducedMotion()) {
      this.timer = setTimeout(() => this.calmStep(), once ? 0 : CALM_PAUSE);
      return;
    }
    if (this.progress >= 1) this.show(0);
    this.clock = performance.now();
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  calmStep() {
    this.show(1);
    if (this.once || !this.stage.step(1)) this.pause();
    else this.timer = setTimeout(() => this.calmStep(), CALM_PAUSE);
  }

  pause() {
    this.isPlaying = false;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.toggle.textContent = "Play";
  }

  tick(now) {
    if (!this.isPlaying) return;
    const duration = this.stage.level?.duration || 1;
    const progress = Math.min(1, this.progress + ((now - this.clock) / duration) * this.speed);
    this.clock = now;
    this.show(progress);
    if (progress >= 1 && this.once) this.pause();
    else if (progress < 1) this.frame = requestAnimationFrame((later) => this.tick(later));
    else this.timer = setTimeout(() => this.goOn(), PAUSE / this.speed);
  }

  // One step is over: the next one, as long as there is one.
  goOn() {
    if (!this.isPlaying) return;
    if (this.once || !this.stage.step(1)) {
      this.pause();
      return;
    }
    this.show(0);
    this.clock = performance.now();
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  step(by) {
    this.pause();
    this.stage.step(by);
    this.show(1);
  }

  scrub(progress) {
    this.pause();
    this.show(progress);
  }

  show(progress) {
    this.progress = progress;
    this.scrubber.value = Math.round(1000 * progress);
    this.stage.level?.update(progress);
  }

  // Another level came: it stands at its end.
  settle(isAnimated) {
    this.pause();
    this.progress = 1;
    this.scrubber.value = 1000;
    this.element.hidden = !isAnimated;
  }
}
