// How far a person has come in each lesson, kept in this browser.

const KEY = "transom-lessons";
const DRAFT_KEY = "transom-lesson-draft";
let memory = {}; // where the browser keeps nothing, as in a frame of a notebook

function read(key) {
  try {
    return localStorage.getItem(key) ?? memory[key] ?? null;
  } catch {
    return memory[key] ?? null;
  }
}

function write(key, text) {
  memory = { ...memory, [key]: text };
  try {
    localStorage.setItem(key, text);
  } catch {
    // It stays in memory until the page is closed.
  }
}

// What is kept may have been written by anyone with this address: only numbers are taken from it.
const count = (value) => (Number.isInteger(value) && value >= 0 && value < 10_000 ? value : 0);

function parse(text) {
  try {
    return Object.entries(JSON.parse(text) ?? {});
  } catch {
    return [];
  }
}

// By the name of each lesson: the furthest screen from 1, of how many, and how many answers were right of those given.
export function loadProgress() {
  const lessons = parse(read(KEY)).map(([name, one]) => [name, {
    screen: count(one?.screen),
    screens: count(one?.screens),
    right: count(one?.right),
    asked: count(one?.asked),
  }]);
  return Object.fromEntries(lessons);
}

function save(name, change) {
  const all = loadProgress();
  const before = all[name] ?? { screen: 0, screens: 0, right: 0, asked: 0 };
  write(KEY, JSON.stringify({ ...all, [name]: { ...before, ...change(before) } }));
}

export function reachScreen(name, screen, screens) {
  save(name, (before) => ({ screen: Math.min(screens, Math.max(before.screen, screen)), screens }));
}

export function countAnswer(name, isRight) {
  save(name, ({ right, asked }) => ({ right: right + Number(isRight), asked: asked + 1 }));
}

export const isFinished = (one) => Boolean(one) && one.screens > 0 && one.screen >= one.screens;

export function summary(one) {
  if (!one || !one.screen) return "";
  const answers = one.asked ? `, ${one.right} of ${one.asked} answers right` : "";
  return (isFinished(one) ? "done" : `at ${one.screen} of ${one.screens}`) + answers;
}

export function forgetProgress() {
  write(KEY, "{}");
}

// The text in the editor, and the lesson it was begun from.
export function loadDraft() {
  try {
    const { name, from, text } = JSON.parse(read(DRAFT_KEY)) ?? {};
    return typeof text === "string" && typeof name === "string" ? { name, from: String(from), text } : null;
  } catch {
    return null;
  }
}

export function saveDraft(draft) {
  write(DRAFT_KEY, JSON.stringify(draft));
}
