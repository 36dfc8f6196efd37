// What is said about each level of the stage: a title, one or two sentences, and one thing to do.

import { headName } from "../attention_names.js";
import { likeliestNote, nextOf, predictionTitle, quote, surenessSentence } from "../prediction_text.js";
import { formatNumber, formatPercent, wordAt } from "../token_text.js";
import { largest } from "./draw_tools.js";
import { feedForwardSentences } from "./feed_forward_text.js";
import { placeOf, sidesOf } from "./shape.js";
import { worthOf, worthSentence } from "./worth_text.js";

const KINDS = {
  "encoder_decoder": "An encoder reads the source; a decoder writes the target, one token at a time.",
  decoder: "A decoder reads the text from left to right, and says what may come next.",
  encoder: "An encoder reads the whole text at once, and gives each token a new vector.",
};

export function sentences(stage) {
  const { level, part } = stage.now;
  const found = part ? feedForwardSentences(stage) : [model, block, head, row, number][level - 1](stage);
  return { ...found, spoken: `${found.title}. ${found.say.join(" ")}` };
}

function model({ run, shape, now }) {
  const kind = run.model?.kind ?? (shape.lanes.length > 1 ? "encoder_decoder" : "decoder");
  const next = shape.predicts ? nextOf(run, now.token) : null;
  if (!next) {
    return {
      title: "The whole model",
      say: [KINDS[kind]],
      act: "Tap a token to see what it reads, or a head to go in.",
    };
  }
  const sure = surenessSentence(run, now.token);
  const how = `Each token predicts the next one. To ask about ${quote(next.token)}, choose the token before it: ${
    quote(shape.last.tokens[now.token])
  } is chosen now.`;
  return {
    title: predictionTitle(shape.last.tokens[now.token], next),
    say: [[sure, likeliestNote(next)].filter((one) => one).join(" "), how, KINDS[kind]],
    act: "Choose another token, or a head to go in.",
  };
}

function block({ shape, now, run, data }) {
  const { block: found, lane } = placeOf(shape, now.attention);
  const heads = found.parts[0].heads;
  const two = found.parts.length > 1
    ? "twice: in what is written so far, and in the source"
    : "at once, each in its own way";
  const say = [
    `${heads} heads read ${two}. What they bring is added to each token.`,
    "Then a feed-forward part works on each token alone.",
  ];
  const next = data.influence(now.token)?.by === "influence" ? nextOf(run, now.token) : null;
  if (next) say.push(`Under each head: how likely ${quote(next.token)} is with it → without it, an estimate.`);
  const masked = lane.side === "target" ? "Nobody sees what is not written yet." : "";
  return {
    title: `${found.label[0].toUpperCase()}${found.label.slice(1)}`,
    say: [...say, ...(masked ? [masked] : [])],
    act: "Choose a head.",
  };
}

function head(stage) {
  const { now, run } = stage;
  const title = headName(now.attention, now.head, run);
  const found = stage.level?.found;
  if (!found?.weights && !stage.level?.isLong) return { title, say: [], act: "" };
  if (!found?.weights) {
    return { title, say: ["Every weight of it, to zoom into."], act: "Zoom in to read single weights." };
  }
  const does = stage.data.description(now.attention, now.head);
  const index = stage.level.row;
  const key = largest(found.weights[index]);
  const reads = `“${wordAt(found.rows, index)}” gives “${wordAt(found.keys, key)}” ${
    formatPercent(found.weights[index][key])
  } of its attention.`;
  const worth = worthSentence(worthOf(stage, now.attention, now.head));
  return {
    title,
    say: [...(does ? [does] : []), reads, ...(worth ? [worth] : [])],
    act: "Choose a row of the matrix to see how it came about.",
  };
}

function row({ shape, now, data }) {
  const sides = sidesOf(shape, now.attention);
  const found = data.row(now.attention, now.head, now.row);
  const title = `“${wordAt(sides.rows.tokens, now.row)}” looks around`;
  if (!found) return { title, say: [], act: "" };
  const best = found.keys.reduce((one, other) => (other.weight > one.weight ? other : one));
  const say = [
    `Its query meets every key: the ${found.Q.length} products, added up and scaled, are a score.`,
    `Softmax makes weights of the scores; ${quote(best.token)} gets ${
      formatNumber(best.weight, 3)
    }. Each value flows in by its weight.`,
  ];
  if (found.masked) say.push(`${found.masked} tokens are still to come: masked, they stay dark.`);
  return { title, say, act: "Play it, or choose a key for its arithmetic." };
}

function number({ shape, now, data }) {
  const sides = sidesOf(shape, now.attention);
  const found = data.row(now.attention, now.head, now.row)?.keys.find((one) => one.key === now.key);
  const edge = `“${wordAt(sides.rows.tokens, now.row)}” → “${wordAt(sides.keys.tokens, now.key)}”`;
  const title = found ? `One weight: ${formatNumber(found.weight, 4)}` : "One weight";
  const say = [
    `${edge}, number by number.`,
    "A weight says what was read. Whether it mattered, only taking it out can tell.",
  ];
  return { title, say, act: "" };
}
