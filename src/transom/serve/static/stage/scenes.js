// The scenes of the story: each has its place on the stage, one sentence with this run's numbers, one thing to do.

import { headName } from "../attention_names.js";
import { button, make } from "../dom.js";
import { isOffline } from "../offline.js";
import { formatNumber, formatPercent, wordOf } from "../token_text.js";
import { at, queryMeetsKeys, quote, softmax, values } from "./scenes_of_a_row.js";
import { previousTokenScores, storyHead } from "./story_head.js";
import { FEED_FORWARD } from "./place.js";
import { placeOf, sidesOf } from "./shape.js";

const words = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve"];

export function scenesOf(stage) {
  const { run } = stage;
  const first = run.attentions[0];
  const head = storyHead(stage);
  const isWriting = stage.shape.predicts;
  return [
    pieces(stage),
    vectors(stage, head),
    everyPiece(stage),
    queryMeetsKeys(stage, head),
    softmax(stage, head),
    values(stage, head),
    manyHeads(stage, first),
    run.model && !isOffline ? eachAlone(stage, head) : null,
    isWriting ? future(stage) : null,
    takeOut(stage, head),
    isWriting ? again(stage) : null,
  ].filter((scene) => scene);
}

const whole = { level: 1, row: null, key: null };

function pieces({ run, shape }) {
  const count = shape.lanes[0].tokens.length;
  return {
    place: () => whole,
    sentence: () => `The model sees ${count} pieces, not words.`,
    task: "Write a sentence of your own above and run it: long words break into several pieces.",
    attempt: () =>
      make(
        "p",
        { class: "pieces" },
        run.tokens.slice(0, 24).map((token) => make("span", { class: "piece" }, wordOf(token))),
      ),
  };
}

function vectors(stage, head) {
  const found = stage.data.row(head.attention, head.head, head.row);
  const size = found ? found.Q.length * stage.run.attentions[head.attention].heads : null;
  return {
    place: () => whole,
    sentence: () => `Each piece becomes ${size ?? "many"} numbers, and its place in the sentence is added.`,
    task: "Watch: each token rides its rail, and every block adds something to it. Play shows it again.",
  };
}

function everyPiece(stage) {
  const [lane] = stage.shape.lanes;
  const name = lane.side === "source"
    ? "The encoder lets every piece look at every other."
    : "Attention lets every piece look at others.";
  return {
    place: () => whole,
    sentence: () => name,
    task: `Tap a token at the ${stage.level?.layout?.tall ? "top" : "left"}, such as ${
      quote(lane.tokens[Math.min(2, lane.tokens.length - 1)])
    }: the ribbons show what it reads.`,
  };
}

// Find the head that looks one place back.
function manyHeads(stage, first) {
  const { attention, scores } = previousTokenScores(stage) ?? { attention: first.index, scores: [] };
  const { heads } = stage.run.attentions[attention];
  const best = scores.indexOf(Math.max(...scores));
  return {
    place: () => ({ level: 2, attention, head: 0, row: null, key: null }),
    sentence: () => `${words[heads] ?? heads} heads do this at once, each in its own way.`,
    task: "Which of them looks one place back? Look for a line just under the diagonal.",
    attempt: (answer, onAnswer) => {
      const choices = scores.map((_, head) => button(`head ${head}`, () => onAnswer(head), { type: "button" }));
      const verdict = answer === undefined ? [] : [
        make(
          "p",
          { role: "status" },
          `Head ${answer} gives the token before ${formatPercent(scores[answer])} of its attention. ${
            answer === best ? "That is the most of all." : `Head ${best} gives it ${formatPercent(scores[best])}.`
          }`,
        ),
      ];
      return [make("div", { class: "choices" }, choices), ...verdict];
    },
  };
}

// The feed-forward part of the block that the story tells of.
function eachAlone(stage, head) {
  const { attention, row } = head;
  const parts = placeOf(stage.shape, attention).block.parts;
  const place = { level: 3, attention: parts[0].index, part: FEED_FORWARD, row, unit: null, key: null };
  const found = () => stage.data.feedForward({ ...stage.now, ...place });
  const open = () => stage.open({ ...place, level: 4, unit: found().units[0].unit });
  return {
    place: () => place,
    sentence: () => {
      const part = found();
      if (!part) return "Then a feed-forward part works on each token alone.";
      return `Then ${quote(part.token)} alone meets ${
        part.count.toLocaleString("en")
      } hidden units; ${part.on} are on.`;
    },
    task: "Open the unit that did most, and see its arithmetic.",
    attempt: () => found() ? [button("Open the unit that did most", open, { type: "button" })] : [],
  };
}

function future(stage) {
  const own = stage.run.attentions.find((one) => one.role === "decoder" || one.role === "self");
  const attention = own?.index ?? stage.run.attentions.at(-1).index;
  const row = Math.min(1, stage.run.attentions[attention].queries - 1);
  return {
    place: () => ({ level: 4, attention, head: 0, row, key: null }),
    sentence: () => "Nobody may see what is not written yet.",
    task: "Look for the tokens still to come: they are masked. They have no score, and get no weight.",
  };
}

function takeOut(stage, head) {
  const { run, shape } = stage;
  const sides = sidesOf(shape, head.attention);
  const found = stage.data.row(head.attention, head.head, head.row)?.keys.find((one) => one.key === head.key);
  const [row, key] = [sides.rows.tokens[head.row], sides.keys.tokens[head.key]];
  const edge = [{ layer: run.attentions[head.attention].name, head: head.head, query: head.row, key: head.key }];
  return {
    place: () =>
      at(head, 5, {
        row: head.row,
        key: head.key,
        token: shape.predicts && sides.rows === shape.last ? head.row : null,
      }),
    sentence: () =>
      `In ${headName(head.attention, head.head, run)}, ${quote(row)} reads ${quote(key)}: ${
        found ? formatNumber(found.weight, 3) : "…"
      }. Did it matter?`,
    task: run.model
      ? "Take this arrow out, and see what would have been written."
      : "This is a trace without its model, so nothing can be taken out.",
    attempt: () => (run.model && !stage.changes
      ? [
        button("Take this arrow out", () => stage.knockOut(edge, `${quote(row)} → ${quote(key)}`), {
          type: "button",
          class: "take-out",
        }),
      ]
      : []),
  };
}

function again(stage) {
  return {
    place: () => ({ ...whole, token: 0 }),
    sentence: () => "The chosen token joins the text, and all begins again.",
    task: "Play it to the end. Then try a sentence of your own.",
    attempt: () => [button("Play to the end", () => stage.player.play(), { type: "button" })],
  };
}
