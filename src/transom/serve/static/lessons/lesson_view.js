// A lesson with its screens: back and on, the answers that were given, and the way to the next lesson.

import { button, make, row } from "../dom.js";
import { countAnswer, reachScreen } from "./lesson_progress.js";
import { canCompute } from "./lesson_requests.js";
import { buildScreen } from "./lesson_screen.js";
import { state } from "../state.js";

// `source` is what the server needs to find the lesson: its number, or its text in the editor.
export class LessonView {
  constructor(lesson, source, { onEnd = null, keeps = true } = {}) {
    this.element = make("div", { class: "lesson" });
    this.verdicts = new Map();
    Object.assign(this, { lesson, source, onEnd, keeps });
  }

  get number() {
    return Math.min(Math.max(0, state.now.screen ?? 0), this.lesson.screens.length - 1);
  }

  show(focus = false) {
    const { screens, question } = this.lesson;
    const number = this.number;
    if (this.keeps) reachScreen(this.lesson.name, number + 1, screens.length);
    const screen = buildScreen(screens[number], {
      number,
      question,
      request: !canCompute || !this.source ? null : { ...this.source, screen: number },
      verdict: this.verdicts.get(screens[number].title),
      onAnswer: (verdict) => this.answer(screens[number].title, verdict),
    });
    this.element.replaceChildren(this.progressBar(number), screen, this.moves(number));
    if (focus) this.element.querySelector("h2").focus({ preventScroll: true });
    if (focus) this.element.scrollIntoView({ block: "nearest" });
  }

  answer(title, verdict) {
    this.verdicts.set(title, verdict);
    if (verdict && this.keeps) countAnswer(this.lesson.name, verdict.right);
    this.show(true);
  }

  go(number) {
    state.set({ screen: number });
    this.show(true);
  }

  // A button for each screen, so that one can go anywhere; the titles are their names.
  progressBar(number) {
    const item = (screen, i) => {
      const attributes = {
        class: i < number ? "past" : "",
        title: screen.title,
        "aria-label": `${i + 1}: ${screen.title}`,
      };
      return make(
        "li",
        {},
        button("", () => this.go(i), { ...attributes, ...(i === number ? { "aria-current": "step" } : {}) }),
      );
    };
    return make(
      "nav",
      { "aria-label": "Screens of this lesson" },
      make("ol", { class: "lesson-dots" }, this.lesson.screens.map(item)),
    );
  }

  moves(number) {
    const last = this.lesson.screens.length - 1;
    const back = button("← Back", () => this.go(number - 1), { disabled: number === 0 });
    const place = make("span", { class: "hint" }, `${number + 1} of ${last + 1}`);
    if (number < last) return row(back, button("Next →", () => this.go(number + 1), { class: "main" }), place);
    return row(back, this.onEnd?.() ?? null, place);
  }
}
