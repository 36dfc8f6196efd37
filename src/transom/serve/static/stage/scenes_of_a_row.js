// Three scenes of the story inside one row: a query meets keys, softmax, values.

import { button, make } from "../dom.js";
import { formatNumber, wordOf } from "../token_text.js";
import { softmaxPlayground } from "./softmax_playground.js";

export const quote = (token) => `“${wordOf(token ?? "")}”`;

// A place in a head, as far as it is given.
export const at = (head, level, more = {}) => ({
  level,
  attention: head.attention,
  head: head.head,
  row: null,
  key: null,
  ...more,
});

export function queryMeetsKeys(stage, head) {
  const found = stage.data.row(head.attention, head.head, head.row);
  const open = found?.keys.filter((key) => key.score !== null) ?? [];
  const best = open.reduce((one, other) => (one && one.score >= other.score ? one : other), null);
  return {
    place: () => at(head, 4, { row: head.row }),
    begins: 0,
    sentence: () => `${quote(found?.token)} asks: its query meets every key, and each pair gives one score.`,
    task: "Guess first: which score is the largest?",
    attempt: (answer, onAnswer) => {
      const guess = (key) => {
        onAnswer(key.key);
        stage.player.play(true);
      };
      const choices = open.slice(0, 12).map((key) => button(wordOf(key.token), () => guess(key), { type: "button" }));
      const verdict = answer === undefined ? [] : [
        make(
          "p",
          { role: "status" },
          `${answer === best.key ? "Right" : "Not this time"}: ${quote(best.token)} has the largest score, ${
            formatNumber(best.score, 2)
          }.`,
        ),
      ];
      return [make("div", { class: "choices" }, choices), ...verdict];
    },
  };
}

export function softmax(stage, head) {
  const found = stage.data.row(head.attention, head.head, head.row);
  return {
    place: () => at(head, 4, { row: head.row }),
    sentence: () => "Softmax turns scores into shares of 1.",
    task: "Drag one score: the others give way. (The numbers on the stage stay the model’s own.)",
    attempt: () => (found ? softmaxPlayground(found) : []),
  };
}

export function values(stage, head) {
  return {
    place: () => at(head, 4, { row: head.row }),
    plays: true,
    sentence: () => "Values flow in by their share, and add up.",
    task: "Open one number: choose a key on the stage.",
    attempt: () => [
      button("Open the largest weight", () => stage.open(at(head, 5, { row: head.row, key: head.key })), {
        type: "button",
      }),
    ],
  };
}
