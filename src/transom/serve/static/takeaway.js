// <transom-take-away>: what is shown as a picture, a page or a file, and a link back to it.

import { address, keep } from "./api.js";
import { attempt, open, say, state } from "./state.js";
import { taken } from "./taken.js";
import { make } from "./words.js";

const PICTURES = { see: "arrows", walk: "steps", map: "matrix", heads: "heads" };
const FORMATS = { svg: "SVG", png: "PNG", pdf: "PDF", html: "HTML", json: "JSON" };

class TakeAway extends HTMLElement {
  connectedCallback() { this.off = state.on(["opened", "view", "attention", "head", "row"], () => this.show()); }

  disconnectedCallback() { this.off(); }

  show() {
    if (!open.run) return;
    if (taken) { this.replaceChildren(make("p", { class: "hint" }, `A copy to keep and to send, made by Transom ${open.studio.taken.version}: it asks no server. ${open.studio.taken.said}`)); return; }
    const { run, attention, head, view } = state.now, picture = PICTURES[view];
    const links = Object.entries(FORMATS).map(([format, title]) => link(address(`/api/runs/${run}/${attention}/picture/${picture}`, { head, format }), `${picture}.${format}`, title));
    this.replaceChildren(make("p", { class: "row" }, "Take away:", ...links, link(address(`/api/runs/${run}/page`, { attention, head }), `run-${run}.html`, "this page"), link(`/api/runs/${run}/trace`, `run-${run}.safetensors`, "the whole run"),
      make("button", { onclick: (event) => attempt(() => this.copy(event.target)) }, "Copy the link")));
  }

  async copy(button) {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy the link"; }, 2000);
    say("the link is copied; it works as long as this server runs");
  }
}

function link(href, name, title) {
  return make("a", { href, download: name, onclick: (event) => { event.preventDefault(); attempt(() => keep(href, name)); } }, title);
}

customElements.define("transom-take-away", TakeAway);
