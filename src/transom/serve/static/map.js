// <transom-map>: a head's whole attention, to zoom into like a street map, down to single weights.

import { get, progress, tile } from "./api.js";
import { table } from "./colours.js";
import { attempt, attention, keyWords, rowWords, say, state } from "./state.js";
import { make, number, shown } from "./words.js";

const TILE = 256, TALL = 560, MARGIN = 92, LABELS_FROM = 17, NUMBERS_FROM = 44, MOST_TILES = 160;

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
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": "Map of attention: arrow keys move, plus and minus zoom, Enter reads the cell in the middle", height: TALL });
    this.canvas.style.height = `${TALL}px`;
    this.said = make("p", { class: "hint", "aria-hidden": "true" }, " ");
    this.waiting = make("progress", { max: 1, value: 0, hidden: true, "aria-label": "working out the whole map" });
    this.pool = make("select", { "aria-label": "What a cell shows", onchange: () => this.again() }, make("option", { value: "max" }, "largest weight of a cell"), make("option", { value: "mean" }, "mean weight of a cell"));
    this.sink = make("input", { type: "checkbox", id: "sink", checked: true, onchange: () => this.again() });
    this.logs = make("input", { type: "checkbox", id: "logs", onchange: () => this.ask() });
    this.find = make("input", { id: "find", size: 12, placeholder: "a token", oninput: () => this.search() });
    this.found = make("ul", { class: "list", "aria-label": "Places" });
    this.against = make("select", { "aria-label": "Compare with", onchange: () => this.again() });
    const button = (label, title, act) => make("button", { "aria-label": title, title, onclick: act }, label);
    this.replaceChildren(make("div", { class: "card" }, make("div", { class: "row" }, button("+", "Zoom in", () => this.zoom(2)), button("−", "Zoom out", () => this.zoom(0.5)), button("all", "The whole map", () => this.whole()), this.pool,
      make("label", {}, this.sink, " ", make("dfn", { "data-word": "sink" }, "first token"), " shown"), make("label", {}, this.logs, " log scale"), make("label", {}, "compare with ", this.against), this.legend()), this.waiting,
      make("div", { class: "beside" }, make("div", {}, this.canvas, this.said), make("div", {}, make("label", { for: "find" }, "Find "), this.find, make("h2", {}, "Strongest arrows"), this.found))));
    this.listen();
  }

  // What the colours mean, from least to most.
  legend() {
    const bar = make("span", { class: "legend", role: "img", "aria-label": "white is 0, dark blue is 1; in a comparison orange is less, blue is more" });
    return make("span", { class: "hint" }, "0 ", bar, " 1");
  }

  listen() {
    const canvas = this.canvas, fingers = new Map();
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(2 ** (-event.deltaY / 240), this.at(event)); }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); fingers.set(event.pointerId, event); });
    canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) { this.read(this.at(event)); return; }
      if (fingers.size === 1) this.move((before.offsetX - event.offsetX) / this.scale, (before.offsetY - event.offsetY) / this.scale);
      else { const [other] = [...fingers.values()].filter((one) => one.pointerId !== event.pointerId); this.zoom(distance(event, other) / Math.max(1, distance(before, other)), this.at(event)); }
      fingers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
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
  at(event) { return { x: this.x + (event.offsetX - MARGIN - this.wide / 2) / this.scale, y: this.y + (event.offsetY - MARGIN / 2 - this.tall / 2) / this.scale }; }

  get wide() { return this.canvas.clientWidth - MARGIN; }

  get tall() { return TALL - MARGIN / 2; }

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
    this.runs();
    this.strongest();
    await this.overview();
    this.ask();
  }

  // The other runs, to see what is different here.
  async runs() {
    const listed = (await attempt(() => get("/api/state")))?.runs.filter((one) => one.run !== state.now.run) ?? [], now = this.against.value;
    this.against.replaceChildren(make("option", { value: "" }, "none"), ...listed.map((one) => make("option", { value: one.run, selected: one.run === now }, `${one.run}: ${(one.text ?? "a trace").slice(0, 40)}`)));
  }

  async overview() {
    const { run, attention: index, head } = state.now;
    if (this.top < 4) return;
    this.waiting.hidden = false;
    await attempt(() => progress(`/api/runs/${run}/${index}/overview`, { head }, (said) => { this.waiting.value = said.share; }));
    this.waiting.hidden = true;
  }

  again() { this.tiles.clear(); this.strongest(); this.ask(); }

  whole() {
    [this.x, this.y] = [this.keys / 2, this.rows / 2];
    this.scale = Math.min(this.wide / this.keys, this.tall / this.rows, 64) || 1;
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
    if (canvas.width !== Math.round(canvas.clientWidth * dense)) [canvas.width, canvas.height] = [Math.round(canvas.clientWidth * dense), Math.round(TALL * dense)];
    const pen = canvas.getContext("2d");
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, TALL);
    pen.save();
    pen.beginPath();
    pen.rect(MARGIN, MARGIN / 2, this.wide, this.tall);
    pen.clip();
    pen.imageSmoothingEnabled = false;
    const level = clamp(Math.floor(Math.log2(1 / this.scale)), 0, this.top);
    for (let coarse = this.top; coarse >= level; coarse -= 1) this.drawLevel(pen, coarse, coarse === level);
    pen.restore();
    if (this.scale >= LABELS_FROM) this.labels(pen); else this.ticks(pen);
    state.set({ x: Math.round(this.x * 10) / 10, y: Math.round(this.y * 10) / 10, zoom: Math.round(this.scale * 1e4) / 1e4 });
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
          pen.drawImage(this.imaged(found), this.px(found.keys[0]), this.py(found.rows[0]), found.shape[1] * found.side * this.scale, found.shape[0] * found.side * this.scale);
          if (wanted && level === 0 && this.scale >= NUMBERS_FROM) this.numbers(pen, found, seen);
        } else if (!found && wanted) this.fetch(level, row, column, name);
      }
    }
  }

  px(key) { return MARGIN + this.wide / 2 + (key - this.x) * this.scale; }

  py(row) { return MARGIN / 2 + this.tall / 2 + (row - this.y) * this.scale; }

  async fetch(level, row, column, name) {
    const { run, attention: index, head } = state.now, { signal } = this.leaving;
    this.tiles.set(name, {});
    try {
      const found = await tile(`/api/runs/${run}/${index}/tile`, { head, level, row, column, pool: this.pool.value, sink: this.sink.checked, against: this.against.value || null }, signal);
      if (signal.aborted) return;
      this.tiles.set(name, { ...found, image: new Map() });
      if (this.tiles.size > MOST_TILES) this.tiles.delete(this.tiles.keys().next().value);
      this.ask();
    } catch (error) { this.tiles.delete(name); if (error.name !== "AbortError") attempt(() => { throw error; }); }
  }

  // A tile as pixels, once for each way of colouring.
  imaged(found) {
    const logs = this.logs.checked, signed = Boolean(this.against.value), colours = signed ? SIGNED : COLOURS;
    if (found.image.has(logs)) return found.image.get(logs);
    const [rows, columns] = found.shape, image = new OffscreenCanvas(columns, rows), pen = image.getContext("2d"), pixels = pen.createImageData(columns, rows);
    found.numbers.forEach((value, i) => {
      const share = signed ? (clamp(value, -1, 1) + 1) / 2 : logs ? clamp(1 + Math.log10(Math.max(value, 1e-6)) / 6, 0, 1) : clamp(value, 0, 1) ** 0.6, at = Math.round(share * 255);
      pixels.data.set([colours[3 * at], colours[3 * at + 1], colours[3 * at + 2], 255], 4 * i);
    });
    pen.putImageData(pixels, 0, 0);
    found.image.set(logs, image);
    return image;
  }

  numbers(pen, found, seen) {
    pen.font = "12px system-ui";
    pen.textAlign = "center";
    for (let row = Math.max(found.rows[0], Math.floor(seen.upper)); row < Math.min(found.rows[1], seen.lower); row += 1) {
      for (let key = Math.max(found.keys[0], Math.floor(seen.left)); key < Math.min(found.keys[1], seen.right); key += 1) {
        const value = found.numbers[(row - found.rows[0]) * found.shape[1] + key - found.keys[0]];
        pen.fillStyle = value ** 0.6 > 0.6 ? "#ffffff" : "#101418";
        pen.fillText(value.toFixed(3), this.px(key + 0.5), this.py(row + 0.5) + 4);
      }
    }
  }

  labels(pen) {
    const seen = this.window(), [rows, keys] = [rowWords(), keyWords()], style = getComputedStyle(this);
    pen.font = "13px system-ui";
    pen.textAlign = "right";
    pen.fillStyle = style.getPropertyValue("--from");
    for (let row = Math.floor(seen.upper); row < seen.lower; row += 1) pen.fillText(rows[row] === undefined ? row : shown(rows[row]), Math.max(MARGIN, this.px(0)) - 6, this.py(row + 0.5) + 4, MARGIN - 8);
    pen.fillStyle = style.getPropertyValue("--at");
    for (let key = Math.floor(seen.left); key < seen.right; key += 1) {
      pen.save();
      pen.translate(this.px(key + 0.5), Math.max(MARGIN / 2, this.py(0)) - 6);
      if (this.scale < NUMBERS_FROM) pen.rotate(-0.7);
      pen.textAlign = this.scale < NUMBERS_FROM ? "left" : "center";
      pen.fillText(keys[key] === undefined ? key : shown(keys[key]), 0, 0, this.scale < NUMBERS_FROM ? 60 : this.scale);
      pen.restore();
    }
  }

  ticks(pen) {
    const seen = this.window(), step = 10 ** Math.ceil(Math.log10(70 / this.scale)), style = getComputedStyle(this);
    pen.font = "12px system-ui";
    pen.textAlign = "right";
    pen.fillStyle = style.getPropertyValue("--from");
    for (let row = Math.ceil(seen.upper / step) * step; row <= seen.lower; row += step) pen.fillText(`from ${row}`, Math.max(MARGIN, this.px(0)) - 6, this.py(row) + 4);
    pen.textAlign = "center";
    pen.fillStyle = style.getPropertyValue("--at");
    for (let key = Math.ceil(seen.left / step) * step; key <= seen.right; key += step) pen.fillText(`at ${key}`, this.px(key), Math.max(MARGIN / 2, this.py(0)) - 8);
  }

  // What is under a point, in words.
  read({ x, y }, aloud = false) {
    const row = Math.floor(y), key = Math.floor(x);
    if (row < 0 || key < 0 || row >= this.rows || key >= this.keys) { this.said.textContent = " "; return; }
    for (let level = 0; level <= this.top; level += 1) {
      const side = TILE * 2 ** level, found = this.tiles.get(`${level}/${Math.floor(row / side)}/${Math.floor(key / side)}`);
      if (!found?.image) continue;
      const value = found.numbers[Math.floor((row - found.rows[0]) / found.side) * found.shape[1] + Math.floor((key - found.keys[0]) / found.side)];
      const what = found.side === 1 ? `weight ${number(value)}` : `${this.pool.value === "max" ? "largest" : "mean"} weight of ${found.side} × ${found.side}: ${number(value)}`;
      const words = `row ${row} ${shown(rowWords()[row] ?? "")}, column ${key} ${shown(keyWords()[key] ?? "")}, ${what}`;
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

  list(places) { this.found.replaceChildren(...places.map(([row, key, words]) => make("li", {}, make("button", { onclick: () => this.go(row, key) }, words)))); }
}

const COLOURS = table(false), SIGNED = table(true);
const clamp = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));
const distance = (one, other) => Math.hypot(one.offsetX - other.offsetX, one.offsetY - other.offsetY);

customElements.define("transom-map", AttentionMap);
