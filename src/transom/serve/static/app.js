// The page: which view is open, and what all of them share.

import { get } from "./api.js";
import { opened } from "./opening.js";
import { attempt, open, state } from "./state.js";
import { taken } from "./taken.js";
import { make } from "./words.js";
import "./asktext.js";
import "./choose.js";
import "./takeaway.js";
import "./glossary.js";
import "./see.js";
import "./walk.js";
import "./map.js";
import "./heads.js";
import "./learn.js";
import "./learning.js";

const VIEWS = {
  see: ["See", "transom-see"],
  walk: ["Walk", "transom-walk"],
  map: ["Map", "transom-map"],
  heads: ["Heads", "transom-heads"],
  learn: ["Learn", "transom-learn"],
  learning: ["Learning", "transom-learning"],
};

const ALONE = new Set(["learn", "learning"]); // views that need no run

function tabs() {
  const list = document.getElementById("tabs");
  list.append(...Object.entries(VIEWS).map(([name, [title]]) =>
    make("button", { role: "tab", id: `tab-${name}`, "aria-controls": "view", onclick: () => state.set({ view: name }) }, title)));
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = Object.keys(VIEWS), next = names[(names.indexOf(state.now.view) + step + names.length) % names.length];
    state.set({ view: next });
    document.getElementById(`tab-${next}`).focus();
  });
}

function show() {
  if (!(state.now.view in VIEWS)) { state.set({ view: "see" }); return; }
  for (const name of Object.keys(VIEWS)) {
    const tab = document.getElementById(`tab-${name}`), chosen = name === state.now.view;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
  }
  document.body.classList.toggle("alone", ALONE.has(state.now.view));
  const view = document.getElementById("view");
  view.setAttribute("aria-labelledby", `tab-${state.now.view}`);
  view.replaceChildren(open.run || ALONE.has(state.now.view) ? document.createElement(VIEWS[state.now.view][1]) : make("p", { class: "hint" }, "Nothing has been run yet: write a sentence above, and look."));
}

async function begin() {
  tabs();
  state.on(["view", "opened"], show);
  state.on(["run"], () => { if (open.run && state.now.run !== open.run.run) attempt(async () => opened(await get(`/api/runs/${state.now.run}`))); });
  open.studio = await get("/api/state");
  document.getElementById("tab-learning").hidden = !open.studio.replay;
  document.getElementById("tab-learn").hidden = taken;
  if (!location.hash && (open.studio.replay || open.studio.lesson)) state.set({ view: open.studio.replay ? "learning" : "learn" });
  document.title = `Transom: ${open.studio.name}`;
  state.dispatchEvent(new CustomEvent("change", { detail: new Set(["studio"]) }));
  const runs = open.studio.runs.map((run) => run.run);
  const wanted = runs.includes(state.now.run) ? state.now.run : runs.at(-1);
  if (wanted) opened(await get(`/api/runs/${wanted}`));
  else show();
}

attempt(begin);
