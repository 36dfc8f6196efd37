// <transom-head-picker>: which attention, and which head of it.

import { button, make, row, term } from "./dom.js";
import { announce, currentAttention, isAvailable, session, state } from "./state.js";

const SHORT_ROLES = {
  cross: "target at source",
  encoder: "inside the source",
  decoder: "inside the target",
  self: "inside the text",
};
const ROLES = {
  cross: "from the target at the source (cross)",
  encoder: "inside the source (encoder)",
  decoder: "inside the target (masked)",
  self: "inside the text",
};
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

const availableHeads = (attention) =>
  [...Array(attention.heads).keys()].filter((head) => isAvailable(attention.index, head));

class HeadPicker extends HTMLElement {
  connectedCallback() {
    this.stopListening = state.on(["opened", "attention", "head", "view", "suggestion"], () => this.show());
  }

  disconnectedCallback() {
    this.stopListening();
  }

  show() {
    if (!session.run || !["see", "walk", "map"].includes(state.now.view)) {
      this.replaceChildren();
      return;
    }
    const label = make("label", { for: "attention" }, term("attention", "Attention"));
    this.replaceChildren(row(label, this.attentions(), term("head", "Head"), this.heads(), this.reason()));
  }

  attentions() {
    const groups = Object.entries(Object.groupBy(session.run.attentions, (one) => one.role));
    const option = (one, layer) => {
      const disabled = !availableHeads(one).length;
      const selected = one.index === state.now.attention;
      const name = `${SHORT_ROLES[one.role]}, layer ${layer} · ${one.name}`;
      return make("option", { value: one.index, selected, disabled }, name);
    };
    return make(
      "select",
      { id: "attention", onchange: (event) => this.chooseAttention(Number(event.target.value)) },
      groups.map(([role, attentions]) => make("optgroup", { label: ROLES[role] }, attentions.map(option))),
    );
  }

  heads() {
    const heads = availableHeads(currentAttention());
    const radio = (head) => {
      const checked = head === state.now.head;
      const attributes = { role: "radio", "aria-checked": checked, tabindex: checked ? 0 : -1 };
      return button(String(head), () => this.chooseHead(head), attributes);
    };
    const onkeydown = (event) => {
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      this.chooseHead(heads.at((heads.indexOf(state.now.head) + step) % heads.length));
      this.querySelector("[role=radio][aria-checked=true]").focus();
    };
    return make("div", { role: "radiogroup", "aria-label": "Head", class: "row", onkeydown }, heads.map(radio));
  }

  // The head that the server ranks first: why, or an offer to go there.
  reason() {
    const found = session.run.suggestion;
    if (!found || found.compared < 2) return null;
    const { name, role } = session.run.attentions[found.attention];
    const among = role === "cross" ? " from the target at the source" : "";
    if (found.attention === state.now.attention && found.head === state.now.head) {
      return make("span", { class: "hint" }, `Of ${found.compared} heads${among}, this one comes first: ${found.why}.`);
    }
    const go = () => state.set({ attention: found.attention, head: found.head, key: null });
    return button(`Look at ${name}, head ${found.head}: ${found.why}`, go, { class: "chip" });
  }

  chooseAttention(index) {
    const heads = availableHeads(session.run.attentions[index]);
    const head = heads.findLast((one) => one <= state.now.head) ?? heads[0];
    state.set({ attention: index, head, row: null, key: null });
  }

  chooseHead(head) {
    state.set({ head, key: null });
    announce(`head ${head}`);
  }
}

customElements.define("transom-head-picker", HeadPicker);
