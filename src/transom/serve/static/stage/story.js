// Start here: four minutes, about ten scenes on the visitor's own sentence. A scene is a place on the same stage.

import { button, make } from "../dom.js";
import { state } from "../state.js";
import { describeChanges } from "./knock_outs.js";
import { scenesOf } from "./scenes.js";

export class Story {
  constructor(stage) {
    this.stage = stage;
    this.answers = new Map(); // by scene: what was tried
  }

  get scenes() {
    return scenesOf(this.stage);
  }

  get number() {
    const { scene } = state.now;
    return typeof scene === "number" && scene >= 1 && scene <= this.scenes.length ? scene : null;
  }

  get isOpen() {
    return this.number !== null;
  }

  invitation() {
    const start = button("Start here: four minutes", () => this.go(1), { type: "button", class: "main start" });
    return make("div", { class: "invitation" }, start);
  }

  // Go to a scene; a scene that needs an answer of the server waits for it where it is.
  go(number) {
    const scene = this.scenes[number - 1];
    this.stage.giveBack();
    const place = scene.place();
    state.set({ scene: number, part: null, unit: null, ...place });
    if (scene.plays) this.stage.player.play(true);
    else this.stage.player.scrub(scene.begins ?? 1);
    this.stage.reading.show();
  }

  turn(by) {
    if (!this.isOpen) return false;
    const next = this.number + by;
    if (next < 1 || next > this.scenes.length) return false;
    this.go(next);
    return true;
  }

  leave() {
    state.set({ scene: null });
  }

  content() {
    const { number, scenes } = this;
    const scene = scenes[number - 1];
    const answer = (value) => {
      this.answers.set(number, value);
      this.stage.reading.show();
    };
    const place = `Scene ${number} of ${scenes.length}`;
    const moves = make(
      "div",
      { class: "scene-moves" },
      button("‹ Back", () => this.turn(-1), { type: "button", disabled: number === 1 }),
      number < scenes.length
        ? button("Next ›", () => this.turn(1), { type: "button", class: "main" })
        : button("Explore", () => this.leave(), { type: "button", class: "main" }),
      button("Leave the story", () => this.leave(), { type: "button", class: "plain" }),
    );
    const dots = make(
      "div",
      { class: "scene-dots", "aria-hidden": "true" },
      scenes.map((_, i) => make("span", { class: i + 1 === number ? "now" : null })),
    );
    return [
      make("p", { class: "scene-place" }, place),
      moves,
      dots,
      make("h2", { class: "scene" }, scene.sentence()),
      make("p", { class: "do" }, scene.task),
      make("div", { class: "scene-try" }, scene.attempt?.(this.answers.get(number), answer) ?? []),
      this.stage.changes ? describeChanges(this.stage, this.stage.changes) : null,
    ];
  }
}
