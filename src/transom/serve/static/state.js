// What is looked at, shared by all parts of the page and written into its address, so that a link leads back to it.

const KEPT = ["view", "run", "attention", "head", "row", "key", "x", "y", "zoom", "step", "measure", "lesson"];
const NUMBERS = new Set(["attention", "head", "row", "key", "x", "y", "zoom", "step", "lesson"]);

// What an address says of the names that are kept.
function read(hash) {
  const said = [...new URLSearchParams(hash.slice(1))].filter(([name, value]) => KEPT.includes(name) && (!NUMBERS.has(name) || Number.isFinite(Number(value))));
  return Object.fromEntries(said.map(([name, value]) => [name, NUMBERS.has(name) ? Number(value) : value]));
}

class State extends EventTarget {
  constructor() {
    super();
    this.now = { view: "see", run: null, attention: null, head: 0, row: null, key: null };
    Object.assign(this.now, read(location.hash));
    addEventListener("hashchange", () => this.set(read(location.hash)));
  }

  // Take over what changed, and tell who listens which names did.
  set(changes) {
    const names = Object.keys(changes).filter((name) => this.now[name] !== changes[name]);
    if (!names.length) return;
    Object.assign(this.now, changes);
    const kept = KEPT.filter((name) => this.now[name] !== null && this.now[name] !== undefined).map((name) => [name, this.now[name]]);
    if (location.protocol !== "about:") history.replaceState(null, "", `#${new URLSearchParams(kept)}`); // a frame of a notebook has no address
    this.dispatchEvent(new CustomEvent("change", { detail: new Set(names) }));
  }

  // Call `told` whenever one of the names changes.
  on(names, told) {
    const wanted = new Set(names);
    const listener = (event) => { if ([...event.detail].some((name) => wanted.has(name))) told(); };
    this.addEventListener("change", listener);
    return () => this.removeEventListener("change", listener);
  }
}

export const state = new State();

// The run that is open, as the server told it; its attention that is looked at.
export const open = { run: null, studio: null };
export const attention = () => open.run?.attentions[state.now.attention] ?? null;
export const rowWords = (one = attention()) => (one?.role === "cross" || one?.role === "decoder") && open.run.targets.length ? open.run.targets : open.run?.tokens ?? [];
export const keyWords = (one = attention()) => one?.role === "decoder" && open.run.targets.length ? open.run.targets : open.run?.tokens ?? [];

// Whether a head can be looked at: of a page that was taken away, those that were taken along.
export const present = (index, head) => !open.studio?.taken || `${index}/${head}` in open.studio.taken.maps;
// The finest level of its map: 0 has single weights.
export const finest = () => open.studio?.taken?.maps[`${state.now.attention}/${state.now.head}`] ?? 0;

// The token that comes after a row, where rows predict; of a text that was only read, the last one's is not known.
export const nextWord = (row, one = attention()) => {
  const written = open.run?.written ?? [], predicts = written.length && one?.predicts && one.role !== "encoder" && one.queries - written.length in [0, 1];
  return predicts ? written[row] : undefined;
};

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function say(words) { document.getElementById("spoken").textContent = words; }

export function trouble(error) {
  const place = document.getElementById("trouble");
  place.hidden = !error;
  place.textContent = error ? error.message ?? String(error) : "";
}

// Do something that may go wrong, and tell it where it does.
export async function attempt(act) {
  try { trouble(null); return await act(); } catch (error) { if (error.name !== "AbortError") trouble(error); }
}
