"""Tiles of a head's map as bytes: float32 where a cell is one weight, else float16 times a scale."""

from typing import TYPE_CHECKING, Any

import msgspec

from transom.names import Misfit
from transom.serve.cache import Answer
from transom.serve.fields import AskTile, AskWeights

if TYPE_CHECKING:
    from transom.serve.studio import Run
    from transom.serve.work import Job


def tile(run: "Run", index: int, asked: AskTile, job: "Job", other: "Run | None" = None) -> Answer:
    """One tile; with another run, the signed difference: this one's less the other's."""
    pyramid = run.pyramid(index, asked.head)
    laid(pyramid, asked, job)
    found = pyramid.tile(asked.level, asked.row, asked.column, asked.pool, asked.sink)
    values = found.values
    if other is not None:
        beside = other.pyramid(index, asked.head)
        if beside.sizes != pyramid.sizes:
            raise Misfit(
                f"runs are compared cell by cell, but one is {pyramid.sizes} and the other {beside.sizes};"
                " give texts of as many tokens"
            )
        laid(beside, asked, job)
        values = values - beside.tile(asked.level, asked.row, asked.column, asked.pool, asked.sink).values
    said = {
        "rows": found.rows,
        "keys": found.keys,
        "side": found.side,
        "pool": found.pool,
        "shape": tuple(values.shape),
    }
    return packed(values, said, whole=asked.level == 0)


def laid(pyramid: Any, asked: AskTile, job: "Job") -> None:
    """Lay the floor of a map where the level needs one; ends when nobody waits."""
    if asked.level >= pyramid.floor_level:
        pyramid.lay(told=lambda share: job.wanted())


def packed(values: Any, said: dict[str, Any], whole: bool) -> Answer:
    """Numbers in little-endian order, row by row; what they mean is in the header `Tile`."""
    largest = float(values.abs().max()) if values.numel() else 0.0
    if whole or largest == 0.0:
        numbers, said = values.float(), said | {"type": "float32", "scale": 1.0}
    else:
        numbers, said = (values / largest).half(), said | {"type": "float16", "scale": largest}
    body = numbers.contiguous().numpy().tobytes()
    return Answer(body, headers={"Tile": msgspec.json.encode(said | {"largest": largest}).decode()})


def weights(run: "Run", index: int, asked: AskWeights) -> dict[str, Any]:
    """Single weights and scores as numbers, with their words."""
    name, sight = run.attention(index)
    rows = slice(asked.first_row, asked.first_row + asked.rows)
    keys = slice(asked.first_key, asked.first_key + asked.keys)
    found, scores = (
        ask(batch=0, head=asked.head, rows=rows, keys=keys).float() for ask in (sight.weights, sight.scores)
    )
    labels = run.trace.labels(name)
    return {
        "rows": labels.reads[rows],
        "keys": labels.at[keys],
        "first": [asked.first_row, asked.first_key],
        "weights": found.tolist(),
        "scores": [[None if one == float("-inf") else one for one in row] for row in scores.tolist()],
    }
