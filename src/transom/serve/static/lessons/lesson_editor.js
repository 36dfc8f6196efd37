// A lesson's TOML, and beside it the page that it makes: both follow as one types.

import { get, post } from "../api.js";
import { button, card, hint, make, row } from "../dom.js";
import { buildFindings, overlayLines } from "./lesson_findings.js";
import { saveText } from "./lesson_source.js";
import { loadDraft, saveDraft } from "./lesson_progress.js";
import { LessonView } from "./lesson_view.js";
import { state, withErrors } from "../state.js";

const PAUSE = 400; // milliseconds after the last key
const LONGEST = 100_000; // characters, as the server has it

export class LessonEditor {
  constructor(titles, from) {
    this.from = from;
    this.draft = null;
    this.text = make("textarea", {
      id: "lesson-toml",
      spellcheck: "false",
      wrap: "off",
      maxlength: LONGEST,
      "aria-describedby": "lesson-summary",
      oninput: () => this.typed(),
      onscroll: () => this.scrollOverlay(),
    });
    this.overlay = make("pre", { class: "editor-overlay", "aria-hidden": true });
    this.gutter = make("pre", { class: "editor-lines", "aria-hidden": true });
    this.summary = make("p", { id: "lesson-summary", class: "hint", role: "status" });
    this.findings = make("div");
    this.preview = make("div");
    this.element = this.build(titles);
  }

  build(titles) {
    const option = (value, label) => make("option", { value, selected: value === this.from }, label);
    const options = [
      option("new", "an empty lesson"),
      ...titles.map((one) => option(String(one.number), `${one.number}: ${one.title}`)),
    ];
    const picker = make("select", { id: "lesson-from", onchange: () => this.startFrom(picker.value) }, options);
    const tools = row(
      button("All lessons", () => state.set({ edit: null, lesson: null, screen: 0 })),
      make("label", {}, "Start from ", picker),
      button("Download", () => this.download()),
    );
    const box = make(
      "div",
      { class: "editor" },
      this.gutter,
      make("div", { class: "editor-text" }, this.overlay, this.text),
    );
    const label = make("label", { for: "lesson-toml", class: "visually-hidden" }, "The lesson as TOML");
    const left = make("div", { class: "editor-side" }, label, box, this.summary, this.findings);
    const right = make("div", { class: "editor-side" }, this.preview);
    const about = hint("The page follows as you type. Every figure in a [[claim]] is checked, as transom check does.");
    return card(make("h2", {}, "Write a lesson"), about, tools, make("div", { class: "editor-both" }, left, right));
  }

  // The draft goes on if it was begun from the same lesson; what a person wrote is never replaced unasked.
  async start() {
    const draft = loadDraft();
    if (draft && draft.from === this.from) return this.open(draft);
    await this.startFrom(this.from);
  }

  startFrom(from) {
    return withErrors(async () => {
      const path = from === "new" ? "/api/lessons/new" : `/api/lessons/${Number(from)}/source`;
      const { name, text } = await get(path);
      this.from = from;
      if (state.now.edit !== from) history.replaceState(null, "", location.hash.replace(/edit=\w+/, `edit=${from}`));
      this.open({ name, from, text });
    });
  }

  open(draft) {
    this.draft = draft;
    this.text.value = draft.text;
    this.showLines([]);
    return this.check();
  }

  typed() {
    this.draft = { ...this.draft, text: this.text.value };
    saveDraft(this.draft);
    this.showLines(this.found ?? []);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), PAUSE);
  }

  check() {
    this.asked = (this.asked ?? 0) + 1;
    const [asked, text] = [this.asked, this.text.value];
    this.summary.textContent = "checking …";
    return withErrors(async () => {
      const report = await post("/api/lessons/check", { text });
      if (asked !== this.asked) return; // a later text is on its way
      this.found = report.findings;
      this.summary.textContent = [report.summary, ...report.notes].join("; ");
      this.showLines(report.findings);
      this.findings.replaceChildren(buildFindings(report.findings, (line) => this.goTo(line)));
      if (!report.lesson) return;
      const verdicts = this.view?.verdicts;
      this.view = new LessonView(report.lesson, { text }, { keeps: false });
      this.view.verdicts = verdicts ?? this.view.verdicts;
      this.preview.replaceChildren(this.view.element);
      this.view.show();
    });
  }

  showPreview() {
    this.view?.show();
  }

  showLines(findings) {
    const lines = this.text.value.split("\n");
    this.gutter.textContent = lines.map((_, i) => i + 1).join("\n");
    this.overlay.replaceChildren(...overlayLines(lines, findings));
    this.scrollOverlay();
  }

  scrollOverlay() {
    this.overlay.scrollTop = this.gutter.scrollTop = this.text.scrollTop;
    this.overlay.scrollLeft = this.text.scrollLeft;
  }

  goTo(line) {
    const lines = this.text.value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.text.focus();
    this.text.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
    this.text.scrollTop = Math.max(0, (line - 4) * (this.text.scrollHeight / lines.length));
  }

  download() {
    saveText(this.text.value, this.draft?.name ?? "lesson.toml");
  }

  close() {
    clearTimeout(this.timer);
    this.asked = Infinity;
  }
}
