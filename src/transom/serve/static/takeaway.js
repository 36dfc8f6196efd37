// <transom-take-away>: what is shown as a picture, a page or a file, and a link back to it.

import { address } from "./api.js";
import { open, say, state } from "./state.js";
import { make } from "./words.js";

const PICTURES = { see: "arrows", walk: "steps", map: "matrix", heads: "heads" };
const FORMATS = { svg: "SVG", png: "PNG", pdf: "PDF", html: "page", json: "JSON" };

class TakeAway extends HTMLElement {
  connectedCallback() { this.off = state.on(["opened", "view", "attention", "head", "row"], () => this.show()); }

  disconnectedCallback() { this.off(); }

  show() {
    if (!open.run) return;
    const { run, attention, head, view } = state.now, picture = PICTURES[view];
    const links = Object.entries(FORMATS).map(([format, title]) =>
      make("a", { href: address(`/api/runs/${run}/${attention}/picture/${picture}`, { head, format }), download: `${picture}.${format}` }, title));
    this.replaceChildren(make("p", { class: "row" }, "Take away:", ...links,
      make("a", { href: `/api/runs/${run}/trace`, download: `run-${run}.safetensors` }, "the whole run"),
      make("button", { onclick: () => this.copy() }, "Copy the link")));
  }

  async copy() {
    await navigator.clipboard.writeText(location.href);
    say("the link is copied; it works as long as this server runs");
  }
}

customElements.define("transom-take-away", TakeAway);
