// The routes that the browser answers itself, with the answers of transom/serve/routes.py.

import { measureAgreement } from "./agreement.js";
import { arrowsPicture } from "./arrows_picture.js";
import { edgeEffects } from "./edge_measures.js";
import { feedForwardUnits } from "./feed_forward.js";
import { RequestError } from "./request_error.js";
import { measureHeads, measureOneHead } from "./head_measures.js";
import { mapOverview, mapShape, mapTile, weightBlock } from "./map_tiles.js";
import { influenceBlock, mostInfluentialEdges, rankHeads } from "./output_estimates.js";
import { checkIndices, checkKnockOut, checkRun, FIELDS, parseQuery } from "./request_fields.js";
import { compareRuns, firstHead, knockOut, strongestEdges } from "./run_edges.js";
import { influenceForRow, meanWeights, residualSizes, rowArithmetic, thumbnails } from "./stage_queries.js";
import { stepsPicture } from "./steps_picture.js";

const ONLY_WITH_PYTHON = "needs Python: pip install transom, then transom serve";

const json = (data) => ({ status: 200, type: "application/json", headers: {}, body: JSON.stringify(data) });
const events = (list) => ({
  status: 200,
  type: "text/event-stream",
  headers: {},
  body: list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""),
});

function picture({ run, index, fields, view }) {
  if (view === "steps" && fields.format === "json") return json(stepsPicture(run, index, fields.head));
  if (view === "arrows" && fields.format === "svg") {
    return { status: 200, type: "image/svg+xml", headers: {}, body: arrowsPicture(run, index, fields) };
  }
  throw new RequestError(`the picture ${view}.${fields.format} ${ONLY_WITH_PYTHON}`);
}

function tile({ session, run, index, fields }) {
  const other = fields.against ? session.run(fields.against) : null;
  const { body, header } = mapTile(run, index, fields, other);
  return { status: 200, type: "application/octet-stream", headers: { Tile: JSON.stringify(header) }, body };
}

function smallMaps({ run, query }) {
  const { body, header } = thumbnails(run, parseQuery(FIELDS.thumbnails, query));
  return { status: 200, type: "application/octet-stream", headers: { Thumbnails: JSON.stringify(header) }, body };
}

function overview({ run, index, fields }) {
  return events([{ share: 0, ...mapShape(run, index) }, { ready: true, share: 1, ...mapOverview(run, index, fields) }]);
}

function beside({ session, run, query }) {
  return json(compareRuns(run, session.run(parseQuery(FIELDS.compare, query).other)));
}

function strongest({ run, index, fields }) {
  return json((fields.by === "weight" ? strongestEdges : mostInfluentialEdges)(run, index, fields));
}

// Of one attention: /api/runs/{run}/{attention}/{name}.
const OF_ATTENTION = {
  head: [FIELDS.head, ({ run, index, fields }) => json(measureOneHead(run, index, fields.head))],
  overview: [FIELDS.tile, overview],
  tile: [FIELDS.tile, tile],
  weights: [FIELDS.weights, ({ run, index, fields }) => json(weightBlock(run, index, fields))],
  influence: [FIELDS.edges, ({ run, index, fields }) => json(influenceBlock(run, index, fields))],
  strongest: [FIELDS.strongest, strongest],
  effects: [FIELDS.effects, ({ run, index, fields }) => json(edgeEffects(run, index, fields))],
  "feed_forward": [FIELDS.feedForward, ({ run, index, fields }) => json(feedForwardUnits(run, index, fields))],
  row: [FIELDS.row, ({ run, index, fields }) => json(rowArithmetic(run, index, fields))],
  picture: [FIELDS.picture, picture],
};

// Of one run: /api/runs/{run}/{name}.
const OF_RUN = {
  "GET heads": ({ run }) => json(measureHeads(run)),
  "GET measuring": () => events([{ ready: true }]),
  "GET telling": ({ run }) => json(firstHead(run)),
  "GET beside": beside,
  "GET thumbnails": smallMaps,
  "GET mean_weights": ({ run, query }) => json(meanWeights(run, parseQuery(FIELDS.window, query))),
  "GET residual": ({ run }) => json(residualSizes(run)),
  "GET influence": ({ run, query }) => json(influenceForRow(run, parseQuery(FIELDS.influence, query))),
  "GET ranking": ({ run, query }) => json(rankHeads(run, parseQuery(FIELDS.ranking, query))),
  "GET agreement": ({ run, query }) => json(measureAgreement(run, parseQuery(FIELDS.agreement, query))),
  "POST knock_out": ({ run, body }) => json(knockOut(run, checkKnockOut(body))),
  "GET page": () => unavailable("the run as a page"),
  "GET trace": () => unavailable("the run as a file"),
};

function unavailable(what) {
  throw new RequestError(`${what} ${ONLY_WITH_PYTHON}`);
}

function route(session, method, path, query, body, report) {
  const [, , part, number, name, rest, view] = path.split("/");
  if (part === "state") return json(session.toObject());
  if (part === "writing") return events([{ ready: true, run: session.runText(checkRun(body), report).toObject() }]);
  if (part !== "runs") return null;
  if (number === undefined) return method === "POST" ? json(session.runText(checkRun(body), report).toObject()) : null;
  const run = session.run(number);
  if (name === undefined) return json(run.toObject());
  const ofRun = Object.hasOwn(OF_RUN, `${method} ${name}`) ? OF_RUN[`${method} ${name}`] : null;
  if (ofRun) return ofRun({ session, run, query, body });
  if (!/^[0-9]{1,6}$/.test(name) || !Object.hasOwn(OF_ATTENTION, rest)) return null;
  const [kinds, answer] = OF_ATTENTION[rest];
  const fields = parseQuery(kinds, query);
  const isRow = kinds === FIELDS.picture; // elsewhere `token` is the row that is explained
  checkIndices(run.attention(Number(name)), { ...fields, token: isRow ? fields.token : null });
  return answer({ session, run, index: Number(name), fields, view });
}

// The answer to one request; `report` gets the tokens of a translation as they are written.
export function answerRequest(session, method, address, body, report) {
  const [path, query = ""] = address.split("?");
  const failed = (status, error) => ({ ...json({ error }), status });
  try {
    return route(session, method, path, query, body, report) ?? failed(404, "there is nothing at this address");
  } catch (error) {
    return failed(error instanceof RequestError ? 400 : 500, error.message);
  }
}
