"""Why scores are divided by √d_head: what it does to the gradient, for given scores and over random keys."""

from collections.abc import Iterator

import numpy as np

from transom.lessons.experiments.tables import measured
from transom.lessons.steps import Matrix, Step

WIDTHS = (4, 16, 64, 256)


def score_gradient(first: float, second: float, d_head: int) -> Iterator[Step]:
    """How the first of two weights answers to its own raw score: p (1 − p), and p (1 − p) / √d_head where scaled."""
    rows = {}
    for word, divisor in (("unscaled", 1.0), ("scaled", np.sqrt(d_head))):
        p = 1.0 / (1.0 + np.exp((second - first) / divisor))
        rows[word] = (p, 1.0 - p, p * (1.0 - p), p * (1.0 - p) / divisor)
    columns = ("weight 1", "weight 2", "gradient to the score taken", "gradient to the raw score")
    yield measured("gradient", "how the first weight answers to a score", columns, rows)


def random_keys(tries: int, seed: int) -> Iterator[Step]:
    """A random query with two random keys, many times, for wider and wider vectors: how a weight answers to a score.

    The gradient of the softmax is to the score that it takes; that to the raw score is the same through the division.
    """
    draw = np.random.default_rng(seed)
    spread: dict[str, list[float]] = {"unscaled": [], "scaled": []}
    softmax: dict[str, list[float]] = {"unscaled": [], "scaled": []}
    median: dict[str, list[float]] = {"unscaled": [], "scaled": []}
    vanished: dict[str, list[float]] = {"unscaled": [], "scaled": []}
    for width in WIDTHS:
        scores = drawn(draw, tries, width)
        for word, divisor in (("unscaled", 1.0), ("scaled", np.sqrt(width))):
            gradient = answering(scores / divisor)
            softmax[word].append(float(np.median(gradient)))
            gradient = gradient / divisor
            spread[word].append(float((scores / divisor).std()))
            median[word].append(float(np.median(gradient)))
            vanished[word].append(float((gradient < 1e-3).mean()))
    widths = [f"d_head {width}" for width in WIDTHS]
    yield measured("spread", "standard deviation of a score", widths, spread)
    yield measured("softmax gradient", "median gradient of the softmax, to the score it takes", widths, softmax)
    yield measured("median gradient", "median gradient to a raw score, two keys", widths, median)
    yield measured("vanished", "share of tries whose gradient is below 0.001", widths, vanished)


def drawn(draw: np.random.Generator, tries: int, width: int) -> Matrix:
    """(tries, 2): the scores of two keys, all numbers of unit variance."""
    query, keys = draw.standard_normal((tries, width)), draw.standard_normal((tries, 2, width))
    return np.einsum("td,tkd->tk", query, keys)


def answering(scores: Matrix) -> Matrix:
    """p (1 − p) of two scores, as exact for far scores as for near ones."""
    gap = np.abs(scores[:, 0] - scores[:, 1])
    return np.exp(-gap) / (1.0 + np.exp(-gap)) ** 2
