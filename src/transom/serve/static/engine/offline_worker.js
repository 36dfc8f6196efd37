// The site without a network: its files are kept at the first visit. The builder puts it at the root of the site and
// writes the version and the list of files in place of these two.

const VERSION = "VERSION";
const KEPT = ["FILES"];
const PREFIX = `transom-site ${new URL(registration.scope).pathname} `;
const CACHE = PREFIX + VERSION;

async function keepFiles() {
  const cache = await caches.open(CACHE);
  await cache.addAll(KEPT.map((file) => new URL(file, registration.scope).href));
}

// Other versions of this site go; other sites of the same host keep theirs.
async function dropOldFiles() {
  const names = await caches.keys();
  const old = names.filter((name) => name.startsWith(PREFIX) && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
  await clients.claim();
}

// A folder's address means its first page.
const kept = (request) => {
  const url = request.url.split("#")[0];
  return caches.match(url.endsWith("/") ? `${url}index.html` : url, { ignoreSearch: true });
};

// From what is kept, else from the network; a page of the site that was visited is kept too.
async function respond(request) {
  const found = await kept(request);
  if (found) return found;
  const response = await fetch(request);
  if (response.ok && request.mode === "navigate") (await caches.open(CACHE)).put(request, response.clone());
  return response;
}

addEventListener("install", (event) => event.waitUntil(keepFiles().then(() => skipWaiting())));
addEventListener("activate", (event) => event.waitUntil(dropOldFiles()));
addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method === "GET" && request.url.startsWith(registration.scope)) event.respondWith(respond(request));
});
