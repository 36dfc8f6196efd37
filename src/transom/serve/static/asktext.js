// <transom-ask-text>: a sentence to run, and what the model writes, while it writes it.

import { stream } from "./api.js";
import { opened, runOptions } from "./opening.js";
import { attempt, open, state } from "./state.js";
import { taken } from "./taken.js";
import { make, percent, shown } from "./words.js";

const FIRST = "We are going home.", EMBEDDED = "the embedded translator";
const MOST_READ = 40, LONGEST = 400; // tokens and letters of a text that is told again

class AskText extends HTMLElement {
  connectedCallback() {
    this.off = [state.on(["studio", "opened"], () => this.show()), state.on(["row"], () => this.likely())];
  }

  disconnectedCallback() { this.off.forEach((off) => off()); this.leaving?.abort(); }

  // The model that is to run.
  get model() { return this.chosen ?? open.studio?.models[0]; }

  show() {
    if (taken) { this.copy(); return; }
    if (!this.model) { this.replaceChildren(make("p", { class: "hint" }, `Looking at ${open.studio?.name ?? "a trace"}; start transom serve without it to type sentences.`)); return; }
    if (!this.form) this.build(this.model);
    this.earlier();
    if (open.run) this.told();
    else if (!open.studio.runs.length && !open.studio.lesson && !open.studio.replay) this.run();
  }

  // Of a page that was taken away: what was read, and what came out.
  copy() {
    const read = open.run?.tokens ?? [], text = open.run?.text ?? read.slice(0, MOST_READ).map(shown).join(" "), cut = text.length > LONGEST || read.length > MOST_READ;
    const more = cut ? ` … (${read.length} tokens)` : "", said = open.run?.output ? [make("p", { class: "written" }, open.run.output)] : [];
    this.replaceChildren(make("p", { class: "hint" }, `${open.studio.name} read: ${text.slice(0, LONGEST)}${more}`), ...said);
  }

  build(model, text = FIRST) {
    const two = model.kind === "encoder_decoder", inside = model.name === EMBEDDED;
    this.text = make("textarea", { rows: 2, id: "text", maxlength: 20000, spellcheck: "false" });
    this.text.value = text;
    this.runs = make("label", { hidden: true });
    this.text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.form.requestSubmit(); } });
    this.target = two ? make("input", { id: "target", placeholder: "the model writes its own" }) : null;
    this.more = model.kind === "decoder" ? make("input", { id: "more", type: "number", min: 0, max: 256, value: 12 }) : null;
    const label = two ? "Translate and look" : this.more ? "Write on and look" : "Look";
    this.stop = make("button", { type: "button", hidden: true, onclick: () => this.leaving.abort() }, "Stop");
    this.form = make("form", { class: "card", onsubmit: (event) => { event.preventDefault(); this.run(); } },
      make("label", { for: "text" }, inside ? "Your sentence, in English for the translator inside:" : "Your text:"), this.text,
      make("div", { class: "row" }, make("button", { class: "main", type: "submit" }, label), this.stop, this.more ? make("label", { for: "more" }, "tokens to write on ", this.more) : null, this.models(model), make("span", { class: "hint" }, "Ctrl+Enter does the same"), this.runs),
      two ? make("details", {}, make("summary", {}, "Compare with a translation of your own"), make("label", { for: "target" }, "What the decoder reads: "), this.target) : null);
    this.output = make("p", { class: "written", lang: inside ? "fr" : null, "aria-live": "polite", "aria-label": "What the model wrote" });
    this.next = make("p", { class: "hint" });
    this.note = make("p", { class: "note", role: "status" });
    this.replaceChildren(this.form, this.output, this.note, this.next);
  }

  // Which model is to run; with one alone there is nothing to choose.
  models(now) {
    const { models } = open.studio;
    if (models.length < 2) return make("span", { class: "hint" }, `${now.name};`);
    const choose = (event) => { this.chosen = models[event.target.selectedIndex]; this.build(this.chosen, this.text.value); this.earlier(); this.form.querySelector("#model").focus(); };
    return make("label", {}, "Model ", make("select", { id: "model", onchange: choose }, models.map((one) => make("option", { selected: one === now }, one.name))));
  }

  // The runs so far, to go back to one.
  async earlier() {
    const options = await runOptions(open.studio.name, (one) => one.run === open.run?.run);
    this.runs.hidden = options.length < 2;
    this.runs.replaceChildren("Run ", make("select", { id: "run", onchange: (event) => state.set({ run: event.target.value }) }, options));
  }

  // Run the text; one that still runs is left.
  async run() {
    this.leaving?.abort();
    const mine = this.leaving = new AbortController();
    this.stop.hidden = false;
    this.next.textContent = "";
    this.write("");
    await attempt(async () => {
      const asked = { text: this.text.value, model: this.model.name, target: this.target?.value || null, more: Number(this.more?.value || 0) };
      const { run } = await stream("/api/writing", {}, (said) => { if (this.leaving === mine) this.write(said.text); }, mine.signal, asked);
      if (this.leaving !== mine) return; // another text was run meanwhile
      state.set({ row: null, key: null });
      opened(run);
    });
    if (this.leaving === mine) this.stop.hidden = true;
  }

  // What is written so far; what is new of it stands out.
  write(text) {
    const before = this.soFar && text.startsWith(this.soFar) ? this.soFar : "";
    this.soFar = text;
    this.output.replaceChildren(make("span", { class: "given" }, this.more ? `${this.text.value} ` : ""), before, make("span", { class: "new" }, text.slice(before.length)));
  }

  // All of it, once it has been watched.
  told() {
    if (this.of !== open.run.run && open.run.text) this.text.value = open.run.text;
    this.of = open.run.run;
    this.output.replaceChildren(make("span", { class: "given" }, this.more && open.run.output ? `${open.run.text} ` : ""), open.run.output ?? "");
    this.note.textContent = open.run.note ?? "";
    this.likely();
  }

  likely() {
    const row = state.now.row ?? (open.run?.likely.length ?? 0) - 1, words = open.run?.likely[row], reads = open.run?.targets.length ? open.run.targets : open.run?.tokens;
    if (!this.next) return;
    this.next.textContent = words ? `After “${shown(reads[row])}” the model expected: ${words.map((one) => `“${shown(one.token)}” ${percent(one.probability)}`).join(", ")}` : "";
  }
}

customElements.define("transom-ask-text", AskText);
