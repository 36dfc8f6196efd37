// An offline page asks no server: the responses that it needs are in it.

const packed = document.getElementById("offline-answers");

// Whether this page is an offline copy.
export const isOffline = packed !== null;

let unpacked = null;

const fromBase64 = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));

function unpack() {
  const bytes = new Blob([fromBase64(packed.textContent.trim())]).stream();
  return new Response(bytes.pipeThrough(new DecompressionStream("gzip"))).json();
}

// What the server would have responded.
export async function offlineResponse(address) {
  unpacked ??= unpack();
  const { told: responses, bodies, missing } = await unpacked;
  const [path, query] = address.split("?");
  const fields = new URLSearchParams(query);
  const found = responses[path.endsWith("/weights") ? `${path}?head=${fields.get("head")}` : address];
  if (!found) return Response.json({ error: missing }, { status: 404 });
  const [index, type, headers] = found;
  if (path.endsWith("/weights")) return Response.json(cutBlock(JSON.parse(bodies[index]), fields));
  const body = type === "application/octet-stream" ? fromBase64(bodies[index]) : bodies[index];
  return new Response(body, { headers: { "Content-Type": type, ...headers } });
}

// The part of the stored block of weights that was asked for.
function cutBlock(block, fields) {
  const range = (
    first,
    count,
  ) => [Number(fields.get(first) ?? 0), Number(fields.get(first) ?? 0) + Number(fields.get(count))];
  const rows = range("first_row", "rows");
  const keys = range("first_key", "keys");
  const cut = (numbers) => numbers.slice(...rows).map((one) => one.slice(...keys));
  return {
    rows: block.rows.slice(...rows),
    keys: block.keys.slice(...keys),
    first: [rows[0], keys[0]],
    weights: cut(block.weights),
    scores: cut(block.scores),
  };
}
