"""How many parameters there are, by formula and by counting the arrays."""

from collections.abc import Iterator

import numpy as np

from transom.lessons.experiments.tables import measured
from transom.lessons.steps import Step
from transom.names import Misfit


def parameter_counts(d_model: int, heads: int, rank: int, tokens: int) -> Iterator[Step]:
    """Numbers in W_V: whole, through a waist, and narrow; beside a count that goes by the length of the text."""
    if d_model % heads:
        raise Misfit(f"narrow heads divide d_model={d_model}, but heads={heads} does not; try another number of heads")
    whole = np.empty((d_model, d_model)).size
    waist = np.empty((d_model, rank)).size + np.empty((rank, d_model)).size
    narrow = sum(np.empty((d_model // heads, d_model // heads)).size for _ in range(heads))
    rows = {
        "whole": (whole, 1.0),
        "through a waist": (waist, waist / whole),
        "narrow heads": (narrow, narrow / whole),
        "by tokens": (2 * rank * tokens, 2 * rank * tokens / whole),
    }
    yield measured("parameters", "numbers that are learned for the values", ("numbers", "share of whole"), rows)
