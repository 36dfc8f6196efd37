// Requests to the server, or to the page itself where it is an offline copy: JSON, tiles, events and files.

import { isOffline, offlineResponse } from "./offline.js";

const MOST_TRIES = 20; // of a server that says it is busy
const JSON_BODY = { "Content-Type": "application/json" };

let request = isOffline ? offlineResponse : fetchFromServer;

// Without a connection a browser says only "Failed to fetch".
async function fetchFromServer(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer; is transom serve still running?");
  }
}

// Let something else than a server answer: `transport(path, options)` gives a Response, as `fetch` does.
export function useTransport(transport) {
  request = transport;
}

// A response that is not an error; the message of an error is one line.
async function requireOk(response) {
  if (response.ok) return response;
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  const message = isJson ? (await response.json()).error : await response.text();
  throw new Error(message || `the server answered ${response.status}`);
}

// A path with those fields that have a value.
export function address(path, fields = {}) {
  const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export async function get(path, fields = {}, signal = undefined) {
  return (await requireOk(await request(address(path, fields), { signal }))).json();
}

export async function getText(path, fields = {}) {
  return (await requireOk(await request(address(path, fields)))).text();
}

export async function post(path, body) {
  const options = { method: "POST", headers: JSON_BODY, body: JSON.stringify(body) };
  return (await requireOk(await request(path, options))).json();
}

// Save a response as a file; an error is thrown, not saved.
export async function download(path, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await (await requireOk(await request(path))).blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// One tile of a map: what it covers, and its numbers.
export async function getTile(path, fields, signal) {
  const response = await fetchWithRetry(address(path, fields), signal);
  const header = JSON.parse(response.headers.get("Tile"));
  const bytes = await response.arrayBuffer();
  const single = header.type === "float32";
  return {
    ...header,
    numbers: single ? new Float32Array(bytes) : halvesToFloats(new Uint16Array(bytes), header.scale),
  };
}

// Bytes, and the header that says how to read them.
export async function getBytes(path, fields, header, signal) {
  const response = await fetchWithRetry(address(path, fields), signal);
  return { header: JSON.parse(response.headers.get(header)), bytes: new Uint8Array(await response.arrayBuffer()) };
}

// A busy server says when to come again.
async function fetchWithRetry(path, signal, tries = MOST_TRIES) {
  const response = await request(path, { signal });
  if (response.status !== 429 || tries === 0) return requireOk(response);
  const seconds = Number(response.headers.get("Retry-After") ?? 1);
  await new Promise((done) => setTimeout(done, 1000 * seconds));
  return fetchWithRetry(path, signal, tries - 1);
}

let halfTable = null; // every half precision number there is: converting is looking up

function halvesToFloats(halves, scale) {
  halfTable ??= Float32Array.from({ length: 65536 }, (_, bits) => halfToFloat(bits));
  const numbers = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i += 1) numbers[i] = halfTable[halves[i]] * scale;
  return numbers;
}

function halfToFloat(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

// Follow the events of a job: `onEvent` gets each, and the last one is returned. The job stops when the signal aborts.
export async function stream(path, fields, onEvent, signal, body = undefined) {
  const options = body === undefined ? {} : { method: "POST", headers: JSON_BODY, body: JSON.stringify(body) };
  const response = await requireOk(await request(address(path, fields), { signal, ...options }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "";;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the connection was lost; is transom serve still running?");
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events.map(parseEvent)) {
      if (event.ready) {
        await reader.cancel();
        return event;
      }
      onEvent(event);
    }
  }
}

function parseEvent(text) {
  const data = JSON.parse(text.slice(text.indexOf("data: ") + 6));
  if (text.startsWith("event: failed")) throw new Error(data.error || "it was stopped");
  return data;
}
