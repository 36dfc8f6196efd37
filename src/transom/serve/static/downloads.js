// <transom-downloads>: what is shown as a picture, a page or a file, and a link back to it.

import { address, download } from "./api.js";
import { button, hint, make } from "./dom.js";
import { isOffline } from "./offline.js";
import { announce, chosenRow, session, state, withErrors } from "./state.js";

const PICTURES = { see: "arrows", walk: "steps", map: "matrix", heads: "heads" };
const FORMATS = { svg: "SVG", png: "PNG", pdf: "PDF", html: "HTML", json: "JSON" };
const COPY = "Copy the link";

class Downloads extends HTMLElement {
  connectedCallback() {
    this.stopListening = state.on(["opened", "view", "attention", "head", "row", "key", "token"], () => this.show());
  }

  disconnectedCallback() {
    this.stopListening();
  }

  show() {
    if (!session.run) return;
    if (isOffline) this.showOffline();
    else {this.replaceChildren(
        make("p", { class: "row" }, "Download:", this.pictures(), this.files(), this.copyButton()),
      );}
  }

  showOffline() {
    const { version, said } = session.server.taken;
    this.replaceChildren(hint(`An offline copy, made by Transom ${version}: it needs no server. ${said}`));
  }

  pictures() {
    const { run, attention, head, view } = state.now;
    const picture = PICTURES[view];
    if (!picture) return []; // of the whole model and of two runs there is none
    const path = `/api/runs/${run}/${attention}/picture/${picture}`;
    const choice = view === "see" ? { token: chosenRow(), key: state.now.key } : {};
    const known = session.server.formats; // without Python only some
    const offered = Object.entries(FORMATS).filter(([format]) => !known || known[picture]?.includes(format));
    return offered.map(([format, title]) =>
      link(address(path, { head, format, ...choice }), `${picture}.${format}`, title)
    );
  }

  files() {
    if (session.server.formats) return [];
    const { run, attention, head } = state.now;
    const page = address(`/api/runs/${run}/page`, { attention, head });
    return [
      link(page, `run-${run}.html`, "this page"),
      link(`/api/runs/${run}/trace`, `run-${run}.safetensors`, "the whole run"),
    ];
  }

  copyButton() {
    return button(COPY, (event) => withErrors(() => this.copyLink(event.target)));
  }

  async copyLink(pressed) {
    await navigator.clipboard.writeText(location.href);
    pressed.textContent = "Copied";
    setTimeout(() => (pressed.textContent = COPY), 2000);
    announce("the link is copied; it works as long as this server runs");
  }
}

function link(href, name, title) {
  const onclick = (event) => {
    event.preventDefault();
    withErrors(() => download(href, name));
  };
  return make("a", { href, download: name, onclick }, title);
}

customElements.define("transom-downloads", Downloads);
