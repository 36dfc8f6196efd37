"""The table of routes: path, handler, and a sentence on what each is for."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from transom.serve import (
    feed_forward_queries,
    influence_queries,
    map_tiles,
    offline_page,
    pictures,
    request_fields,
    run_queries,
    stage_queries,
)
from transom.serve.answer_cache import Answer, as_answer
from transom.serve.lesson_routes import LESSON_ROUTES
from transom.serve.offline_answers import HeadIndex
from transom.serve.request_context import Json, RequestContext, Route, query_fields
from transom.serve.request_fields import parse_body
from transom.serve.worker import Event

if TYPE_CHECKING:
    from starlette.requests import Request


async def state(context: RequestContext, request: "Request") -> Json:
    return context.session.to_dict()


async def start_run(context: RequestContext, request: "Request") -> Json:
    fields = parse_body(request_fields.RunRequest, await request.body())
    run = await context.compute(
        request, lambda job: context.session.run_text(fields, lambda token: job.raise_if_cancelled())
    )
    return run.to_dict()


async def stream_run(context: RequestContext, request: "Request") -> AsyncIterator[Event]:
    """The same as events: each token when the model has chosen it, and at the end the run."""
    fields = parse_body(request_fields.RunRequest, await request.body())
    job = context.worker.submit(lambda job: context.session.run_text(fields, job.report))
    return context.job_events(job, lambda run: {"run": run.to_dict()})


async def one_run(context: RequestContext, request: "Request") -> Answer:
    run = context.run(request)
    return await context.compute_once(request, lambda job: run.to_dict())


async def heads(context: RequestContext, request: "Request") -> Answer:
    run = context.run(request)
    return await context.compute_once(request, lambda job: run_queries.measure_heads(run, job))


async def one_head(context: RequestContext, request: "Request") -> Answer:
    run, index, fields = context.attention_query(request, request_fields.HeadRequest)
    return await context.compute_once(request, lambda job: run_queries.measure_head(run, index, fields.head, job))


async def stream_heads(context: RequestContext, request: "Request") -> AsyncIterator[Event]:
    """The progress of measuring the heads, until the answer of `heads` is in the cache."""
    run = context.run(request)
    key = (run.number, request.scope["path"].replace("measuring", "heads"), b"")
    cached = context.cache[key]
    job = context.worker.submit(lambda job: cached or as_answer(run_queries.measure_heads(run, job)))

    def keep_answer(answer: Answer) -> Event:
        context.cache.keep(key, answer)
        return {}

    return context.job_events(job, keep_answer)


async def first_head(context: RequestContext, request: "Request") -> Answer:
    run = context.run(request)
    return await context.compute_once(request, lambda job: run_queries.first_head(run, job))


async def ranking(context: RequestContext, request: "Request") -> Answer:
    run, fields = context.run(request), query_fields(request, request_fields.RankingRequest)
    return await context.compute_once(request, lambda job: influence_queries.rank_heads(run, fields, job))


async def agreement(context: RequestContext, request: "Request") -> Answer:
    run, fields = context.run(request), query_fields(request, request_fields.AgreementRequest)
    return await context.compute_once(request, lambda job: influence_queries.measure_agreement(run, fields, job))


async def edge_estimates(context: RequestContext, request: "Request") -> Answer:
    run, index, fields = context.attention_query(request, request_fields.EdgesRequest)
    return await context.compute_once(request, lambda job: influence_queries.influence_block(run, index, fields))


async def knock_out_edges(context: RequestContext, request: "Request") -> Json:
    run, fields = context.run(request), parse_body(request_fields.KnockOutRequest, await request.body())
    return await context.compute(request, lambda job: run_queries.knock_out_run(run, fields))


async def compare(context: RequestContext, request: "Request") -> Json:
    run, fields = context.run(request), query_fields(request, request_fields.CompareRequest)
    other = context.session.run(fields.other)
    return await context.compute(request, lambda job: run_queries.compare_runs(run, other))


async def download_page(context: RequestContext, request: "Request") -> Answer:
    run, fields = context.run(request), query_fields(request, request_fields.PageRequest)
    head = HeadIndex(fields.attention, fields.head)
    page = await context.compute(request, lambda job: offline_page.build_page(context.session, run, head, job))
    return Answer.download(page.html.encode(), f"run-{run.number}.html", pictures.TYPES["html"])


async def download_trace(context: RequestContext, request: "Request") -> Answer:
    run = context.run(request)
    body = await context.compute(request, lambda job: run_queries.trace_bytes(run))
    return Answer.download(body, f"run-{run.number}.safetensors")


async def stream_map(context: RequestContext, request: "Request") -> AsyncIterator[Event]:
    """The progress of computing the whole map of a head."""
    run, index, fields = context.attention_query(request, request_fields.TileRequest)
    job = context.worker.submit(lambda job: map_tiles.build_map(run, index, fields, job))
    return context.job_events(job, lambda event: event)


async def tile(context: RequestContext, request: "Request") -> Answer:
    run, index, fields = context.attention_query(request, request_fields.TileRequest)
    other = context.session.run(fields.against) if fields.against else None
    return await context.compute_once(request, lambda job: map_tiles.map_tile(run, index, fields, job, other))


async def weights(context: RequestContext, request: "Request") -> Json:
    run, index, fields = context.attention_query(request, request_fields.WeightsRequest)
    return await context.compute(request, lambda job: map_tiles.weight_block(run, index, fields))


async def strongest(context: RequestContext, request: "Request") -> Answer:
    run, index, fields = context.attention_query(request, request_fields.TopEdgesRequest)
    return await context.compute_once(request, lambda job: run_queries.strongest_edges(run, index, fields, job))


async def effects(context: RequestContext, request: "Request") -> Answer:
    run, index, fields = context.attention_query(request, request_fields.EffectsRequest)
    return await context.compute_once(request, lambda job: run_queries.edge_effects(run, index, fields, job))


async def picture(context: RequestContext, request: "Request") -> Answer:
    run, index, fields = context.attention_query(request, request_fields.PictureRequest)
    draw = (context.session, run, index, request.path_params["view"], fields)
    return await context.compute_once(request, lambda job: pictures.picture_file(*draw))


async def thumbnails(context: RequestContext, request: "Request") -> Answer:
    run, fields = context.run(request), query_fields(request, request_fields.ThumbnailsRequest)
    return await context.compute_once(request, lambda job: stage_queries.thumbnails(run, fields, job))


async def mean_weights(context: RequestContext, request: "Request") -> Answer:
    run, fields = context.run(request), query_fields(request, request_fields.WindowRequest)
    return await context.compute_once(request, lambda job: stage_queries.mean_weights(run, fields, job))


async def residual(context: RequestContext, request: "Request") -> Answer:
    run = context.run(request)
    return await context.compute_once(request, lambda job: stage_queries.residual_sizes(run, job))


async def influence(context: RequestContext, request: "Request") -> Answer:
    run, fields = context.run(request), query_fields(request, request_fields.InfluenceRequest)
    return await context.compute_once(request, lambda job: stage_queries.influence_for_row(run, fields, job))


async def row(context: RequestContext, request: "Request") -> Answer:
    run, index, fields = context.attention_query(request, request_fields.RowRequest)
    return await context.compute_once(request, lambda job: stage_queries.row_arithmetic(run, index, fields))


async def feed_forward(context: RequestContext, request: "Request") -> Answer:
    run, index, fields = context.attention_query(request, request_fields.FeedForwardRequest)
    return await context.compute_once(request, lambda job: feed_forward_queries.feed_forward_units(run, index, fields))


RUN = "/api/runs/{run}"
ATTENTION = RUN + "/{attention:int}"
ROUTES = (
    *LESSON_ROUTES,
    Route("GET", "/api/state", state, "what is open: the models, and the runs so far"),
    Route("POST", "/api/runs", start_run, "run a text through a model; answers with the run"),
    Route("POST", "/api/writing", stream_run, "the same, token by token while the model writes, then the run (events)"),
    Route("GET", RUN, one_run, "one run: its tokens, predictions and attentions"),
    Route("GET", RUN + "/heads", heads, "every head with its measures, and what it does in words"),
    Route("GET", RUN + "/measuring", stream_heads, "the progress of measuring its heads (events)"),
    Route("GET", RUN + "/telling", first_head, "the head to show first, chosen as in transom see"),
    Route("GET", RUN + "/thumbnails", thumbnails, "every head as a small map (bytes)"),
    Route("GET", RUN + "/mean_weights", mean_weights, "per attention, the mean weights of its heads in a window"),
    Route("GET", RUN + "/residual", residual, "per block and token, the length of what each part adds"),
    Route("GET", RUN + "/influence", influence, "what each head and edge was worth for the token after one row"),
    Route("GET", RUN + "/ranking", ranking, "all heads by influence at once, the first few (refine) by knock-outs"),
    Route("GET", RUN + "/agreement", agreement, "estimates of random edges beside true knock-outs, for one token"),
    Route("POST", RUN + "/knock_out", knock_out_edges, "the run again without some edges or heads, and what changed"),
    Route("GET", RUN + "/beside", compare, "the outputs of this run and of another one, row by row"),
    Route("GET", RUN + "/page", download_page, "the run as a page in one file, with one head open (HTML)"),
    Route("GET", RUN + "/trace", download_trace, "the run as one safetensors file"),
    Route("GET", ATTENTION + "/head", one_head, "one head with its measures, and what it does in words"),
    Route("GET", ATTENTION + "/overview", stream_map, "the progress of computing a head's whole map (events)"),
    Route("GET", ATTENTION + "/tile", tile, "a tile of a head's map at some zoom (bytes)"),
    Route("GET", ATTENTION + "/weights", weights, "up to 64 × 64 single weights and scores, with their tokens"),
    Route("GET", ATTENTION + "/row", row, "one row of a head: its query, keys, values, scores, weights and their sum"),
    Route(
        "GET", ATTENTION + "/feed_forward", feed_forward, "the feed-forward part of its block at one token, by units"
    ),
    Route("GET", ATTENTION + "/influence", edge_estimates, "up to 64 × 64 edges by influence, beside their weights"),
    Route("GET", ATTENTION + "/strongest", strongest, "the strongest edges of a head, by weight or by influence"),
    Route("GET", ATTENTION + "/effects", effects, "the strongest edges of a row: weight, norm, share and effect"),
    Route("GET", ATTENTION + "/picture/{view}", picture, "a view of a head: JSON, SVG, HTML, PNG, PDF, text"),
)
