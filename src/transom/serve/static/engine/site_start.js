// The page of the site: no server, but the translator in this browser, and lessons that are files of the site.

import { useTransport } from "../api.js";
import { EngineTransport } from "./engine_transport.js";

// What the site's builder wrote into the page: the model's folder and size, and the version of the site.
const { version, bytes } = document.documentElement.dataset;
const LESSONS = /^\/api\/(glossary|lessons)(\/|$)/; // answers that are the same for everyone

const note = document.createElement("p");
note.className = "hint";
note.setAttribute("role", "status");

function showShare(share) {
  const megabytes = (Number(bytes) / 1e6).toFixed(1);
  const loaded = Math.round(100 * share);
  note.textContent =
    `Loading the translator into this browser: ${loaded} % of ${megabytes} MB. It is kept for next time.`;
}

// A lesson or the words, as a file of the site; what must be computed is not offered here.
async function fileResponse(path) {
  const response = await fetch(`answers${path}.json`);
  if (response.ok) return response;
  return Response.json({ error: "this is not part of the site; use transom serve" }, { status: 404 });
}

async function start() {
  document.querySelector("main").prepend(note);
  showShare(0);
  const engine = new EngineTransport({ folder: "model/", version, bytes: Number(bytes) }, showShare);
  engine.opened.then(() => note.remove(), (error) => (note.textContent = error.message));
  useTransport((path, options) => {
    return LESSONS.test(path) ? fileResponse(path.split("?")[0]) : engine.request(path, options);
  });
  if ("serviceWorker" in navigator) navigator.serviceWorker.register("../offline_worker.js").catch(() => {});
  await import("../app.js");
}

start();
