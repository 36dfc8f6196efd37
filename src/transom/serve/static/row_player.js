// A button that plays the rows of a head one after the other: where each looks while the model predicts the next token.

import { button } from "./dom.js";
import { prefersReducedMotion } from "./state.js";

const ROW_PAUSE = 700; // milliseconds
const PLAY = "Play, row by row";

export class RowPlayer {
  // `view` has `data.rows`, the chosen `row`, and `chooseRow(row, toggles)`.
  constructor(view) {
    this.view = view;
    this.element = button(PLAY, () => (this.timer ? this.pause() : this.play()));
  }

  play() {
    const { view } = this;
    const rows = view.data.rows.length;
    this.element.textContent = "Pause";
    let row = view.row === null || view.row >= rows - 1 ? 0 : view.row + 1;
    const tick = () => {
      if (row >= rows) {
        this.pause();
        return;
      }
      view.chooseRow(row, false);
      row += 1;
      this.timer = setTimeout(tick, prefersReducedMotion() ? 3 * ROW_PAUSE : ROW_PAUSE);
    };
    tick();
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.element.textContent = PLAY;
  }
}
