// <transom-learn>: the lessons, a page at a time, every number worked out.

import { get } from "./api.js";
import { grid } from "./grid.js";
import { attempt, open, say, state } from "./state.js";
import { make } from "./words.js";

class Learn extends HTMLElement {
  connectedCallback() {
    this.off = state.on(["lesson", "step"], () => this.load());
    this.load();
  }

  disconnectedCallback() { this.off(); }

  async load() {
    await attempt(async () => {
      this.listed ??= await get("/api/lessons");
      const number = state.now.lesson ?? (open.studio.lesson ? 0 : null);
      if (number === null) this.list();
      else {
        if (this.lesson?.number !== number) this.lesson = await get(`/api/lessons/${number}`);
        this.show();
      }
    });
  }

  list() {
    this.replaceChildren(make("div", { class: "card" }, make("h2", {}, "Lessons, in order"), make("p", { class: "hint" }, "Each proves what it says with numbers, and shows a case where it fails."),
      make("ol", {}, this.listed.map((one) => make("li", { value: one.number }, make("button", { onclick: () => state.set({ lesson: one.number, step: 0 }) }, one.title))))));
  }

  show() {
    const { pages, title, steps } = this.lesson, step = Math.min(state.now.step ?? 0, pages.length - 1), page = pages[step];
    const panel = steps?.panels.find((one) => one.type === "grid" && page.title.startsWith(one.title.split(":")[0]));
    const sum = make("p", { class: "sum", "aria-live": "polite" });
    const move = (by) => { state.set({ step: Math.max(0, Math.min(pages.length - 1, step + by)) }); say(pages[state.now.step].title); };
    this.replaceChildren(make("div", { class: "card" },
      make("div", { class: "row" }, make("button", { onclick: () => state.set({ lesson: null, step: 0 }) }, "All lessons"), make("button", { disabled: step === 0, onclick: () => move(-1) }, "← Back"),
        make("button", { class: "main", disabled: step === pages.length - 1, onclick: () => move(1) }, "Next →"), make("span", { class: "hint" }, `${title} · ${step + 1} of ${pages.length}`)),
      make("h2", {}, page.title), panel?.equation ? make("p", { class: "sum" }, panel.equation) : null, ...told(page.parts.filter((part) => !panel || part.prose)),
      panel ? make("div", { class: "scroll" }, grid(panel, (i, j) => { sum.textContent = panel.opens?.[i]?.[j] ?? ""; })) : null, panel ? sum : null));
  }
}

// Prose as paragraphs, in the page's own type; figures line by line, so that columns stay columns.
function told(parts) {
  const blocks = [];
  for (const { text, prose } of parts) {
    if (!prose && !text) continue;
    if (!prose && blocks.at(-1)?.prose === false) blocks.at(-1).lines.push(text);
    else blocks.push({ prose, lines: [text] });
  }
  return blocks.map((block) => make(block.prose ? "p" : "pre", { class: "told" }, block.lines.join("\n")));
}

customElements.define("transom-learn", Learn);
