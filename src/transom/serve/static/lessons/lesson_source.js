// A lesson's TOML where no program runs that could check it, as on the site: to read, to download, and what to do next.

import { get } from "../api.js";
import { button, card, hint, make, row } from "../dom.js";
import { state } from "../state.js";

// Save a text as a file.
export function saveText(text, name) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/toml" })) });
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// `from` is the number of a lesson, or "new".
export async function buildSource(from) {
  const { name, text } = await get(from === "new" ? "/api/lessons/new" : `/api/lessons/${Number(from)}/source`);
  const leave = () => state.set({ edit: null, lesson: from === "new" ? null : Number(from), screen: 0 });
  const commands = `pip install transom\ntransom check ${name}\ntransom serve ${name}`;
  return card(
    make("h2", {}, from === "new" ? "Write a lesson" : "Edit this lesson"),
    make("p", {}, "Lessons are checked by Python, so they cannot be edited in this browser; the file works anywhere."),
    row(
      button(`Download ${name}`, () => saveText(text, name), { class: "main" }),
      button(from === "new" ? "All lessons" : "Back to the lesson", leave),
    ),
    hint("Then check every figure of it, and edit it on a page that follows as you type:"),
    make("pre", { class: "lesson-commands", tabindex: 0, "aria-label": "Commands" }, commands),
    make("pre", { class: "lesson-toml", tabindex: 0, "aria-label": name }, text),
  );
}
