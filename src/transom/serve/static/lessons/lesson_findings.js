// What the checker found in an edited lesson: beside its line, and as a list.

import { button, make } from "../dom.js";

const WORDS = {
  right: "right",
  wrong: "wrong",
  slip: "a slip, as marked",
  "no slip": "no slip",
  malformed: "malformed",
};
const isBad = ({ verdict }) => verdict !== "right" && verdict !== "slip";

// The lines again, invisible, each with what is wrong in it after its text.
export function overlayLines(lines, findings) {
  const bad = Map.groupBy(findings.filter(isBad), ({ line }) => Math.min(line, lines.length));
  const good = new Set(findings.filter((one) => !isBad(one)).map(({ line }) => line));
  return lines.flatMap((line, i) => {
    const found = bad.get(i + 1);
    const mark = good.has(i + 1) && !found ? [make("span", { class: "editor-good" }, "  ✓")] : [];
    const text = found?.map(({ complaint, causes }) => [complaint, ...causes.slice(0, 1)].join("; ")).join(" · ");
    return [line, ...mark, text ? make("span", { class: "editor-bad" }, `  ✗ ${text}`) : "", "\n"];
  });
}

// A list with the wrong ones first; a click leads to the line.
export function buildFindings(findings, goTo) {
  const ordered = [...findings.filter(isBad), ...findings.filter((one) => !isBad(one))];
  if (!ordered.length) return make("p", { class: "hint" }, "No claims yet: a [[claim]] says which figure is right.");
  return make("ul", { class: "findings" }, ordered.map((one) => finding(one, goTo)));
}

function finding(one, goTo) {
  const head = button(`Line ${one.line}: ${WORDS[one.verdict]}`, () => goTo(one.line), {
    class: isBad(one) ? "bad" : "",
  });
  const parts = [head, make("span", {}, ` ${one.complaint}`)];
  if (one.entries.length) parts.push(make("pre", { tabindex: 0 }, one.entries.join("\n")));
  if (isBad(one)) parts.push(...one.causes.map((cause) => make("p", { class: "lesson-cause" }, `Likely: ${cause}.`)));
  return make("li", {}, parts);
}
