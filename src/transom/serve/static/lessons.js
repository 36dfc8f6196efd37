// <transom-lessons>: the lessons, a page at a time, with every number computed.

import { get } from "./api.js";
import { button, card, hint, make, row as rowOf } from "./dom.js";
import { matrixTable } from "./matrix_table.js";
import { announce, session, state, withErrors } from "./state.js";

class Lessons extends HTMLElement {
  connectedCallback() {
    this.stopListening = state.on(["lesson", "step"], () => this.load());
    this.load();
  }

  disconnectedCallback() {
    this.stopListening();
  }

  load() {
    return withErrors(async () => {
      this.titles ??= await get("/api/lessons");
      const number = state.now.lesson ?? (session.server.lesson ? 0 : null);
      if (number === null) {
        this.showTitles();
        return;
      }
      if (this.lesson?.number !== number) this.lesson = await get(`/api/lessons/${number}`);
      this.showPage();
    });
  }

  showTitles() {
    const item = ({ number, title }) =>
      make("li", { value: number }, button(title, () => state.set({ lesson: number, step: 0 })));
    this.replaceChildren(card(
      make("h2", {}, "Lessons, in order"),
      hint("Each proves what it says with numbers, and shows a case where it fails."),
      make("ol", {}, this.titles.map(item)),
    ));
  }

  showPage() {
    const { pages, screens } = this.lesson;
    const step = Math.min(state.now.step ?? 0, pages.length - 1);
    const page = pages[step];
    const screen = screens[step - 1];
    const asks = screen?.predict && this.answers?.[page.title] === undefined;
    const panels = asks ? [] : this.panelsOf(screen, page);
    this.replaceChildren(card(
      this.moves(step),
      make("h2", {}, page.title),
      ...lessonText(asks ? page.parts.slice(0, page.before) : page.parts),
      asks ? this.question(page, screen.predict) : null,
      this.verdict(page, screen),
      ...panels.flatMap(matrixWithArithmetic),
    ));
  }

  // The matrices of the steps that a screen shows, so that their cells can be clicked.
  panelsOf(screen, page) {
    const grids = this.lesson.steps?.panels.filter((one) => one.type === "grid") ?? [];
    const name = (one) => one.title.split(/[: ]/)[0];
    if (this.lesson.screens.length === 0) return grids.filter((one) => page.title.startsWith(one.title.split(":")[0]));
    return screen && screen.case === "" ? grids.filter((one) => screen.show.includes(name(one))) : [];
  }

  // Choices as buttons, or a field for a number; the figures come after the answer.
  question(page, predict) {
    const answer = (text) => {
      this.answers = { ...this.answers, [page.title]: text };
      this.showPage();
    };
    if (predict.choices.length) return rowOf(predict.choices.map((one) => button(one, () => answer(one))));
    const field = make("input", { type: "text", inputmode: "decimal", "aria-label": "Your answer", size: 10 });
    const send = (event) => {
      event.preventDefault();
      answer(field.value.trim());
    };
    return make("form", { onsubmit: send }, rowOf(field, make("button", { class: "main" }, "Answer")));
  }

  verdict(page, screen) {
    const text = this.answers?.[page.title];
    if (!text || !screen?.predict) return null;
    const said = isRight(text, screen.predict) ? "Right." : `Not quite: you said ${text}.`;
    return make("p", { role: "status" }, make("strong", {}, said));
  }

  moves(step) {
    const { pages, title } = this.lesson;
    const go = (by) => {
      state.set({ step: Math.max(0, Math.min(pages.length - 1, step + by)) });
      announce(pages[state.now.step].title);
    };
    return rowOf(
      button("All lessons", () => state.set({ lesson: null, step: 0 })),
      button("← Back", () => go(-1), { disabled: step === 0 }),
      button("Next →", () => go(1), { class: "main", disabled: step === pages.length - 1 }),
      make("span", { class: "hint" }, `${title} · ${step + 1} of ${pages.length}`),
    );
  }
}

// A choice is right if it is the one; a number, to the digits that are asked for.
function isRight(text, { choices, right, digits }) {
  if (choices.length) return text === right;
  return Math.abs(Number(text.replace(",", ".")) - Number(right)) <= 0.5 * 10 ** -digits + 1e-9;
}

// A matrix, and the arithmetic of the cell that is chosen.
function matrixWithArithmetic(panel) {
  const arithmetic = make("p", { class: "arithmetic", "aria-live": "polite" });
  const table = matrixTable(panel, (i, j) => (arithmetic.textContent = panel.opens?.[i]?.[j] ?? ""));
  return [make("div", { class: "scroll" }, table), arithmetic];
}

// Prose as paragraphs, in the page's own type; figures line by line, so that columns stay columns.
function lessonText(parts) {
  const blocks = [];
  for (const { text, prose } of parts) {
    if (!prose && !text) continue;
    if (!prose && blocks.at(-1)?.prose === false) blocks.at(-1).lines.push(text);
    else blocks.push({ prose, lines: [text] });
  }
  return blocks.map((block) => make(block.prose ? "p" : "pre", { class: "lesson-text" }, block.lines.join("\n")));
}

customElements.define("transom-lessons", Lessons);
