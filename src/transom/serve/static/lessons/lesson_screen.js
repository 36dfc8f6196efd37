// One screen of a lesson: what it says and asks on the left; matrices, pictures and a number to change on the right.

import { parseDrawing } from "../arrows_drawing.js";
import { hint, make } from "../dom.js";
import { buildChange } from "./lesson_change.js";
import { lessonMatrix } from "./lesson_matrix.js";
import { buildFrames } from "./lesson_player.js";
import { buildQuestion, buildVerdict } from "./lesson_question.js";
import { LessonStage } from "./lesson_stage.js";

// `request` names the lesson and the screen to the server, null where there is none; `verdict` is undefined before an
// answer; `onAnswer` gets it.
export function buildScreen(screen, { number, request, verdict, onAnswer, question }) {
  const asks = screen.predict !== null && verdict === undefined;
  const text = make("div", { class: "lesson-text" }, make("h2", { tabindex: -1 }, screen.title));
  if (number === 0 && question) text.append(make("p", { class: "lesson-question" }, question));
  text.append(...screen.says.map((one) => make("p", {}, one)));
  if (screen.error) text.append(make("p", { class: "lesson-error" }, screen.error));
  if (asks) text.append(buildQuestion(screen.predict, request, onAnswer));
  else if (screen.predict) text.append(buildVerdict(screen.predict, verdict));
  if (!asks) text.append(...screen.claims.map(buildClaim));
  const figures = asks ? [hidden(screen)] : figureParts(screen, request);
  const shown = figures.filter((part) => part !== null);
  const box = shown.length ? make("div", { class: "lesson-figures" }, ...shown) : null;
  const isWide = screen.pictures.length > 0 && !screen.motion && !screen.matrices.length;
  const layout = box ? (isWide ? "wide" : "") : "text-only";
  return make("div", { class: `lesson-screen ${layout}` }, text, box);
}

function hidden(screen) {
  const names = screen.matrices.map((panel) => panel.name);
  if (!names.length) return null;
  return make("p", { class: "lesson-hidden" }, `${names.join(", ")}: shown after your answer.`);
}

function figureParts(screen, request) {
  return [
    screen.matrices.length ? buildMatrices(screen) : null,
    buildPicture(screen),
    screen.change ? buildChange(screen.change, request) : null,
  ];
}

function buildMatrices(screen) {
  const arithmetic = make("p", { class: "arithmetic", "aria-live": "polite" }, screen.worked);
  const figures = screen.matrices.map((panel) =>
    lessonMatrix(panel, (i, j) => (arithmetic.textContent = panel.opens?.[i]?.[j] ?? ""))
  );
  const opens = screen.matrices.some((panel) => panel.opens?.length);
  const note = opens ? hint("Choose a number to see how it was computed.") : null;
  return make("div", {}, make("div", { class: "lesson-matrices" }, figures), arithmetic, note);
}

function buildPicture({ pictures, motion }) {
  const drawings = pictures.map(parseDrawing);
  if (!motion) {
    if (drawings.length > 1) return buildFrames(drawings);
    return drawings.length
      ? make("div", { class: "lesson-picture", tabindex: 0, role: "group", "aria-label": "Picture" }, drawings)
      : null;
  }
  const { element } = new LessonStage(motion);
  if (!drawings.length) return element;
  const still = make("div", { class: "lesson-picture" }, drawings);
  return make("div", {}, element, make("details", {}, make("summary", {}, "The same as pictures"), still));
}

const MARKS = { right: "✓", slip: "✗", wrong: "✗ Wrong:", "no slip": "✗ No slip:" };

function buildClaim(claim) {
  const place = make("div", { class: `lesson-claim ${claim.verdict === "right" ? "right" : "wrong"}` });
  place.append(make("p", {}, `${MARKS[claim.verdict]} ${claim.says}`));
  if (claim.figures.length) place.append(make("pre", { tabindex: 0 }, claim.figures.join("\n")));
  place.append(...claim.causes.map((cause) => make("p", { class: "lesson-cause" }, `Why: ${cause}.`)));
  return place;
}
