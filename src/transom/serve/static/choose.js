// <transom-choose>: which attention, and which head of it.

import { attention, open, present, say, state } from "./state.js";
import { make } from "./words.js";

const SHORT = { cross: "target at source", encoder: "inside the source", decoder: "inside the target", self: "inside the text" };
const ROLES = { cross: "from the target at the source (cross)", encoder: "inside the source (encoder)", decoder: "inside the target (masked)", self: "inside the text" };

const heads = (one) => [...Array(one.heads).keys()];

class Choose extends HTMLElement {
  connectedCallback() { this.off = state.on(["opened", "attention", "head", "view"], () => this.show()); }

  disconnectedCallback() { this.off(); }

  show() {
    if (!open.run || !["see", "walk", "map"].includes(state.now.view)) { this.replaceChildren(); return; }
    const groups = Object.groupBy(open.run.attentions, (one) => one.role);
    const select = make("select", { id: "attention", onchange: (event) => this.choose(Number(event.target.value)) },
      Object.entries(groups).map(([role, listed]) => make("optgroup", { label: ROLES[role] },
        listed.map((one, layer) => make("option", { value: one.index, selected: one.index === state.now.attention, disabled: !heads(one).some((head) => present(one.index, head)) }, `${SHORT[role]}, layer ${layer} · ${one.name}`)))));
    const there = heads(attention()).filter((head) => present(state.now.attention, head)), group = make("div", { role: "radiogroup", "aria-label": "Head", class: "row" }, there.map((head) =>
      make("button", { role: "radio", "aria-checked": head === state.now.head, tabindex: head === state.now.head ? 0 : -1, onclick: () => this.head(head) }, String(head))));
    group.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); this.head(there.at((there.indexOf(state.now.head) + step) % there.length)); this.querySelector("[role=radio][aria-checked=true]").focus(); }
    });
    this.replaceChildren(make("div", { class: "row" }, make("label", { for: "attention" }, make("dfn", { "data-word": "attention" }, "Attention")), select,
      make("dfn", { "data-word": "head" }, "Head"), group, this.telling()));
  }

  telling() {
    const found = open.run.telling;
    if (!found || found.compared < 2 || found.attention !== state.now.attention || found.head !== state.now.head) return null;
    const among = attention().role === "cross" ? " from the target at the source" : "";
    return make("span", { class: "hint" }, `Of ${found.compared} heads${among}, this one comes first: ${found.why}.`);
  }

  choose(index) {
    const there = heads(open.run.attentions[index]).filter((head) => present(index, head));
    state.set({ attention: index, head: there.findLast((head) => head <= state.now.head) ?? there[0], row: null, key: null });
  }

  head(head) { state.set({ head, key: null }); say(`head ${head}`); }
}

customElements.define("transom-choose", Choose);
