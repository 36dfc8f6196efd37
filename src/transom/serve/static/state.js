// What is shown, shared by all parts of the page and written into its address, so that a link leads back to it.

const STAGE = ["level", "token", "by", "scene", "part", "unit"];
const LESSONS = ["lesson", "screen", "edit"];
const IN_ADDRESS = ["view", "run", "attention", "head", "row", "key", "x", "y", "zoom", "step", "measure"]
  .concat(STAGE, LESSONS);
const NUMBERS = new Set([
  "attention",
  "head",
  "row",
  "key",
  "x",
  "y",
  "zoom",
  "step",
  "lesson",
  "screen",
  "level",
  "token",
  "scene",
  "unit",
]);

function parseAddress(hash) {
  const known = ([name, value]) => IN_ADDRESS.includes(name) && (!NUMBERS.has(name) || Number.isFinite(Number(value)));
  const fields = [...new URLSearchParams(hash.slice(1))].filter(known);
  return Object.fromEntries(fields.map(([name, value]) => [name, NUMBERS.has(name) ? Number(value) : value]));
}

class State extends EventTarget {
  constructor() {
    super();
    this.now = { view: "stage", run: null, attention: null, head: 0, row: null, key: null };
    Object.assign(this.now, parseAddress(location.hash));
    addEventListener("hashchange", () => this.follow(parseAddress(location.hash)));
  }

  // Go where an address leads; what was chosen in another run is given up.
  follow(place) {
    const isOther = place.run !== undefined && place.run !== this.now.run;
    const gone = {
      row: null,
      key: null,
      x: null,
      y: null,
      zoom: null,
      level: null,
      token: null,
      part: null,
      unit: null,
    };
    this.set({ part: null, unit: null, ...(isOther ? gone : {}), ...place });
  }

  // Change some names; listeners of those that have a new value are called.
  set(given) {
    const changes = { ...given, ...linkToken(this.now, given) };
    const names = Object.keys(changes).filter((name) => this.now[name] !== changes[name]);
    if (!names.length) return;
    Object.assign(this.now, changes);
    const kept = IN_ADDRESS.filter((name) => this.now[name] !== null && this.now[name] !== undefined);
    const fields = new URLSearchParams(kept.map((name) => [name, this.now[name]]));
    const hasAddress = location.protocol !== "about:"; // a frame of a notebook has none
    if (hasAddress) history.replaceState(null, "", `#${fields}`);
    this.notify(...names);
  }

  notify(...names) {
    this.dispatchEvent(new CustomEvent("change", { detail: names }));
  }

  // Call `onChange` whenever one of the names changes; returns how to stop that.
  on(names, onChange) {
    const listener = (event) => {
      if (event.detail.some((name) => names.includes(name))) onChange();
    };
    this.addEventListener("change", listener);
    return () => this.removeEventListener("change", listener);
  }
}

// The open run and what the server has to offer, both as the server sent them.
export const session = { run: null, server: null };

export const state = new State();

// Whether the rows of an attention are the tokens after which the model predicts; those of an encoder are not.
export const isPredicting = (attention) => Boolean(session.run?.likely.length && attention?.predicts);

// One token is chosen in all views: where rows predict, the row and the token are the same place.
function linkToken(now, changes) {
  const [before, attention] = [now.attention, changes.attention ?? now.attention].map((i) =>
    session.run?.attentions[i]
  );
  const isOtherSide = before && attention && isPredicting(before) !== isPredicting(attention);
  if (isOtherSide && !("row" in changes)) return { row: null, key: null };
  if (!isPredicting(attention)) return {};
  if (typeof changes.row === "number" && !("token" in changes)) return { token: changes.row };
  const isRowChosen = now.row !== null && !("row" in changes);
  return typeof changes.token === "number" && isRowChosen ? { row: changes.token } : {};
}

export const NOTHING_CHOSEN = { row: null, key: null, token: null };

// The row that is chosen in the current attention: its own, or that of the token chosen elsewhere; else null.
export function chosenRow(attention = currentAttention()) {
  const { row, token } = state.now;
  const found = row ?? (isPredicting(attention) ? token ?? null : null);
  return found !== null && found < (attention?.queries ?? 0) ? found : null;
}

export const currentAttention = () => session.run?.attentions[state.now.attention] ?? null;

export function rowTokens(attention = currentAttention()) {
  const ofTarget = attention?.role === "cross" || attention?.role === "decoder";
  return ofTarget && session.run.targets.length ? session.run.targets : session.run?.tokens ?? [];
}

export function keyTokens(attention = currentAttention()) {
  return attention?.role === "decoder" && session.run.targets.length ? session.run.targets : session.run?.tokens ?? [];
}

// Whether the page can show a head: an offline copy holds only some.
export function isAvailable(attention, head) {
  return !session.server?.taken || `${attention}/${head}` in session.server.taken.maps;
}

// The finest level of the current map; level 0 has single weights.
export const finestLevel = () => session.server?.taken?.maps[`${state.now.attention}/${state.now.head}`] ?? 0;

// The token that comes after a row, where rows predict; of a text that was only read, the last one's is not known.
export function nextToken(row, attention = currentAttention()) {
  const written = session.run?.written ?? [];
  if (!written.length || !attention?.predicts || attention.role === "encoder") return undefined;
  return attention.queries - written.length in [0, 1] ? written[row] : undefined;
}

export const prefersReducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Say something to people who listen to the page.
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

function showError(error) {
  const place = document.getElementById("error");
  place.hidden = !error;
  place.textContent = error ? error.message ?? String(error) : "";
}

// Do something that may fail; what fails is shown on the page.
export async function withErrors(act) {
  try {
    showError(null);
    return await act();
  } catch (error) {
    if (error.name !== "AbortError") showError(error);
  }
}
