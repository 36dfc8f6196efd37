"""Tiles of a head's map as bytes: float32 if a cell is one weight, otherwise float16 times a scale."""

from typing import TYPE_CHECKING, Any

import msgspec

from transom.names import Misfit
from transom.serve.answer_cache import Answer
from transom.serve.explained_row import explain_row
from transom.serve.request_fields import TileRequest, WeightsRequest

BACKWARD = "one forward and one backward pass of the model"

if TYPE_CHECKING:
    from torch import Tensor

    from transom.lens.attention.pooled_map import PooledMap
    from transom.lens.attention.pyramid import Pyramid
    from transom.serve.session import SessionRun
    from transom.serve.worker import Job


def map_tile(
    run: "SessionRun", index: int, fields: TileRequest, job: "Job", other: "SessionRun | None" = None
) -> Answer:
    """One tile; with another run, the signed difference: this run's weights minus the other's.

    With a token, the influence of edges on the prediction of that row: negative where an edge helps it.
    """
    pyramid = find_pyramid(run, index, fields)
    tile = compute_tile(pyramid, fields, job)
    values = tile.values
    if other is not None:
        if fields.token is not None:
            raise Misfit("two runs are compared by their weights, but a token is given too; leave one of the two out")
        other_pyramid = other.pyramid(index, fields.head)
        if other_pyramid.sizes != pyramid.sizes:
            raise Misfit(
                f"runs are compared cell by cell, but one is {pyramid.sizes} and the other {other_pyramid.sizes};"
                " give texts with the same number of tokens"
            )
        values = values - compute_tile(other_pyramid, fields, job).values
    header = {
        "rows": tile.rows,
        "keys": tile.keys,
        "side": tile.cell[0],
        "pool": tile.pool,
        "shape": tuple(values.shape),
    }
    return encode_tile(values, header, single=fields.level == 0)


def find_pyramid(run: "SessionRun", index: int, fields: TileRequest) -> "Pyramid":
    """The map of a head: its weights, or its influence on the token after a row."""
    if fields.token is None:
        return run.pyramid(index, fields.head)
    return explain_row(run, fields.token).pyramid(run.attention(index)[0], fields.head)


def build_map(run: "SessionRun", index: int, fields: TileRequest, job: "Job") -> dict[str, Any]:
    """Compute the whole map of a head, and report how far that is; then its shape, its largest number, and what it
    explains."""
    if fields.token is None:
        pyramid, about = run.pyramid(index, fields.head), {}
    else:
        job.report({"share": 0.0, "waits": BACKWARD})
        pyramid, about = find_pyramid(run, index, fields), explain_row(run, fields.token).to_dict()
    shape = {"top": pyramid.top, "sizes": pyramid.sizes, "floor": pyramid.base_level}
    job.report({"share": 0.0, **shape})
    pyramid.build_base(lambda share: job.report({"share": round(share, 4), **shape}))
    if fields.token is not None:
        values = pyramid.tile(pyramid.top, 0, 0, "max", fields.sink).values
        about |= {"largest": float(values.abs().max())}
    return {"share": 1.0, **shape, **about}


def compute_tile(pyramid: "Pyramid", fields: TileRequest, job: "Job") -> "PooledMap":
    """A tile of a map, after its base if the level needs it; stops if nobody waits."""
    if fields.level >= pyramid.base_level:
        pyramid.build_base(lambda share: job.raise_if_cancelled())
    return pyramid.tile(fields.level, fields.row, fields.column, fields.pool, fields.sink)


def encode_tile(values: "Tensor", header: dict[str, Any], single: bool) -> Answer:
    """Numbers in little-endian order, row by row, as float32 if they are single weights; the header `Tile` says how to
    read them."""
    largest = float(values.abs().max()) if values.numel() else 0.0
    if single or largest == 0.0:
        numbers, encoding = values.float(), {"type": "float32", "scale": 1.0}
    else:
        numbers, encoding = (values / largest).half(), {"type": "float16", "scale": largest}
    body = numbers.contiguous().numpy().tobytes()
    return Answer(body, headers={"Tile": msgspec.json.encode(header | encoding | {"largest": largest}).decode()})


def weight_block(run: "SessionRun", index: int, fields: WeightsRequest) -> dict[str, Any]:
    """A block of single weights and scores, with their tokens."""
    name, sight = run.attention(index)
    rows = slice(fields.first_row, fields.first_row + fields.rows)
    keys = slice(fields.first_key, fields.first_key + fields.keys)
    block = {"batch": 0, "head": fields.head, "rows": rows, "keys": keys}
    scores = sight.scores(**block).float().tolist()
    labels = run.trace.labels(name)
    return {
        "rows": labels.reads[rows],
        "keys": labels.at[keys],
        "first": [fields.first_row, fields.first_key],
        "weights": sight.weights(**block).float().tolist(),
        "scores": [[None if score == float("-inf") else score for score in row] for row in scores],
    }
