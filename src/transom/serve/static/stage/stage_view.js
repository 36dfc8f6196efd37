// <transom-stage>: the whole model in one picture, and all that is inside it, level by level.

import { make } from "../dom.js";
import { announce, isAvailable, session, state, withErrors } from "../state.js";
import { StageData } from "./data.js";
import { levelClass } from "./levels.js";
import { forgotten, placeKey, validPlace } from "./place.js";
import { findWindows, measureStage, takeStep } from "./stage_size.js";
import { Player } from "./player.js";
import { Reading } from "./reading.js";
import { modelShape, placeOf } from "./shape.js";
import { StageHeader } from "./stage_header.js";
import { listenForKeys } from "./stage_keys.js";
import { dropOthers, takeOut } from "./taken_out.js";
import { zoom } from "./zoom.js";

const LEAST = 120; // pixels
const PLACE = ["level", "attention", "head", "row", "key", "token", "by", "scene", "part", "unit"];

class StageView extends HTMLElement {
  connectedCallback() {
    this.area = make("div", { class: "stage-area", role: "group", "aria-label": "The stage" });
    this.header = new StageHeader(this);
    this.player = new Player(this);
    this.reading = new Reading(this);
    const frame = make(
      "div",
      { class: "stage-frame" },
      this.reading.story.invitation(),
      this.header.element,
      this.area,
    );
    this.header.element.insertBefore(this.player.element, this.header.windows);
    this.replaceChildren(frame, this.reading.element);
    const stops = [state.on(["opened"], () => this.openRun()), state.on(PLACE, () => this.follow())];
    stops.push(state.on(["suggestion"], () => this.reading.show()), listenForKeys(this));
    this.resizing = new ResizeObserver(() => this.onResize());
    this.stopListening = () => stops.forEach((stop) => stop());
    this.openRun();
    this.resizing.observe(this);
  }

  disconnectedCallback() {
    this.stopListening();
    this.resizing.disconnect();
    this.player.pause();
    this.reading.agreement.close();
    this.data?.close();
  }

  get now() {
    return { ...state.now, by: state.now.by ?? "weight", ...validPlace(this.run, this.shape, state.now) };
  }

  laneOf({ attention }) {
    return placeOf(this.shape, attention).lane;
  }

  // Another run: all of it anew.
  openRun() {
    this.data?.close();
    this.run = session.run;
    this.shape = modelShape(this.run);
    Object.assign(this, { changes: null, withoutHead: new Map(), focus: null, moved: null });
    this.windows = findWindows(this);
    this.data = new StageData(this.run, this.windows, () => this.refresh());
    this.data.loadThumbnails();
    this.level?.element.remove();
    this.level = null;
    this.follow();
    this.withEncoder = true;
  }

  // Show the place that the address names.
  follow() {
    if (!this.run || !this.isConnected) return;
    const { now } = this;
    dropOthers(this, now);
    const key = placeKey(now, placeOf(this.shape, now.attention)?.block.path);
    this.keepInWindow(now);
    if (!this.level || key !== this.key) this.show(now, key);
    else this.level.refresh();
    this.header.show();
    this.reading.show();
  }

  // Show other tokens of a lane that is too long for the stage: those up to `last`.
  moveWindow(side, last) {
    this.moved = { ...this.moved, [side]: last };
    this.rebuild();
    this.follow();
  }

  rebuild() {
    this.windows = findWindows(this);
    this.data.setWindows(this.windows);
    this.key = null;
  }

  // A token outside the window moves it.
  keepInWindow(now) {
    const { side } = this.shape.last;
    const { first, count } = this.windows[side];
    const isMoved = this.moved?.[side] !== undefined && now.token === this.shownToken;
    this.shownToken = now.token;
    if (isMoved || (now.token >= first && now.token < first + count)) return;
    this.moved = { ...this.moved, [side]: undefined };
    this.rebuild();
  }

  show(now, key) {
    const before = this.level;
    const size = measureStage(this);
    if (size.width < LEAST) return; // it has no room yet
    [this.shownWidth, this.shownHeight] = [size.width, size.height];
    this.area.style.height = `${size.height}px`;
    this.area.dataset.level = now.level;
    const level = new (levelClass(now))(this, size);
    const isDeeper = before && now.level > before.number;
    const isOuter = before && now.level < before.number;
    const rect = isDeeper ? before.rectOf(now) : null;
    level.number = now.level;
    this.level = level;
    this.key = key;
    this.area.append(level.element);
    if (isDeeper) zoom(before.element, level.element, rect, true);
    else if (isOuter) zoom(level.element, before.element, level.rectOf(this.previous), false);
    else before?.element.remove();
    this.previous = now;
    this.player.settle(Boolean(level.duration));
    if (isDeeper && now.level > 3) this.player.play(true);
    if (before) announce(this.reading.sentence());
  }

  refresh() {
    if (!this.level || !this.isConnected) return;
    this.level.refresh();
    this.reading.show();
  }

  onResize() {
    const { width, height } = measureStage(this);
    const isSame = Math.abs(width - (this.shownWidth ?? 0)) < 2 && Math.abs(height - this.shownHeight) < 60;
    if (this.level && isSame) return;
    this.rebuild();
    this.level?.element.remove();
    this.level = null;
    this.follow();
  }

  // Go to a place; what is deeper than it is given up.
  open(place) {
    if (place.attention !== undefined && place.head !== undefined && !isAvailable(place.attention, place.head)) {
      announce("this copy does not contain that head");
      return;
    }
    state.set({ ...forgotten(place), ...place });
  }

  goOut() {
    const { level } = this.now;
    if (level > 1) this.open({ level: level - 1 });
    return level > 1;
  }

  step(by) {
    return takeStep(this, by);
  }

  chooseToken(token) {
    state.set({ token });
    return true;
  }

  chooseFocus(index) {
    this.focus = index;
    this.refresh();
  }

  // What a knock-out did to a row's prediction.
  changedRow(row) {
    return this.changes?.rows[row] ?? null;
  }

  async knockOut(edges, label) {
    await withErrors(() => takeOut(this, edges, label));
    dropOthers(this, this.now);
    this.refresh();
    this.reading.element.querySelector(".changed")?.scrollIntoView({ block: "nearest" });
  }

  giveBack() {
    this.changes = null;
    this.refresh();
  }
}

customElements.define("transom-stage", StageView);
