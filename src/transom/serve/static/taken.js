// A page that was taken away asks no server: the answers that it needs lie in it.

const kept = document.getElementById("taken");

// Whether this page is such a copy.
export const taken = kept !== null;

let answers = null;

async function unpacked() {
  const packed = Uint8Array.from(atob(kept.textContent.trim()), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

// What the server would have answered.
export async function answer(asked) {
  answers ??= unpacked();
  const { told, bodies, missing } = await answers, [place, fields] = asked.split("?");
  const found = told[place.endsWith("/weights") ? `${place}?head=${new URLSearchParams(fields).get("head")}` : asked];
  if (!found) return Response.json({ error: missing }, { status: 404 });
  const [body, kind, headers] = [bodies[found[0]], found[1], { "Content-Type": found[1], ...found[2] }];
  if (place.endsWith("/weights")) return Response.json(cut(JSON.parse(body), new URLSearchParams(fields)));
  return new Response(kind === "application/octet-stream" ? Uint8Array.from(atob(body), (sign) => sign.charCodeAt(0)) : body, { headers });
}

// A window of the weights that were taken along.
function cut(block, fields) {
  const from = (name) => Number(fields.get(`first_${name}`) ?? 0), [row, key] = [from("row"), from("key")];
  const [rows, keys] = [[row, row + Number(fields.get("rows"))], [key, key + Number(fields.get("keys"))]];
  const window = (numbers) => numbers.slice(...rows).map((one) => one.slice(...keys));
  return { rows: block.rows.slice(...rows), keys: block.keys.slice(...keys), first: [row, key], weights: window(block.weights), scores: window(block.scores) };
}
