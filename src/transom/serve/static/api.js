// Asking the server, or the page itself where it was taken away: JSON, tiles and progress. An error is its one line.

import { answer, taken } from "./taken.js";

const fetched = taken ? answer : (path, options) => fetch(path, options);

async function checked(response) {
  if (response.ok) return response;
  const said = response.headers.get("Content-Type")?.startsWith("application/json") ? (await response.json()).error : await response.text();
  throw new Error(said || `the server answered ${response.status}`);
}

const query = (fields) => new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined)).toString();

export const address = (path, fields = {}) => (query(fields) ? `${path}?${query(fields)}` : path);

export async function get(path, fields = {}, signal = undefined) {
  return (await checked(await fetched(address(path, fields), { signal }))).json();
}

export async function post(path, body) {
  const heads = { "Content-Type": "application/json" };
  return (await checked(await fetched(path, { method: "POST", headers: heads, body: JSON.stringify(body) }))).json();
}

// An answer as a file to keep; what goes wrong is told on the page, not saved.
export async function keep(path, name) {
  const link = document.createElement("a"), kept = URL.createObjectURL(await (await checked(await fetched(path))).blob());
  [link.href, link.download] = [kept, name];
  link.click();
  setTimeout(() => URL.revokeObjectURL(kept), 60_000);
}

// One tile: what it covers, and its numbers.
export async function tile(path, fields, signal) {
  const response = await patient(address(path, fields), signal);
  const said = JSON.parse(response.headers.get("Tile"));
  const bytes = await response.arrayBuffer();
  return { ...said, numbers: said.type === "float32" ? new Float32Array(bytes) : widened(new Uint16Array(bytes), said.scale) };
}

// Every half precision number there is, so that a tile is widened by looking them up.
let halves = null;
function widened(bits, scale) {
  halves ??= Float32Array.from({ length: 65536 }, (_, one) => fromHalf(one));
  const numbers = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i += 1) numbers[i] = halves[bits[i]] * scale;
  return numbers;
}

// A busy server says when to come again.
async function patient(path, signal, tries = 20) {
  const response = await fetched(path, { signal });
  if (response.status !== 429 || tries === 0) return checked(response);
  await new Promise((done) => setTimeout(done, 1000 * Number(response.headers.get("Retry-After") ?? 1)));
  return patient(path, signal, tries - 1);
}

export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, power = (bits >> 10) & 31, part = bits & 1023;
  return sign * (power === 0 ? part * 2 ** -24 : (1 + part / 1024) * 2 ** (power - 15));
}

// What the server tells while it works, event by event, until it is ready; it stops working when the signal does.
export async function stream(path, fields, told, signal, body = undefined) {
  const asked = body === undefined ? { signal } : { signal, method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await checked(await fetched(address(path, fields), asked)), reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the connection was lost; is transom serve still running?");
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const said = JSON.parse(event.slice(event.indexOf("data: ") + 6));
      if (event.startsWith("event: failed")) throw new Error(said.error || "it was stopped");
      if (said.ready) { await reader.cancel(); return said; }
      told(said);
    }
  }
}
