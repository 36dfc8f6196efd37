// What is read or what mattered: one choice for all views, held in the address as `by`.

import { get } from "./api.js";
import { button, make } from "./dom.js";
import { isOffline } from "./offline.js";
import { session, state } from "./state.js";

const BY = [["weight", "what is read"], ["influence", "what mattered"]];
export const BY_INFLUENCE = "influence";
const SIZES = {
  nats: "how far the predictions move, over all tokens together, in nats (KL)",
  share: "how far the output vectors move, as a share of their length",
};

// The two buttons; `changes` says what else a choice sets, and `why` why there is nothing but weights.
export function byButtons(now, { why = "", changes = () => ({}) } = {}) {
  return BY.map(([by, title]) => {
    const disabled = Boolean(why) && by === BY_INFLUENCE;
    const attributes = { type: "button", "aria-pressed": now === by, disabled, title: disabled ? why : null };
    return button(title, () => state.set({ by, ...changes(by) }), attributes);
  });
}

export const unitText = (unit) => (unit === "nats" ? "nats" : "shares of its length");
export const sizeText = (unit) => SIZES[unit] ?? SIZES.share;

// A number with two digits that count: influences of one head differ by orders of magnitude.
export function formatEstimate(value) {
  if (value === 0) return "0";
  return value < 1e-4 ? value.toExponential(0) : String(Number(value.toPrecision(2)));
}

// Why the influence of this run cannot be asked for; empty where it can.
function whyAbsent() {
  if (isOffline) return "an offline copy holds weights only: what mattered needs the model";
  return session.run?.model ? "" : "this run is a trace without its model: what mattered needs the model";
}

// Above a view: the switch, with the reason where the run has weights alone.
export class BySwitch {
  constructor(label, changes) {
    this.changes = changes;
    this.group = make("div", { class: "by-switch", role: "group", "aria-label": label });
    this.reason = make("span", { class: "hint" });
    this.element = make("div", { class: "row" }, this.group, this.reason);
    this.show();
  }

  // `refusal` is what the server said when it was asked.
  show(refusal = "") {
    const why = whyAbsent() || refusal;
    const now = why ? "weight" : state.now.by ?? "weight";
    const focused = [...this.group.children].indexOf(document.activeElement);
    this.group.replaceChildren(...byButtons(now, { why, changes: this.changes }));
    this.group.children[focused]?.focus();
    this.reason.textContent = why;
  }

  // Whether there are weights alone.
  get isRefused() {
    return Boolean(whyAbsent());
  }

  // What the server answers where influence is wanted and can be had, else null.
  async ask(path, fields) {
    if (state.now.by !== BY_INFLUENCE || whyAbsent()) return null;
    try {
      return await get(path, fields);
    } catch (error) {
      this.show(error.message);
      return null;
    }
  }
}
