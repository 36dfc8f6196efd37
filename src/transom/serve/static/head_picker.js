// <transom-head-picker>: which attention, and which head of it.

import { attentionName, headName } from "./attention_names.js";
import { button, make, row, term } from "./dom.js";
import { suggestionFor } from "./suggestion.js";
import { announce, currentAttention, isAvailable, session, state } from "./state.js";

const ROLES = {
  cross: "cross-attention: the target reads the source",
  encoder: "encoder: the source reads itself",
  decoder: "decoder: the target reads what is written so far",
  self: "the text reads itself",
};
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

const availableHeads = (attention) =>
  [...Array(attention.heads).keys()].filter((head) => isAvailable(attention.index, head));

class HeadPicker extends HTMLElement {
  connectedCallback() {
    this.stopListening = state.on(["opened", "attention", "head", "view", "suggestion", "token"], () => this.show());
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
    this.replaceChildren(row(label, this.attentions(), term("head", "Head"), this.heads(), this.path(), this.reason()));
  }

  attentions() {
    const groups = Object.entries(Object.groupBy(session.run.attentions, (one) => one.role));
    const option = (one) => {
      const disabled = !availableHeads(one).length;
      const selected = one.index === state.now.attention;
      return make("option", { value: one.index, selected, disabled, title: one.name }, attentionName(one.index));
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

  // Where the attention is in the model, for those who look for it in its code.
  path() {
    return make("span", { class: "model-path", title: "its path in the model" }, currentAttention().name);
  }

  // The head that mattered most for the chosen token, or for the whole text: why, or an offer to go there.
  reason() {
    const found = suggestionFor(state.now.token ?? null);
    if (!found || found.compared < 2) return null;
    if (found.attention === state.now.attention && found.head === state.now.head) {
      return make(
        "span",
        { class: "hint", title: found.hint },
        `This head comes first of ${found.compared}: ${found.why}.`,
      );
    }
    const go = () => state.set({ attention: found.attention, head: found.head, key: null });
    const label = `Look at ${headName(found.attention, found.head)}: ${found.why}`;
    return button(label, go, { class: "chip", title: found.hint });
  }

  chooseAttention(index) {
    const heads = availableHeads(session.run.attentions[index]);
    const head = heads.findLast((one) => one <= state.now.head) ?? heads[0];
    state.set({ attention: index, head, key: null });
  }

  chooseHead(head) {
    state.set({ head, key: null });
    announce(`head ${head}`);
  }
}

customElements.define("transom-head-picker", HeadPicker);
