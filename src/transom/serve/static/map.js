// <transom-map>: a head's whole attention, to zoom into like a street map, down to single weights.

import { get, stream, tile } from "./api.js";
import { Beside } from "./beside.js";
import { table } from "./colours.js";
import { follow } from "./fingers.js";
import { labels, numbers, ticks } from "./maplabels.js";
import { runOptions } from "./opening.js";
import { attempt, attention, finest, keyWords, rowWords, say, state } from "./state.js";
import { make, number, shown, signs } from "./words.js";

const TILE = 256, TALLEST = 560, LARGEST = 64, LOWEST = 240, NARROW = 480, MOST_SIGNS = 2000, LABELS_FROM = 17, NUMBERS_FROM = 44, MOST_TILES = 160, NEW_TILES = 3, PLACE_PAUSE = 200;

class AttentionMap extends HTMLElement {
  connectedCallback() {
    this.build();
    this.off = state.on(["attention", "head", "opened"], () => this.begin());
    this.resized = new ResizeObserver(() => this.ask());
    this.resized.observe(this.canvas);
    this.begin();
  }

  disconnectedCallback() { this.off(); this.resized.disconnect(); this.leaving?.abort(); }

  build() {
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": "Map of attention: arrow keys move, plus and minus zoom, Enter reads the cell in the middle" });
    this.said = make("p", { class: "hint", "aria-hidden": "true" }, " ");
    this.waiting = make("progress", { max: 1, value: 0, hidden: true, "aria-label": "working out the whole map" });
    this.pool = make("select", { "aria-label": "What a cell shows", onchange: () => this.again() }, make("option", { value: "max" }, "largest weight of a cell"), make("option", { value: "mean" }, "mean weight of a cell"));
    this.sink = make("input", { type: "checkbox", id: "sink", checked: true, onchange: () => this.again() });
    this.logs = make("input", { type: "checkbox", id: "logs", onchange: () => this.ask() });
    this.find = make("input", { id: "find", size: 12, placeholder: "a token", oninput: () => this.search() });
    this.found = make("ul", { class: "list", "aria-label": "Places" });
    this.listed = make("h2", {}, "Strongest arrows");
    this.signs = make("p", { class: "hint" });
    this.other = new Beside();
    this.against = make("select", { "aria-label": "Compare with", onchange: () => this.compare() });
    const button = (label, title, act) => make("button", { "aria-label": title, title, onclick: act }, label);
    this.replaceChildren(make("div", { class: "card" }, make("div", { class: "row" }, button("+", "Zoom in", () => this.zoom(2)), button("−", "Zoom out", () => this.zoom(0.5)), button("all", "The whole map", () => this.whole()), this.pool,
      make("label", {}, this.sink, " ", make("dfn", { "data-word": "sink" }, "first token"), " shown"), make("label", {}, this.logs, " log scale"), make("label", {}, "compare with ", this.against), this.legend()), this.waiting,
      make("div", { class: "beside" }, make("div", {}, this.canvas, this.said, this.signs), make("div", {}, make("label", { for: "find" }, "Find "), this.find, this.listed, this.found))), this.other.place);
    this.listen();
  }

  // What the colours mean, from least to most.
  legend() {
    const bar = make("span", { class: "legend", role: "img", "aria-label": "white is 0, dark blue is 1; in a comparison orange is less, blue is more" });
    return make("span", { class: "hint" }, "0 ", bar, " 1");
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(2 ** (-event.deltaY / 240), this.at(event)); }, { passive: false });
    follow(canvas, (event) => this.read(this.at(event)), (before, after) => {
      this.move((before.offsetX - after.offsetX) / this.scale, (before.offsetY - after.offsetY) / this.scale);
      this.zoom(after.apart / before.apart, this.at(after));
    });
    canvas.addEventListener("dblclick", (event) => this.zoom(4, this.at(event)));
    canvas.addEventListener("keydown", (event) => this.pressed(event));
  }

  pressed(event) {
    const step = 60 / this.scale, move = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (move) this.move(move[0] * Math.max(1, step), move[1] * Math.max(1, step));
    else if (event.key === "+" || event.key === "=") this.zoom(2);
    else if (event.key === "-") this.zoom(0.5);
    else if (event.key === "Home") this.whole();
    else if (event.key === "Enter") this.read({ x: this.x, y: this.y }, true);
    else return;
    event.preventDefault();
    if (move) this.read({ x: this.x, y: this.y }, true);
  }

  // Where on the map a point of the canvas is, in keys across and rows down.
  at(event) { return { x: this.x + (event.offsetX - this.margin - this.wide / 2) / this.scale, y: this.y + (event.offsetY - this.above - this.tall / 2) / this.scale }; }

  get wide() { return this.canvas.clientWidth - this.margin; }

  get tall() { return this.high - this.above; }

  // On a small screen the map leaves room for what is around it; a small map takes no more than it needs.
  get high() { return Math.min(clamp(0.7 * innerHeight, LOWEST, TALLEST), this.rows ? this.rows * Math.min(LARGEST, this.fitting) + this.above + 4 : TALLEST); }

  // The scale at which all keys fit in, with room for the last one's label.
  get fitting() { return (this.wide - 34) / this.keys; }

  // Room for labels: of the rows, and of the columns.
  get margin() { return this.canvas.clientWidth < NARROW ? 64 : 92; }

  get above() { return 58; }

  async begin() {
    const one = attention();
    if (!one) return;
    this.leaving?.abort();
    this.leaving = new AbortController();
    [this.rows, this.keys] = [one.queries, one.keys];
    this.top = Math.max(0, Math.ceil(Math.log2(Math.max(this.rows, this.keys) / TILE)));
    this.tiles = new Map();
    if (state.now.zoom === undefined || state.now.zoom === null || this.of === undefined && state.now.x === undefined) this.whole();
    else [this.x, this.y, this.scale] = [state.now.x, state.now.y, state.now.zoom];
    if (this.of !== undefined && this.of !== `${this.rows} ${this.keys}`) this.whole();
    this.of = `${this.rows} ${this.keys}`;
    this.signs.textContent = signs([...rowWords().slice(0, MOST_SIGNS), ...keyWords().slice(0, MOST_SIGNS)]);
    await this.runs();
    await this.compare();
    if (!await this.overview()) return;
    this.ask();
    this.strongest();
  }

  // Lay another run over this one, as far as they fit; what came out of both stands beside each other in any case.
  async compare() {
    const other = this.against.value;
    await attempt(() => this.other.show(other));
    const their = this.other.attentions?.[state.now.attention];
    this.fits = !other || (their?.queries === this.rows && their?.keys === this.keys);
    this.other.tell(this.fits ? "" : `The maps cannot be laid over each other, as this one has ${this.rows} × ${this.keys} tokens and the other ${their?.queries} × ${their?.keys}: above is this run's own.`);
    this.again();
  }

  // Whether the map shows what is different from another run.
  get signed() { return Boolean(this.against.value) && this.fits; }

  // The other runs, to see what is different here.
  async runs() {
    const options = await runOptions("a trace", (one) => one.run === this.against.value, (one) => one.run !== state.now.run);
    this.against.parentElement.hidden = !options.length;
    this.against.replaceChildren(make("option", { value: "" }, "none"), ...options);
  }

  async overview() {
    const { run, attention: index, head } = state.now;
    if (this.top < 4) return true;
    const { signal } = this.leaving;
    this.waiting.hidden = false;
    this.waiting.value = 0;
    const ready = await attempt(() => stream(`/api/runs/${run}/${index}/overview`, { head }, (said) => { if (!signal.aborted) this.waiting.value = said.share; }, signal));
    if (!signal.aborted) this.waiting.hidden = true;
    return ready && !signal.aborted;
  }

  again() { this.tiles = new Map(); if (this.top < 4 || this.waiting.hidden) this.strongest(); this.ask(); }

  whole() {
    [this.x, this.y] = [this.keys / 2, this.rows / 2];
    this.scale = Math.min(this.fitting, this.tall / this.rows, LARGEST) || 1;
    this.ask();
  }

  move(x, y) { [this.x, this.y] = [clamp(this.x + x, 0, this.keys), clamp(this.y + y, 0, this.rows)]; this.ask(); }

  zoom(times, about = { x: this.x, y: this.y }) {
    const before = this.scale;
    this.scale = clamp(this.scale * times, Math.min(this.wide / this.keys, this.tall / this.rows) / 2, 72);
    const kept = 1 - before / this.scale;
    this.move((about.x - this.x) * kept, (about.y - this.y) * kept);
  }

  // Draw soon, and fetch what is missing for it.
  ask() {
    if (this.drawing || !this.tiles) return;
    this.drawing = requestAnimationFrame(() => { this.drawing = null; if (this.isConnected) this.draw(); });
  }

  draw() {
    const { canvas } = this, dense = devicePixelRatio || 1;
    const size = [canvas.clientWidth, this.high].map((one) => Math.round(one * dense));
    if (canvas.width !== size[0] || canvas.height !== size[1]) { [canvas.width, canvas.height] = size; canvas.style.height = `${this.high}px`; }
    const pen = canvas.getContext("2d");
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, this.high);
    pen.save();
    pen.beginPath();
    pen.rect(this.margin, this.above, this.wide, this.tall);
    pen.clip();
    pen.imageSmoothingEnabled = false;
    const level = clamp(Math.floor(Math.log2(1 / this.scale)), finest(), this.top);
    [this.fresh, this.late] = [0, false];
    for (let coarse = this.top; coarse >= level; coarse -= 1) this.drawLevel(pen, coarse, coarse === level);
    pen.restore();
    this.outline(pen);
    if (this.late) this.ask();
    if (this.scale >= LABELS_FROM) labels(this, pen, this.scale < NUMBERS_FROM); else ticks(this, pen);
    this.placing ??= setTimeout(() => { this.placing = null; if (this.isConnected) state.set({ x: Math.round(this.x * 10) / 10, y: Math.round(this.y * 10) / 10, zoom: Math.round(this.scale * 1e4) / 1e4 }); }, PLACE_PAUSE);
  }

  // Where the map ends: what is white may be a weight of 0, or nothing at all.
  outline(pen) {
    const seen = this.window();
    pen.strokeStyle = getComputedStyle(this).getPropertyValue("--line");
    pen.strokeRect(this.px(seen.left) + 0.5, this.py(seen.upper) + 0.5, (seen.right - seen.left) * this.scale - 1, (seen.lower - seen.upper) * this.scale - 1);
  }

  window() {
    const [across, down] = [this.wide / 2 / this.scale, this.tall / 2 / this.scale];
    return { left: Math.max(0, this.x - across), right: Math.min(this.keys, this.x + across), upper: Math.max(0, this.y - down), lower: Math.min(this.rows, this.y + down) };
  }

  drawLevel(pen, level, wanted) {
    const seen = this.window(), side = TILE * 2 ** level;
    for (let row = Math.floor(seen.upper / side); row * side < seen.lower; row += 1) {
      for (let column = Math.floor(seen.left / side); column * side < seen.right; column += 1) {
        const name = `${level}/${row}/${column}`, found = this.tiles.get(name);
        if (found?.image) {
          this.tiles.delete(name);
          this.tiles.set(name, found);
          const image = this.imaged(found);
          if (!image) { this.late = true; continue; }
          pen.drawImage(image, this.px(found.keys[0]), this.py(found.rows[0]), found.shape[1] * found.side * this.scale, found.shape[0] * found.side * this.scale);
          if (wanted && level === 0 && this.scale >= NUMBERS_FROM) numbers(this, pen, found);
        } else if (!found && wanted) this.fetch(level, row, column, name);
      }
    }
  }

  px(key) { return this.margin + this.wide / 2 + (key - this.x) * this.scale; }

  py(row) { return this.above + this.tall / 2 + (row - this.y) * this.scale; }

  async fetch(level, row, column, name) {
    const { run, attention: index, head } = state.now, { signal } = this.leaving, { tiles } = this;
    tiles.set(name, {});
    try {
      const found = await tile(`/api/runs/${run}/${index}/tile`, { head, level, row, column, pool: this.pool.value, sink: this.sink.checked, against: this.signed ? this.against.value : null }, signal);
      if (signal.aborted || tiles !== this.tiles) return; // something else is shown by now
      tiles.set(name, { ...found, image: new Map() });
      if (tiles.size > MOST_TILES) tiles.delete(tiles.keys().next().value);
      this.ask();
    } catch (error) { tiles.delete(name); if (error.name !== "AbortError") attempt(() => { throw error; }); }
  }

  // Where a weight stands on the scale of colours, from 0 to 1.
  get share() {
    if (this.signed) return (value) => (value + 1) / 2;
    return this.logs.checked ? (value) => 1 + Math.log10(Math.max(value, 1e-6)) / 6 : (value) => value ** 0.6;
  }

  // A tile as pixels, once for each way of colouring; nothing yet where many are new, so that no frame takes long.
  imaged(found) {
    const logs = this.logs.checked, { signed } = this, colours = signed ? SIGNED : COLOURS, way = `${logs} ${signed}`;
    if (found.image.has(way)) return found.image.get(way);
    if (this.fresh === NEW_TILES) return null;
    this.fresh += 1;
    const [rows, columns] = found.shape, image = new OffscreenCanvas(columns, rows), pen = image.getContext("2d"), pixels = pen.createImageData(columns, rows);
    const { share } = this, painted = new Uint32Array(pixels.data.buffer), values = found.numbers;
    for (let i = 0; i < values.length; i += 1) painted[i] = colours[Math.round(255 * Math.min(1, Math.max(0, share(values[i]))))];
    pen.putImageData(pixels, 0, 0);
    found.image.set(way, image);
    return image;
  }

  // What is under a point, in words.
  read({ x, y }, aloud = false) {
    const row = Math.floor(y), key = Math.floor(x);
    if (row < 0 || key < 0 || row >= this.rows || key >= this.keys) { this.said.textContent = " "; return; }
    for (let level = 0; level <= this.top; level += 1) {
      const side = TILE * 2 ** level, found = this.tiles.get(`${level}/${Math.floor(row / side)}/${Math.floor(key / side)}`);
      if (!found?.image) continue;
      const value = found.numbers[Math.floor((row - found.rows[0]) / found.side) * found.shape[1] + Math.floor((key - found.keys[0]) / found.side)];
      const less = this.signed ? " less the other run's" : "";
      const what = found.side === 1 ? `weight${less} ${number(value)}` : `${this.pool.value === "max" ? "largest" : "mean"} weight of ${found.side} × ${found.side}${less}: ${number(value)}`;
      const words = `row ${placed(row, rowWords())}, column ${placed(key, keyWords())}, ${what}`;
      this.said.textContent = words;
      if (aloud) say(words);
      return;
    }
  }

  go(row, key) { [this.x, this.y, this.scale] = [key + 0.5, row + 0.5, Math.max(this.scale, 48)]; this.ask(); say(`row ${shown(rowWords()[row] ?? String(row))}, column ${shown(keyWords()[key] ?? String(key))}`); }

  async strongest() {
    const { run, attention: index, head } = state.now;
    const found = await attempt(() => get(`/api/runs/${run}/${index}/strongest`, { head, count: 30, sink: this.sink.checked }));
    if (found) this.list(found.edges.map((edge) => [edge.query, edge.key, `${shown(edge.from)} → ${shown(edge.at)}  ${number(edge.weight, 3)}`]));
  }

  search() {
    const word = this.find.value.trim().toLowerCase();
    if (!word) { this.strongest(); return; }
    const places = keyWords().flatMap((token, key) => (token.toLowerCase().includes(word) ? [[Math.min(key, this.rows - 1), key, `column ${key}: ${shown(token)}`]] : []));
    this.list(places.slice(0, 100));
    say(`${places.length} places`);
  }

  list(places) {
    this.listed.textContent = this.find.value.trim() ? "Places found" : "Strongest arrows";
    this.found.replaceChildren(...places.map(([row, key, words]) => make("li", {}, make("button", { onclick: () => this.go(row, key) }, words))));
  }
}

const COLOURS = table(false), SIGNED = table(true);
const clamp = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));
const placed = (place, words) => (words[place] === undefined ? String(place) : `${place} ${shown(words[place])}`);

customElements.define("transom-map", AttentionMap);
