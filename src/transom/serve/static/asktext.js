// <transom-ask-text>: a sentence to run, and what the model writes, word by word.

import { post } from "./api.js";
import { opened } from "./app.js";
import { attempt, calm, open, state } from "./state.js";
import { make, percent, shown } from "./words.js";

const FIRST = "The little girl was reading an old book.";
const PAUSE = 140; // milliseconds between two words

class AskText extends HTMLElement {
  connectedCallback() {
    this.off = [state.on(["studio", "opened"], () => this.show()), state.on(["row"], () => this.likely())];
  }

  disconnectedCallback() { this.off.forEach((off) => off()); }

  show() {
    const model = open.studio?.model;
    if (!model) { this.replaceChildren(make("p", { class: "hint" }, `Looking at ${open.studio?.name ?? "a trace"}; start transom serve without it to type sentences.`)); return; }
    if (!this.form) this.build(model);
    if (open.run) this.reveal();
    else if (!open.studio.runs.length && !open.studio.lesson && !open.studio.replay) this.run();
  }

  build(model) {
    const two = model.kind === "encoder_decoder";
    this.text = make("textarea", { rows: 2, id: "text", maxlength: 20000, spellcheck: "false" });
    this.text.value = FIRST;
    this.text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit(); });
    this.target = two ? make("input", { id: "target", size: 50, placeholder: "the model writes its own" }) : null;
    this.button = make("button", { class: "main", type: "submit" }, two ? "Translate and look" : "Look");
    this.form = make("form", { class: "card", onsubmit: (event) => { event.preventDefault(); this.run(); } },
      make("label", { for: "text" }, two ? "Your sentence, in English for the translator inside:" : "Your text:"), this.text,
      make("div", { class: "row" }, this.button, make("span", { class: "hint" }, `${model.name}; Ctrl+Enter does the same`)),
      two ? make("details", {}, make("summary", {}, "Compare with a translation of your own"), make("label", { for: "target" }, "What the decoder reads: "), this.target) : null);
    this.output = make("p", { class: "written", lang: "fr", "aria-live": "polite" });
    this.next = make("p", { class: "hint" });
    this.replaceChildren(this.form, this.output, this.next);
  }

  async run() {
    this.button.disabled = true;
    await attempt(async () => {
      const run = await post("/api/runs", { text: this.text.value, target: this.target?.value || null });
      state.set({ row: null, key: null });
      opened(run);
    });
    this.button.disabled = false;
  }

  // The words one after another, as they were written; all at once for those who want no motion.
  async reveal() {
    if (this.of === open.run.run) return;
    const mine = this.of = open.run.run;
    const kept = state.now.row;
    if (open.run.text) this.text.value = open.run.text;
    this.output.replaceChildren();
    const words = open.run.written.length ? open.run.written : [];
    for (const [row, word] of words.entries()) {
      if (this.of !== mine) return; // another run has begun
      const one = make("span", { class: "new" }, word.startsWith("<") ? "" : word);
      this.output.lastElementChild?.classList.remove("new");
      this.output.append(one);
      if (!calm() && kept === null) { state.set({ row }); await new Promise((done) => setTimeout(done, PAUSE)); }
    }
    if (this.of !== mine) return;
    this.output.lastElementChild?.classList.remove("new");
    state.set({ row: kept });
    this.likely();
  }

  likely() {
    const row = state.now.row ?? (open.run?.likely.length ?? 0) - 1, words = open.run?.likely[row];
    if (!this.next || !words) return;
    this.next.textContent = `After “${shown((open.run.targets.length ? open.run.targets : open.run.tokens)[row])}” the model expected: ${words.map((one) => `“${shown(one.token)}” ${percent(one.probability)}`).join(", ")}`;
  }
}

customElements.define("transom-ask-text", AskText);
