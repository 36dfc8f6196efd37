// <transom-lessons>: the list of lessons, a lesson screen by screen, or the editor of one.

import { get } from "../api.js";
import { button, card, make, row } from "../dom.js";
import { LessonEditor } from "./lesson_editor.js";
import { buildList } from "./lesson_list.js";
import { canCompute } from "./lesson_requests.js";
import { buildSource } from "./lesson_source.js";
import { LessonView } from "./lesson_view.js";
import { session, state, withErrors } from "../state.js";

// Their style, which other views do not need.
const style = make("link", { rel: "stylesheet", href: "lessons/lessons.css" });
const styled = new Promise((done) => ["load", "error"].forEach((kind) => style.addEventListener(kind, done)));
document.head.append(style);

class Lessons extends HTMLElement {
  connectedCallback() {
    this.stopListening = [
      state.on(["lesson", "edit"], () => this.load()),
      state.on(["screen"], () => this.follow()),
    ];
    this.load();
  }

  disconnectedCallback() {
    this.stopListening.forEach((stop) => stop());
    this.editor?.close();
  }

  load() {
    return withErrors(async () => {
      await styled;
      this.titles ??= await get("/api/lessons");
      this.editor?.close();
      this.editor = null;
      const { edit, lesson } = state.now;
      const number = lesson === undefined && session.server?.lesson ? 0 : lesson; // null is the list
      if (edit) await (canCompute ? this.showEditor(edit) : this.showSource(edit));
      else if (number === null || number === undefined) this.showList();
      else await this.showLesson(number);
    });
  }

  // Back and on in the browser, or a link, changed the screen.
  follow() {
    if (this.shown !== state.now.screen) this.view?.show();
    this.shown = state.now.screen;
  }

  showList() {
    this.view = null;
    this.replaceChildren(buildList(this.titles, () => this.showList()));
  }

  async showLesson(number) {
    const lesson = await get(`/api/lessons/${number}`);
    this.view = new LessonView(lesson, { number }, { onEnd: () => this.nextLesson(number) });
    const title = this.titles.find((one) => one.number === number);
    const place = number === 0 ? "Your lesson" : `Lesson ${number} of ${this.titles.at(-1).number}`;
    const head = row(
      button("All lessons", () => state.set({ lesson: null, screen: 0 })),
      make("span", { class: "lesson-place" }, make("strong", {}, place), ` ${title?.title ?? lesson.title}`),
      button("Edit this lesson", () => state.set({ edit: String(number), screen: 0 })),
    );
    this.replaceChildren(card(head, this.view.element));
    this.view.show();
  }

  // After the last screen: the next lesson, or the list after the last one.
  nextLesson(number) {
    const next = this.titles.find((one) => one.number === number + 1);
    if (!next) return button("All lessons", () => state.set({ lesson: null, screen: 0 }), { class: "main" });
    const open = () => state.set({ lesson: next.number, screen: 0 });
    return button(`Next lesson: ${next.title} →`, open, { class: "main" });
  }

  async showSource(from) {
    this.view = null;
    this.replaceChildren(await buildSource(from));
  }

  async showEditor(from) {
    this.editor = new LessonEditor(this.titles, from);
    this.view = { show: () => this.editor?.showPreview() };
    this.replaceChildren(this.editor.element);
    await this.editor.start();
  }
}

customElements.define("transom-lessons", Lessons);
