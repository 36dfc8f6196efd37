// What is said about each level of the stage: a title, one or two sentences, and one thing to do.

import { formatNumber, formatPercent, wordOf } from "../token_text.js";
import { largest } from "./draw_tools.js";
import { placeOf, sidesOf } from "./shape.js";

const KINDS = {
  "encoder_decoder": "An encoder reads the source; a decoder writes the target, one token at a time.",
  decoder: "A decoder reads the text from left to right, and says what may come next.",
  encoder: "An encoder reads the whole text at once, and gives each token a new vector.",
};

export function sentences(stage) {
  const found = [model, block, head, row, number][stage.now.level - 1](stage);
  return { ...found, spoken: `${found.title}. ${found.say.join(" ")}` };
}

const quote = (token) => `“${wordOf(token ?? "")}”`;

function model({ run, shape, now }) {
  const kind = run.model?.kind ?? (shape.lanes.length > 1 ? "encoder_decoder" : "decoder");
  if (!shape.predicts) {
    return {
      title: "The whole model",
      say: [KINDS[kind]],
      act: "Tap a token to see what it reads, or a head to go in.",
    };
  }
  const next = run.likely[now.token][0];
  const sure = next.probability > 0.9 ? "It is sure" : next.probability > 0.5 ? "It is fairly sure" : "It is not sure";
  const after = `After ${quote(shape.last.tokens[now.token])} it expects ${quote(next.token)}: ${
    formatPercent(next.probability)
  }. ${sure}.`;
  return { title: "The whole model", say: [KINDS[kind], after], act: "Choose another token, or a head to go in." };
}

function block({ shape, now }) {
  const { block: found, lane } = placeOf(shape, now.attention);
  const heads = found.parts[0].heads;
  const two = found.parts.length > 1
    ? "twice: in what is written so far, and in the source"
    : "at once, each in its own way";
  const say = [
    `${heads} heads read ${two}. What they bring is added to each token.`,
    "Then a feed-forward part works on each token alone.",
  ];
  const masked = lane.side === "target" ? "Nobody sees what is not written yet." : "";
  return {
    title: `${found.label[0].toUpperCase()}${found.label.slice(1)}`,
    say: [...say, ...(masked ? [masked] : [])],
    act: "Choose a head.",
  };
}

function head(stage) {
  const { shape, now, data, run } = stage;
  const place = placeOf(shape, now.attention);
  const title = `Head ${now.head}`;
  const where = `${place.block.label}, ${place.part.kind === "cross" ? "cross-attention" : "self-attention"}.`;
  const found = stage.level?.found;
  if (!found?.weights) {
    return { title, say: [where, "Every weight of it, to zoom into."], act: "Zoom in to read single weights." };
  }
  const index = stage.level.row;
  const key = largest(found.weights[index]);
  const reads = `${quote(found.rows[index])} reads ${quote(found.keys[key])} with ${
    formatNumber(found.weights[index][key], 3)
  } of its attention.`;
  const worth = data.influence(now.token);
  const change = worth?.by === "influence" ? worth.heads[now.attention]?.[now.head] : null;
  const next = run.written[now.token] ?? run.likely[now.token]?.[0].token;
  const matters = typeof change === "number"
    ? [
      `For ${quote(next)} the head is worth about ${formatNumber(Math.abs(change), 3)} nats${
        change > 0 ? ", against it" : ""
      }.`,
    ]
    : [];
  return { title, say: [where, reads, ...matters], act: "Choose a row of the matrix to see how it came about." };
}

function row({ shape, now, data }) {
  const sides = sidesOf(shape, now.attention);
  const found = data.row(now.attention, now.head, now.row);
  const name = quote(sides.rows.tokens[now.row]);
  const title = `${name} looks around`;
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
  const edge = `${quote(sides.rows.tokens[now.row])} → ${quote(sides.keys.tokens[now.key])}`;
  const title = found ? `One weight: ${formatNumber(found.weight, 4)}` : "One weight";
  const say = [
    `${edge}, number by number.`,
    "A weight says what was read. Whether it mattered, only taking it out can tell.",
  ];
  return { title, say, act: "" };
}
