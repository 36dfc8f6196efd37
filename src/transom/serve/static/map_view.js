// <transom-map>: all weights of a head, to zoom into like a street map, down to single weights.

import { RunComparison } from "./compare_runs.js";
import { card, hint, make } from "./dom.js";
import { MapControls } from "./map_controls.js";
import { drawMap } from "./map_drawing.js";
import { cellText } from "./map_cell_text.js";
import { MapInfluence } from "./map_influence.js";
import { listenForPanAndZoom, Viewport } from "./map_pan_zoom.js";
import { MapSearch } from "./map_search.js";
import { colouring, MapTiles, TILE } from "./map_tiles.js";
import { announce, currentAttention, keyTokens, rowTokens, state, withErrors } from "./state.js";
import { displayToken, tokenLegend } from "./token_text.js";

const READ_SCALE = 48; // pixels of a cell that was gone to
const MOST_IN_LEGEND = 2000; // tokens of each side that are searched for signs
const ADDRESS_PAUSE = 200; // milliseconds between changes of the address
const PROGRESS_FROM = 4; // levels of a map: from there on its overview takes long enough to show progress
const LABEL = "Map of attention: arrow keys move, plus and minus zoom, Enter reads the cell in the middle";

const rounded = (value, digits) => Math.round(value * 10 ** digits) / 10 ** digits;

class MapView extends HTMLElement {
  connectedCallback() {
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": LABEL });
    this.viewport = new Viewport(this.canvas, () => this.requestDraw());
    this.tiles = new MapTiles(() => this.tileSource(), () => this.requestDraw());
    this.influence = new MapInfluence();
    this.search = new MapSearch((row, key) => this.goTo(row, key), this.influence);
    this.comparison = new RunComparison();
    this.controls = new MapControls(this.viewport, {
      onReload: () => this.reload(),
      onRedraw: () => this.requestDraw(),
      onCompare: () => this.compare(),
    });
    this.build();
    listenForPanAndZoom(this.viewport, (place, aloud) => this.readCell(place, aloud));
    const stopLoading = state.on(["attention", "head", "opened"], () => this.load());
    const stopSwitching = state.on(["by", "token"], () => this.explainAnew());
    this.stopListening = () => [stopLoading, stopSwitching].forEach((stop) => stop());
    this.resizing = new ResizeObserver(() => this.requestDraw());
    this.resizing.observe(this.canvas);
    this.load();
  }

  disconnectedCallback() {
    this.stopListening();
    this.resizing.disconnect();
    this.loading?.abort();
    this.influence.close();
  }

  build() {
    this.cell = make("p", { class: "hint", "aria-hidden": "true" }, " ");
    this.legend = hint();
    const map = make("div", {}, this.canvas, this.cell, this.legend, this.influence.agreement.element);
    const sides = make("div", { class: "side-by-side" }, map, this.search.element);
    this.replaceChildren(card(this.influence.element, this.controls.element, sides), this.comparison.element);
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
    await this.showOverview();
  }

  // What mattered instead of what is read, or the other way round, or for another prediction: the same place anew.
  async explainAnew() {
    if (!currentAttention() || this.influence.token === this.shownToken) return;
    this.loading?.abort();
    this.loading = new AbortController();
    await this.compare(false);
    await this.showOverview();
  }

  async showOverview() {
    this.isReady = false;
    this.tiles.clear();
    this.shownToken = this.influence.token;
    this.isReady = Boolean(await this.computeOverview());
    if (!this.isReady) return;
    this.controls.show(this.kind, this.influence.largest);
    this.requestDraw();
    this.search.search();
  }

  // What the cells show.
  get kind() {
    return this.isSigned ? "difference" : this.shownToken === null ? "weights" : "influence";
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
    const { rows, keys } = this.viewport;
    const fits = this.comparison.fitsOver(state.now.attention, [rows, keys], this.influence.token === null);
    this.isSigned = Boolean(other) && fits;
    if (reloads) this.reload();
  }

  computeOverview() {
    const { run, attention, head } = state.now;
    const fields = { head, sink: this.controls.firstToken.checked };
    const path = `/api/runs/${run}/${attention}/overview`;
    const { signal } = this.loading;
    return withErrors(() => this.influence.prepare(path, fields, this.topLevel >= PROGRESS_FROM, signal));
  }

  // Other numbers are wanted.
  reload() {
    this.search.withFirstToken = this.controls.firstToken.checked;
    if (this.shownToken !== null) {
      this.showOverview(); // the largest number may be another one
      return;
    }
    this.tiles.clear();
    this.controls.show(this.kind);
    if (this.isReady) this.search.search();
    this.requestDraw();
  }

  tileSource() {
    const { run, attention, head } = state.now;
    const { pool, firstToken, otherRun } = this.controls;
    const against = this.isSigned ? otherRun.value : null;
    const fields = { pool: pool.value, sink: firstToken.checked, against, token: this.shownToken };
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
    if (!this.isReady && this.shownToken !== null) return; // its scale is not known yet
    const colours = colouring(this.kind, this.controls.logScale.checked, this.influence.largest);
    drawMap(this.viewport, this.tiles, this.topLevel, colours);
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
    const isInside = row >= 0 && key >= 0 && row < rows && key < keys;
    const found = isInside ? this.tiles.valueAt(row, key, this.topLevel) : null;
    if (isInside && !found) return;
    const about = { isSigned: this.isSigned, pool: this.controls.pool.value, explained: this.influence.explained };
    this.cell.textContent = isInside ? cellText(row, key, found, about) : " ";
    if (isInside && aloud) announce(this.cell.textContent);
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
