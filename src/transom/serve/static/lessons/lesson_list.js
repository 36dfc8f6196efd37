// The lessons in order, each with its question and how far one has come.

import { button, card, hint, make, row } from "../dom.js";
import { forgetProgress, isFinished, loadProgress, summary } from "./lesson_progress.js";
import { state } from "../state.js";

export function buildList(titles, refresh) {
  const progress = loadProgress();
  const done = titles.filter(({ name }) => isFinished(progress[name])).length;
  const next = titles.find(({ name }) => !isFinished(progress[name])) ?? titles[0];
  const began = Object.values(progress).some((one) => one.screen > 0);
  const label = began ? `Go on with ${next.number}: ${next.title}` : "Begin with the first";
  const write = button("Write a lesson", () => state.set({ edit: "new", screen: 0 }));
  const forget = button("Forget my progress", () => {
    forgetProgress();
    refresh();
  });
  return card(
    make("h2", {}, "Lessons, in order"),
    hint("Each asks first, then proves what it says with numbers, and shows a case where it fails."),
    row(
      button(label, () => open(next, progress), { class: "main" }),
      write,
      began ? forget : null,
      make("span", { class: "hint" }, began ? `${done} of ${titles.length} done` : ""),
    ),
    make("ol", { class: "lesson-list" }, titles.map((title) => item(title, progress))),
  );
}

function open({ number, name }, progress) {
  const one = progress[name];
  const screen = one && !isFinished(one) ? Math.max(0, one.screen - 1) : 0;
  state.set({ lesson: number, screen, edit: null });
}

function item(title, progress) {
  const one = progress[title.name];
  const text = [
    make("span", { class: "lesson-number", "aria-hidden": true }, isFinished(one) ? "✓" : title.number),
    make("span", {}, make("strong", {}, title.title), make("span", { class: "lesson-ask-text" }, title.question)),
    make("span", { class: "hint" }, summary(one)),
  ];
  return make("li", { value: title.number }, make("button", { onclick: () => open(title, progress) }, text));
}
