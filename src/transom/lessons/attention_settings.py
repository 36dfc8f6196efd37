"""The table [attention] of a lesson, and what is needed beside queries and keys."""

import numpy as np
from numpy.typing import NDArray

from transom.lessons.matrices import matrix, vector
from transom.lessons.setup import MOST_HEADS, WIDEST, Attention
from transom.lessons.steps import Matrix
from transom.lessons.table import Table, shown

ATTENTION = ("heads", "d_head", "d_value", "scale", "temperature", "similarity", "narrow", "mask")
SIMILARITIES = ("dot", "cosine", "additive")


def read_attention(table: Table, rows: int, columns: int) -> Attention:
    table.known(ATTENTION)
    return Attention(
        heads=table.whole("heads", 1, 1, MOST_HEADS),
        scale=table.flag("scale", True),
        temperature=table.real("temperature", 1.0, 1e-6, 1e6),
        similarity=table.choice("similarity", "dot", SIMILARITIES),
        narrow=table.flag("narrow", False),
        allowed=masked(table, rows, columns),
    )


def masked(table: Table, rows: int, columns: int) -> NDArray[np.bool_] | None:
    """Who may look where: all, back only, or as a matrix of 1 and 0 says."""
    value = table.settings.get("mask", "none")
    if value == "none":
        return None
    if value == "causal":  # the queries are the last positions of the keys
        return np.arange(rows)[:, None] + columns - rows >= np.arange(columns)
    if isinstance(value, str):
        table.choice("mask", "none", ("none", "causal"))
    found = matrix(table, "mask", rows, columns)
    if not np.isin(found, (0.0, 1.0)).all():
        raise table.wrong("mask", f"mask must be 1 where a row may look and 0 elsewhere, but got {shown(value)}")
    return found == 1.0


def read_additive(table: Table, d_head: int) -> dict[str, Matrix]:
    """What additive similarity needs beside queries and keys."""
    if "w" not in table:
        raise table.wrong(None, f"additive similarity needs w, but it is not given; give w with {d_head} numbers")
    return {"w": vector(table, "w", d_head)}


def check_size(table: Table, name: str, width: int, source: str) -> None:
    """Complain unless a size that is given is the one that follows from something else."""
    if name in table and table.whole(name, width, 1, WIDEST) != width:
        came = table.settings[name]
        raise table.wrong(name, f"{name} must be {width}, {source}, but {came} came; leave it out")
