// The thread of the translator: it reads the model's files once, then answers requests one after another.

import { answerRequest } from "./engine_routes.js";
import { EngineSession } from "./engine_session.js";
import { FILES, Translator } from "./translator.js";

const NAME = "the embedded translator";
const queue = []; // requests that wait
let session = null;

// A file of the model: from the cache, or from the site, and then it is kept for the next time, online or not.
async function readFile(address, cacheName, onBytes) {
  const cache = await globalThis.caches?.open(cacheName);
  const kept = await cache?.match(address);
  const response = kept ?? await fetch(address);
  if (!response.ok) throw new Error(`${address} could not be loaded (${response.status}); try again`);
  if (!kept) await cache?.put(address, response.clone()).catch(() => {}); // a full disk is no reason to stop
  const parts = [];
  for await (const part of response.body) {
    parts.push(part);
    onBytes(part.length);
  }
  return new Blob(parts).arrayBuffer();
}

// Models of earlier versions of this site are dropped.
async function dropOldModels({ prefix, cacheName }) {
  const names = await globalThis.caches?.keys() ?? [];
  const old = names.filter((name) => name.startsWith(prefix) && name !== cacheName);
  await Promise.all(old.map((name) => caches.delete(name)));
}

async function open({ folder, version, bytes }) {
  const prefix = `transom-model ${new URL(folder).pathname} `;
  const cacheName = prefix + version;
  await dropOldModels({ prefix, cacheName });
  let loaded = 0;
  const onBytes = (count) => {
    loaded += count;
    postMessage({ share: Math.min(1, loaded / bytes) });
  };
  const read = async (name) => [name, await readFile(`${folder}${name}`, cacheName, onBytes)];
  const files = Object.fromEntries(await Promise.all(FILES.map(read)));
  session = new EngineSession(new Translator(files, NAME));
  postMessage({ opened: true });
}

// One request at a time, with a pause between in which others can be taken back.
async function work() {
  while (queue.length) {
    await new Promise((done) => setTimeout(done));
    const asked = queue.shift();
    if (!asked) continue;
    const { id, method, path, body } = asked;
    const answer = answerRequest(session, method, path, body, (event) => postMessage({ id, event }));
    postMessage({ id, answer });
  }
}

addEventListener("message", ({ data }) => {
  if (data.folder) {
    open(data).catch((error) => postMessage({ failed: error.message }));
  } else if (data.cancelled) {
    const place = queue.findIndex(({ id }) => id === data.cancelled);
    if (place >= 0) queue.splice(place, 1);
  } else {
    queue.push(data);
    if (queue.length === 1) work();
  }
});
