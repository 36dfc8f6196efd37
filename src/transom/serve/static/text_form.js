// <transom-text-form>: a text to run, and what the model generates, while it does.

import { stream } from "./api.js";
import { shapeOf } from "./attention_names.js";
import { hint, make, row as rowOf } from "./dom.js";
import { isOffline } from "./offline.js";
import { NO_PLACE, runOptions, showRun } from "./open_run.js";
import { likeliestNote, nextOf, predictionTitle, quote } from "./prediction_text.js";
import { chosenToken } from "./stage/place.js";
import { session, state, withErrors } from "./state.js";
import { displayToken, formatPercent } from "./token_text.js";

const FIRST_TEXT = "We are going home.";
const EMBEDDED = "the embedded translator";
const MOST_TOKENS = 40; // of a text that an offline copy repeats
const MOST_LETTERS = 400;

class TextForm extends HTMLElement {
  connectedCallback() {
    const stopShowing = state.on(["server", "opened"], () => this.show());
    const stopPredicting = state.on(["token"], () => this.showPrediction());
    this.stopListening = () => [stopShowing, stopPredicting].forEach((stop) => stop());
  }

  disconnectedCallback() {
    this.stopListening();
    this.running?.abort();
  }

  // The model that is to run.
  get model() {
    return this.chosenModel ?? session.server?.models[0];
  }

  show() {
    if (isOffline) return this.showOffline();
    if (!this.model) return this.showTraceHint();
    if (!this.form) this.build(this.model);
    this.showEarlierRuns();
    const { runs, lesson, replay } = session.server;
    if (session.run) this.showOutput();
    else if (!runs.length && !lesson && !replay) this.run();
  }

  showTraceHint() {
    const name = session.server?.name ?? "a trace";
    this.replaceChildren(hint(`Looking at ${name}; start transom serve without it to type a text.`));
  }

  // What was read, and what came out.
  showOffline() {
    const tokens = session.run?.tokens ?? [];
    const text = session.run?.text ?? tokens.slice(0, MOST_TOKENS).map(displayToken).join(" ");
    const isCut = text.length > MOST_LETTERS || tokens.length > MOST_TOKENS;
    const more = isCut ? ` … (${tokens.length} tokens)` : "";
    const output = session.run?.output ? [make("p", { class: "output" }, session.run.output)] : [];
    this.replaceChildren(hint(`${session.server.name} read: ${text.slice(0, MOST_LETTERS)}${more}`), ...output);
  }

  build(model, text = FIRST_TEXT) {
    const isEmbedded = model.name === EMBEDDED;
    this.buildFields(model, text);
    const label = isEmbedded ? "Your sentence, in English" : "Your text";
    const onsubmit = (event) => {
      event.preventDefault();
      this.run();
    };
    this.form = make(
      "form",
      { class: "text-bar", onsubmit },
      make("div", { class: "typed" }, make("label", { for: "text" }, label), this.text),
      this.buttons(model),
      this.target ? this.targetDetails() : null,
    );
    const lang = isEmbedded ? "fr" : null;
    this.output = make("output", { class: "output", lang, for: "text", "aria-label": "What the model wrote" });
    this.prediction = hint();
    this.note = make("p", { class: "note", role: "status" });
    this.replaceChildren(this.form, this.output, this.note, this.prediction);
  }

  buildFields(model, text) {
    const onkeydown = (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.form.requestSubmit();
    };
    this.text = make("textarea", { rows: 1, id: "text", maxlength: 20000, spellcheck: "false", onkeydown });
    this.text.value = text;
    this.settledText ??= text;
    const isPair = model.kind === "encoder_decoder";
    this.target = isPair ? make("input", { id: "target", placeholder: "the model writes its own" }) : null;
    const continues = model.kind === "decoder";
    this.more = continues ? make("input", { id: "more", type: "number", min: 0, max: 256, value: 12 }) : null;
  }

  buttons(model) {
    const label = this.target ? "Translate" : this.more ? "Continue" : "Look";
    this.stop = make("button", { type: "button", hidden: true, onclick: () => this.running.abort() }, "Stop");
    this.earlierRuns = make("label", { hidden: true });
    return rowOf(
      make("button", { class: "main", type: "submit" }, label),
      this.stop,
      this.more ? make("label", { for: "more" }, "tokens to write ", this.more) : null,
      this.modelPicker(model),
      this.earlierRuns,
    );
  }

  targetDetails() {
    const summary = make("summary", {}, "Compare with a translation of your own");
    return make("details", {}, summary, make("label", { for: "target" }, "What the decoder reads: "), this.target);
  }

  // Which model is to run; with one alone there is nothing to choose.
  modelPicker(current) {
    const { models } = session.server;
    if (models.length < 2) return make("span", { class: "hint" }, current.name);
    const onchange = (event) => {
      this.chosenModel = models[event.target.selectedIndex];
      this.build(this.chosenModel, this.text.value);
      this.showEarlierRuns();
      this.form.querySelector("#model").focus();
    };
    const options = models.map((one) => make("option", { selected: one === current }, one.name));
    return make("label", {}, "Model ", make("select", { id: "model", onchange }, options));
  }

  async showEarlierRuns() {
    const options = await runOptions(session.server.name, (one) => one.run === session.run?.run);
    this.earlierRuns.hidden = options.length < 2;
    const onchange = (event) => state.set({ run: event.target.value, ...NO_PLACE });
    this.earlierRuns.replaceChildren("Run ", make("select", { id: "run", onchange }, options));
  }

  // Run the text; a run that is still under way is aborted.
  async run() {
    this.running?.abort();
    const running = this.running = new AbortController();
    this.stop.hidden = false;
    this.prediction.textContent = "";
    this.showProgress("");
    await withErrors(async () => {
      const onEvent = (event) => {
        if (this.running === running) this.showProgress(event.text);
      };
      const { run } = await stream("/api/writing", {}, onEvent, running.signal, this.fields());
      if (this.running !== running) return; // another text was run meanwhile
      showRun(run);
    });
    if (this.running === running) this.stop.hidden = true;
  }

  fields() {
    const target = this.target?.value || null;
    this.settledText = this.text.value;
    return { text: this.text.value, model: this.model.name, target, more: Number(this.more?.value || 0) };
  }

  // What is generated so far; what is new of it stands out.
  showProgress(text) {
    const before = this.soFar && text.startsWith(this.soFar) ? this.soFar : "";
    this.soFar = text;
    const prompt = make("span", { class: "prompt" }, this.more ? this.text.value : "");
    this.output.replaceChildren(prompt, before, make("span", { class: "new" }, text.slice(before.length)));
  }

  showOutput() {
    const { run, text, output, note } = session.run;
    const isTyping = this.text.value !== this.settledText; // a text of the visitor's that has not run yet stays
    if (this.shownRun !== run && text && !isTyping) this.text.value = this.settledText = text;
    this.shownRun = run;
    this.output.replaceChildren(make("span", { class: "prompt" }, this.more && output ? text : ""), output ?? "");
    this.note.textContent = note ?? "";
    this.showPrediction();
  }

  // What the model expected after the chosen token, the same one as in all views.
  showPrediction() {
    if (!this.prediction || !session.run) return;
    const { likely, targets, tokens } = session.run;
    const row = chosenToken(session.run, shapeOf(session.run), state.now.token);
    const next = nextOf(session.run, row);
    if (!next) {
      this.prediction.textContent = "";
      return;
    }
    const others = likely[row].filter((one) => one.token !== next.token);
    const listed = others.map((one) => `${quote(one.token)} ${formatPercent(one.probability)}`);
    const rest = formatPercent(Math.max(0, 1 - likely[row].reduce((sum, one) => sum + one.probability, 0)));
    const title = predictionTitle((targets.length ? targets : tokens)[row], next);
    this.prediction.textContent = `${title}; also ${listed.join(", ")}, all others ${rest}. ${
      likeliestNote(next) ?? ""
    }`;
  }
}

customElements.define("transom-text-form", TextForm);
