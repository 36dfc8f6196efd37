// Runs the browser's engine outside a browser: reads a JSON object from standard input, and writes the answers.
//
//   { folder, texts }      each text tokenised, translated by beam search, and written greedily
//   { folder, requests }   the answers of the routes, in turn: [method, path, body]

import { answerRequest } from "../../src/transom/serve/static/engine/engine_routes.js";
import { EngineSession } from "../../src/transom/serve/static/engine/engine_session.js";
import { FILES, Translator } from "../../src/transom/serve/static/engine/translator.js";

const given = JSON.parse(await new Response(Deno.stdin.readable).text());
const files = Object.fromEntries(
  await Promise.all(FILES.map(async (name) => [name, (await Deno.readFile(`${given.folder}/${name}`)).buffer])),
);
const translator = new Translator(files, "the embedded translator");

function translateText(text) {
  const source = translator.encode(text);
  const start = performance.now();
  const beams = translator.translate(text);
  const seconds = (performance.now() - start) / 1000;
  const greedy = translator.findTarget(source, null);
  const pieces = translator.tokenizer.pieces(source);
  return { source, pieces, beams: beams.ids, text: beams.text, greedy, seconds };
}

async function answerAll(requests) {
  const session = new EngineSession(translator);
  const answers = [];
  for (const [method, path, body] of requests) {
    const answer = await answerRequest(session, method, path, body, () => {});
    const text = answer.body instanceof Uint8Array ? Array.from(answer.body) : answer.body;
    answers.push({ ...answer, body: text });
  }
  return answers;
}

const answers = given.texts ? given.texts.map(translateText) : await answerAll(given.requests);
console.log(JSON.stringify(answers));
