"""The answers that the picture of the whole model needs in an offline page, computed in advance."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve import stage_queries
from transom.serve.feed_forward_queries import feed_forward_units
from transom.serve.request_fields import (
    FeedForwardRequest,
    InfluenceRequest,
    RowRequest,
    ThumbnailsRequest,
    WindowRequest,
)

if TYPE_CHECKING:
    from transom.serve.session import SessionRun
    from transom.serve.worker import Job

RAILS, RAILS_OF_PAIR = 16, 12  # tokens of a lane that the picture shows: of one text, of source and target each
LONG = 512  # tokens from which on the page asks for thumbnails a few attentions at a time
AT_ONCE = 4
QUICK_MODEL = 50_000_000  # parameters up to which every row is explained, by one backward pass each


def stage_answers(run: "SessionRun", attention: int, head: int, job: "Job") -> Iterator[tuple[str, Any]]:
    """Path and answer of each: thumbnails, mean weights, sizes, influence, and the rows of one head."""
    window, token = stage_window(run)
    place = f"first={window.first}&first_target={window.first_target}&count={window.count}"
    for path, fields in thumbnail_requests(run):
        yield path, stage_queries.thumbnails(run, fields, job)
    yield f"mean_weights?{place}", stage_queries.mean_weights(run, window, job)
    yield "residual", stage_queries.residual_sizes(run, job)
    for row in explained_rows(run, token):
        fields = InfluenceRequest(row=row, first=window.first, first_target=window.first_target, count=window.count)
        yield f"influence?row={row}&{place}", stage_queries.influence_for_row(run, fields, job)
    yield from feed_forward_answers(run, attention, token)
    rows = run.attention(attention)[1].problem.shape[2]
    for query in range(min(rows, 2 * RAILS)):
        fields = RowRequest(head=head, query=query)
        yield f"{attention}/row?head={head}&query={query}", stage_queries.row_arithmetic(run, attention, fields)


def feed_forward_answers(run: "SessionRun", attention: int, token: int) -> Iterator[tuple[str, Any]]:
    """The feed-forward part of the block that is open, at the tokens whose predictions are explained."""
    from transom.lens.capture.residual_sizes import block_path

    block = block_path(run.attention(attention)[0])
    first = next(index for index, name in enumerate(run.trace.names) if block_path(name) == block)
    for row in explained_rows(run, token):
        fields = FeedForwardRequest(query=row, explained=row if run.info["likely"] else None)
        query = f"query={row}" if fields.explained is None else f"query={row}&explained={row}"
        try:
            yield f"{first}/feed_forward?{query}", feed_forward_units(run, first, fields)
        except Misfit:
            return  # no model, or none that can be taken apart: the page says that it is not there


def thumbnail_requests(run: "SessionRun") -> Iterator[tuple[str, ThumbnailsRequest]]:
    """As the page asks: at once, or of a long text a few attentions at a time."""
    longest = max(max(sight.problem.shape[2:]) for _, sight in run.trace.entries)
    if longest <= LONG:
        yield "thumbnails", ThumbnailsRequest()
        return
    for first in range(0, len(run.trace.entries), AT_ONCE):
        yield f"thumbnails?first={first}&count={AT_ONCE}", ThumbnailsRequest(first=first, count=AT_ONCE)


def stage_window(run: "SessionRun") -> tuple[WindowRequest, int]:
    """The tokens that the page shows first, and the row whose prediction it shows."""
    attentions, likely = run.to_dict()["attentions"], run.info["likely"]
    sizes = {one["role"]: one["queries"] for one in attentions}
    source = next((one["keys"] for one in attentions if one["role"] == "cross"), sizes.get("encoder", 0))
    if "self" in sizes:
        count = min(sizes["self"], RAILS)
        return WindowRequest(first=sizes["self"] - count, count=count), sizes["self"] - 1
    target = max(sizes.get("cross", 0), sizes.get("decoder", 0))
    token = target - 1
    if likely and target:
        chances = [row[0]["probability"] for row in likely]
        token = min(token, chances.index(min(chances)))
    rails = RAILS_OF_PAIR if source and target else RAILS
    last = min(max(target, 1) - 1, max(min(target, rails) - 1, token))
    shown = max(min(source, rails), min(target, rails), 1)
    beside = (token + 1) * source // max(target, 1) + 1  # about the same part of the source
    last_source = min(max(source, 1) - 1, max(rails - 1, beside))
    first, first_target = max(0, last_source - min(source, rails) + 1), max(0, last - min(target, rails) + 1)
    return WindowRequest(first=first, first_target=first_target, count=shown), max(token, 0)


def explained_rows(run: "SessionRun", token: int) -> list[int]:
    """The rows whose predictions are explained: all of a short text if the model is small, else the one shown first."""
    if run.text_run is None or run.text_run.model.kind == "encoder":
        return [token]
    rows = len(run.text_run.encoded.targets or run.text_run.encoded.tokens)
    parameters = sum(parameter.numel() for parameter in run.text_run.model.model.parameters())
    return list(range(rows)) if rows <= RAILS and parameters <= QUICK_MODEL else [token]
