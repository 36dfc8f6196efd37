// The page: which view is open, and what all of them share.

import { get } from "./api.js";
import { hint, make } from "./dom.js";
import { isOffline } from "./offline.js";
import { showRun } from "./open_run.js";
import { session, state, withErrors } from "./state.js";
import "./text_form.js";
import "./head_picker.js";
import "./downloads.js";
import "./glossary.js";
import "./notebook_frame.js";
import "./stage/stage_view.js";

// The views by the names that links use: the title of the tab, and the element.
const VIEWS = {
  stage: ["Model", "transom-stage"],
  see: ["Arrows", "transom-arrows"],
  walk: ["Steps", "transom-steps"],
  map: ["Map", "transom-map"],
  heads: ["Heads", "transom-heads"],
  compare: ["Compare", "transom-compare"],
  learn: ["Lessons", "transom-lessons"],
  learning: ["Training", "transom-training-replay"],
};
const WITHOUT_RUN = new Set(["learn", "learning"]);
// Views that are loaded when they are first opened.
const LOADED_LATER = {
  see: () => import("./arrows_view.js"),
  map: () => import("./map_view.js"),
  walk: () => import("./steps_view.js"),
  heads: () => import("./heads_view.js"),
  compare: () => import("./stage/compare_view.js"),
  learn: () => import("./lessons/lessons.js"),
  learning: () => import("./training_replay.js"),
};

// The tab of the stage leads out to the whole model, if one is inside it already.
function openView(view) {
  const isOut = view === "stage" && state.now.view === "stage";
  state.set({ view, ...(isOut ? { level: 1, row: null, key: null, scene: null } : {}) });
}

function buildTabs() {
  const list = document.getElementById("tabs");
  for (const [view, [title]] of Object.entries(VIEWS)) {
    const attributes = { role: "tab", id: `tab-${view}`, "aria-controls": "view", onclick: () => openView(view) };
    list.append(make("button", attributes, title));
  }
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const views = Object.keys(VIEWS);
    const view = views[(views.indexOf(state.now.view) + step + views.length) % views.length];
    state.set({ view });
    document.getElementById(`tab-${view}`).focus();
  });
}

function showView() {
  const current = state.now.view;
  if (!(current in VIEWS)) {
    state.set({ view: "stage" });
    return;
  }
  for (const view of Object.keys(VIEWS)) {
    const tab = document.getElementById(`tab-${view}`);
    tab.setAttribute("aria-selected", view === current);
    tab.tabIndex = view === current ? 0 : -1;
  }
  withErrors(LOADED_LATER[current] ?? (() => {})); // an error of another view is over
  document.body.classList.toggle("no-run", WITHOUT_RUN.has(current));
  document.body.dataset.view = current;
  const view = document.getElementById("view");
  view.setAttribute("aria-labelledby", `tab-${current}`);
  const isOpen = session.run && session.run.run === state.now.run;
  const waiting = session.run ? "Opening the run …" : "Nothing has been run yet: type a text above.";
  const ready = isOpen || WITHOUT_RUN.has(current);
  view.replaceChildren(ready ? document.createElement(VIEWS[current][1]) : hint(waiting));
}

async function openRun(number) {
  showRun(await get(`/api/runs/${number}`));
}

// Another run was chosen, or came with the address.
function followAddress() {
  if (session.run && state.now.run !== session.run.run) withErrors(() => openRun(state.now.run));
}

async function start() {
  buildTabs();
  state.on(["view", "opened"], showView);
  state.on(["run"], followAddress);
  const server = session.server = await get("/api/state");
  document.getElementById("tab-learning").hidden = !server.replay;
  for (const view of ["learn", "compare"]) document.getElementById(`tab-${view}`).hidden = isOffline;
  if (!location.hash && (server.replay || server.lesson)) state.set({ view: server.replay ? "learning" : "learn" });
  document.title = `Transom: ${server.name}`;
  state.notify("server");
  const runs = server.runs.map((run) => run.run);
  const wanted = runs.includes(state.now.run) ? state.now.run : runs.at(-1);
  if (wanted) await openRun(wanted);
  else showView();
}

withErrors(start);
