// Asking the server: JSON, tiles and progress. An error is its one line.

async function checked(response) {
  if (response.ok) return response;
  const said = response.headers.get("Content-Type")?.startsWith("application/json") ? (await response.json()).error : await response.text();
  throw new Error(said || `the server answered ${response.status}`);
}

const query = (fields) => new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined)).toString();

export const address = (path, fields = {}) => (query(fields) ? `${path}?${query(fields)}` : path);

export async function get(path, fields = {}, signal = undefined) {
  return (await checked(await fetch(address(path, fields), { signal }))).json();
}

export async function post(path, body) {
  const heads = { "Content-Type": "application/json" };
  return (await checked(await fetch(path, { method: "POST", headers: heads, body: JSON.stringify(body) }))).json();
}

// One tile: what it covers, and its numbers.
export async function tile(path, fields, signal) {
  const response = await patient(address(path, fields), signal);
  const said = JSON.parse(response.headers.get("Tile"));
  const bytes = await response.arrayBuffer();
  const numbers = said.type === "float32" ? new Float32Array(bytes) : Float32Array.from(new Uint16Array(bytes), (half) => fromHalf(half) * said.scale);
  return { ...said, numbers };
}

// A busy server says when to come again.
async function patient(path, signal, tries = 20) {
  const response = await fetch(path, { signal });
  if (response.status !== 429 || tries === 0) return checked(response);
  await new Promise((done) => setTimeout(done, 1000 * Number(response.headers.get("Retry-After") ?? 1)));
  return patient(path, signal, tries - 1);
}

export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, power = (bits >> 10) & 31, part = bits & 1023;
  return sign * (power === 0 ? part * 2 ** -24 : (1 + part / 1024) * 2 ** (power - 15));
}

// How far something is, until it is ready.
export function progress(path, fields, told) {
  return new Promise((ready, failed) => {
    const stream = new EventSource(address(path, fields));
    stream.onmessage = (event) => {
      const said = JSON.parse(event.data);
      told(said);
      if (said.ready) { stream.close(); ready(said); }
    };
    stream.addEventListener("failed", (event) => { stream.close(); failed(new Error(JSON.parse(event.data).error)); });
    stream.onerror = () => { stream.close(); failed(new Error("the connection was lost; is transom serve still running?")); };
  });
}
