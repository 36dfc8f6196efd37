// <transom-map>: all weights of a head, to zoom into like a street map, down to single weights.

import { stream } from "./api.js";
import { RunComparison } from "./compare_runs.js";
import { card, hint, make } from "./dom.js";
import { MapControls } from "./map_controls.js";
import { drawMap } from "./map_drawing.js";
import { listenForPanAndZoom, Viewport } from "./map_pan_zoom.js";
import { MapSearch } from "./map_search.js";
import { colouring, MapTiles, TILE } from "./map_tiles.js";
import { announce, currentAttention, keyTokens, rowTokens, state, withErrors } from "./state.js";
import { displayToken, formatNumber, tokenLegend } from "./token_text.js";

const READ_SCALE = 48; // pixels of a cell that was gone to
const MOST_IN_LEGEND = 2000; // tokens of each side that are searched for signs
const ADDRESS_PAUSE = 200; // milliseconds between changes of the address
const PROGRESS_FROM = 4; // levels of a map: from there on its overview takes long enough to show progress
const LABEL = "Map of attention: arrow keys move, plus and minus zoom, Enter reads the cell in the middle";

const rounded = (value, digits) => Math.round(value * 10 ** digits) / 10 ** digits;
const placeName = (
  index,
  tokens,
) => (tokens[index] === undefined ? `${index}` : `${index} ${displayToken(tokens[index])}`);

class MapView extends HTMLElement {
  connectedCallback() {
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": LABEL });
    this.viewport = new Viewport(this.canvas, () => this.requestDraw());
    this.tiles = new MapTiles(() => this.tileSource(), () => this.requestDraw());
    this.search = new MapSearch((row, key) => this.goTo(row, key));
    this.comparison = new RunComparison();
    this.controls = new MapControls(this.viewport, {
      onReload: () => this.reload(),
      onRedraw: () => this.requestDraw(),
      onCompare: () => this.compare(),
    });
    this.build();
    listenForPanAndZoom(this.viewport, (place, aloud) => this.readCell(place, aloud));
    const stopLoading = state.on(["attention", "head", "opened"], () => this.load());
    const stopListing = state.on(["by"], () => this.search.search());
    this.stopListening = () => [stopLoading, stopListing].forEach((stop) => stop());
    this.resizing = new ResizeObserver(() => this.requestDraw());
    this.resizing.observe(this.canvas);
    this.load();
  }

  disconnectedCallback() {
    this.stopListening();
    this.resizing.disconnect();
    this.loading?.abort();
  }

  build() {
    this.cell = make("p", { class: "hint", "aria-hidden": "true" }, " ");
    this.legend = hint();
    this.progress = make("progress", { max: 1, value: 0, hidden: true, "aria-label": "computing the whole map" });
    const map = make("div", {}, this.canvas, this.cell, this.legend);
    const sides = make("div", { class: "side-by-side" }, map, this.search.element);
    this.replaceChildren(card(this.controls.element, this.progress, sides), this.comparison.element);
  }

  async load() {
    const attention = currentAttention();
    if (!attention) return;
    this.loading?.abort();
    this.loading = new AbortController();
    this.tiles.clear();
    this.placeViewport(attention.queries, attention.keys);
    const tokens = [...rowTokens().slice(0, MOST_IN_LEGEND), ...keyTokens().slice(0, MOST_IN_LEGEND)];
    this.legend.textContent = tokenLegend(tokens);
    await this.controls.listRuns();
    await this.compare(false);
    if (!await this.computeOverview()) return;
    this.requestDraw();
    this.search.showStrongest();
  }

  // Where the address says, or all of it where that is for a map of another size.
  placeViewport(rows, keys) {
    const { x, y, zoom } = state.now;
    const isResized = this.topLevel !== undefined && (this.viewport.rows !== rows || this.viewport.keys !== keys);
    Object.assign(this.viewport, { rows, keys });
    this.topLevel = Math.max(0, Math.ceil(Math.log2(Math.max(rows, keys) / TILE)));
    const isOutside = x > keys || y > rows; // of another run
    if (isResized || isOutside || [x, y, zoom].some((one) => one === undefined || one === null)) {
      this.viewport.showAll();
    } else this.viewport.show(x, y, zoom);
  }

  // Subtract another run's weights if the maps are of one size; the outputs are compared in any case.
  async compare(reloads = true) {
    const other = this.controls.otherRun.value;
    await withErrors(() => this.comparison.show(other));
    const theirs = this.comparison.attentions?.[state.now.attention];
    const { rows, keys } = this.viewport;
    const fits = !other || (theirs?.queries === rows && theirs?.keys === keys);
    this.isSigned = Boolean(other) && fits;
    const sizes = `this one has ${rows} × ${keys} tokens and the other ${theirs?.queries} × ${theirs?.keys}`;
    this.comparison.showNote(
      fits ? "" : `The maps cannot be laid over each other, as ${sizes}: above is this run's own.`,
    );
    if (reloads) this.reload();
  }

  async computeOverview() {
    const { run, attention, head } = state.now;
    if (this.topLevel < PROGRESS_FROM) return true;
    const { signal } = this.loading;
    this.progress.hidden = false;
    this.progress.value = 0;
    const onEvent = (event) => {
      if (!signal.aborted) this.progress.value = event.share;
    };
    const ready = await withErrors(() => stream(`/api/runs/${run}/${attention}/overview`, { head }, onEvent, signal));
    if (!signal.aborted) this.progress.hidden = true;
    return ready && !signal.aborted;
  }

  // Other numbers are wanted.
  reload() {
    this.tiles.clear();
    this.search.withFirstToken = this.controls.firstToken.checked;
    if (this.topLevel < PROGRESS_FROM || this.progress.hidden) this.search.showStrongest();
    this.requestDraw();
  }

  tileSource() {
    const { run, attention, head } = state.now;
    const { pool, firstToken, otherRun } = this.controls;
    const fields = { pool: pool.value, sink: firstToken.checked, against: this.isSigned ? otherRun.value : null };
    return { path: `/api/runs/${run}/${attention}/tile`, head, fields, signal: this.loading.signal };
  }

  // Draw in the next frame.
  requestDraw() {
    if (this.drawing || this.topLevel === undefined) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = null;
      if (this.isConnected) this.draw();
    });
  }

  draw() {
    drawMap(this.viewport, this.tiles, this.topLevel, colouring(this.isSigned, this.controls.logScale.checked));
    if (this.tiles.isIncomplete) this.requestDraw();
    this.writing ??= setTimeout(() => this.writeAddress(), ADDRESS_PAUSE);
  }

  writeAddress() {
    this.writing = null;
    const { x, y, scale } = this.viewport;
    if (this.isConnected) state.set({ x: rounded(x, 1), y: rounded(y, 1), zoom: rounded(scale, 4) });
  }

  // What is at a place of the map, in words.
  readCell({ x, y }, aloud) {
    const [row, key] = [Math.floor(y), Math.floor(x)];
    const { rows, keys } = this.viewport;
    if (row < 0 || key < 0 || row >= rows || key >= keys) {
      this.cell.textContent = " ";
      return;
    }
    const found = this.tiles.valueAt(row, key, this.topLevel);
    if (!found) return;
    const place = `row ${placeName(row, rowTokens())}, column ${placeName(key, keyTokens())}`;
    this.cell.textContent = `${place}, ${this.describe(found)}`;
    if (aloud) announce(this.cell.textContent);
  }

  describe({ value, side }) {
    const less = this.isSigned ? " less the other run's" : "";
    if (side === 1) return `weight${less} ${formatNumber(value)}`;
    const pooled = this.controls.pool.value === "max" ? "largest" : "mean";
    return `${pooled} weight of ${side} × ${side}${less}: ${formatNumber(value)}`;
  }

  goTo(row, key) {
    this.viewport.show(
      key + 0.5,
      Math.min(row, this.viewport.rows - 1) + 0.5,
      Math.max(this.viewport.scale, READ_SCALE),
    );
    const name = (tokens, index) => displayToken(tokens[index] ?? String(index));
    announce(`row ${name(rowTokens(), row)}, column ${name(keyTokens(), key)}`);
  }
}

customElements.define("transom-map", MapView);
