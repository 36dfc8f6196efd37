// The map of a head by what mattered: the switch above it, the prediction that is explained, and what it waits for.

import { AgreementNote } from "./agreement_note.js";
import { stream } from "./api.js";
import { BY_INFLUENCE, BySwitch } from "./by_switch.js";
import { hint, make, row as rowOf } from "./dom.js";
import { explainedText, explainedToken, signLegend } from "./explained.js";
import { session, state } from "./state.js";

const NO_PREDICTION =
  "An encoder predicts no token, so its map has weights alone; Arrows show how far the output moves.";

export class MapInfluence {
  constructor() {
    this.by = new BySwitch("What the map shows");
    const onchange = (event) => state.set({ token: Number(event.target.value) });
    this.row = make("input", {
      type: "number",
      min: 0,
      "aria-label": "The row whose next token is explained",
      onchange,
    });
    this.rowLabel = make("label", { class: "hint" }, "explain what comes after row ", this.row);
    this.about = hint();
    this.agreement = new AgreementNote();
    this.progress = make("progress", { max: 1, value: 0, hidden: true, "aria-label": "computing the whole map" });
    this.element = make("div", {}, rowOf(this.by.element, this.rowLabel), this.about, this.progress);
    this.explained = null;
  }

  // The row that is explained, where influence is wanted and there is a prediction; else null.
  get token() {
    return state.now.by === BY_INFLUENCE && !this.by.isRefused ? explainedToken() : null;
  }

  get largest() {
    return this.explained?.largest || 1;
  }

  close() {
    this.agreement.close();
  }

  // Compute the whole map, and say what it waits for; true when it is there.
  async prepare(path, fields, needsProgress, signal) {
    const { token } = this;
    this.explained = null;
    this.by.show();
    this.rowLabel.hidden = token === null;
    this.about.textContent = state.now.by === BY_INFLUENCE && token === null && !this.by.isRefused ? NO_PREDICTION : "";
    if (token === null) this.agreement.close();
    if (token === null && !needsProgress) return true;
    this.row.value = token ?? "";
    this.row.max = session.run.likely.length - 1;
    this.progress.value = 0;
    this.progress.hidden = false;
    try {
      const last = await stream(path, { ...fields, token }, (event) => this.report(event, signal), signal);
      if (!signal.aborted && token !== null) this.describe(last);
      return !signal.aborted;
    } finally {
      if (!signal.aborted) this.progress.hidden = true;
    }
  }

  report({ share, waits }, signal) {
    if (signal.aborted) return;
    if (waits) {
      this.progress.removeAttribute("value");
      this.about.textContent = `Following the prediction back: ${waits} …`;
    } else {
      this.progress.value = share;
      if (this.token !== null) this.about.textContent = "Computing the whole map …";
    }
  }

  describe(explained) {
    this.explained = explained;
    this.about.replaceChildren(
      `What mattered for ${explainedText(explained)}: how far its log-probability changes without each arrow alone, ` +
        "in nats, by first-order estimates. ",
      ...signLegend(explained),
    );
    this.agreement.show(explained.row, explained.seconds);
  }
}
