"""Experiments by name: results over many seeded tries, which a lesson can run and make claims about."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from transom.lessons import training_experiments
from transom.lessons.step_builders import softmax_of, table_step
from transom.lessons.steps import Matrix, Step
from transom.lessons.tied_experiment import tied_projections
from transom.lessons.toml_source import TomlTable
from transom.names import Misfit


@dataclass(frozen=True)
class Experiment:
    """A function that returns tables, and its settings: name → (default, least, most)."""

    run: Callable[..., Iterable[Step]]
    settings: dict[str, tuple[Any, Any, Any]]


def parse_experiment(table: TomlTable) -> Callable[[], Iterable[Step]]:
    """The experiment that a lesson names, ready to run with its settings."""
    experiment = EXPERIMENTS[table.choice("name", "", EXPERIMENTS)]
    table.check_keys(("name", *experiment.settings))
    settings = {name: table.setting(name, *limits) for name, limits in experiment.settings.items()}
    return partial(experiment.run, **settings)


def parameter_counts(d_model: int, heads: int, rank: int, tokens: int) -> Iterator[Step]:
    """How many numbers W_V has: full, through a waist, and narrow; and a count that goes by the length of the text."""
    if d_model % heads:
        raise Misfit(f"narrow heads divide d_model={d_model}, but heads={heads} does not; try another number of heads")
    full = d_model * d_model
    counts = {
        "whole": full,
        "through a waist": 2 * d_model * rank,
        "narrow heads": heads * (d_model // heads) ** 2,
        "by tokens": 2 * rank * tokens,
    }
    rows = {name: (count, count / full) for name, count in counts.items()}
    yield table_step("parameters", "numbers that are learned for the values", ("numbers", "share of whole"), rows)


DISTANCES = (1, 10, 100, 1000)
CROWDS = (10, 100, 1000, 10_000)


def retrieval(width: int, sharpness: float, decay: float, seed: int) -> Iterator[Step]:
    """The weight on the one key that matches, at growing distance: attention beside a memory that fades.

    width       numbers in a key; keys are random, of length 1
    sharpness   the score of the key that matches
    decay       what is left of a fading memory after each token
    """
    keys = unit_rows(np.random.default_rng(seed).standard_normal((max(DISTANCES) + 1, width)))
    attention, fading = [], []
    for distance in DISTANCES:
        moved = keys.copy()
        moved[[-1 - distance, 0]] = moved[[0, -1 - distance]]  # the same keys, the matching one at this distance
        weights = softmax_of((sharpness * moved @ keys[0])[None])[0]
        attention.append(weights[-1 - distance])
        fading.append((1.0 - decay) * decay**distance)
    rows = {"attention": attention, "fading memory": fading}
    columns = [f"{distance} tokens" for distance in DISTANCES]
    yield table_step("found", "weight on the token that is looked for", columns, rows)
    yield crowd_table(width, sharpness, seed)


def crowd_table(width: int, sharpness: float, seed: int) -> Step:
    """The same among more and more other keys: the weight they take together grows with their number."""
    rng, weights = np.random.default_rng(seed + 1), []
    for crowd in CROWDS:
        keys = unit_rows(rng.standard_normal((crowd, width)))
        weights.append(softmax_of((sharpness * keys @ keys[0])[None])[0, 0])
    columns = [f"among {crowd}" for crowd in CROWDS]
    return table_step("crowd", "weight on it among more and more tokens", columns, {"attention": weights})


def unit_rows(x: Matrix) -> Matrix:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


WIDTHS = (4, 16, 64, 256)


def score_gradient(first: float, second: float, d_head: int) -> Iterator[Step]:
    """How the first of two weights answers to its own raw score: p (1 − p), divided by √d_head if scaled."""
    rows = {}
    for name, divisor in (("unscaled", 1.0), ("scaled", np.sqrt(d_head))):
        p = 1.0 / (1.0 + np.exp((second - first) / divisor))
        rows[name] = (p, 1.0 - p, p * (1.0 - p), p * (1.0 - p) / divisor)
    columns = ("weight 1", "weight 2", "to the score taken", "to the raw score")
    yield table_step("gradient", "how the first weight answers to a score", columns, rows)


RANDOM_KEYS = {
    "spread": "standard deviation of a score",
    "softmax gradient": "median gradient of the softmax, to the score it takes",
    "median gradient": "median gradient to a raw score, two keys",
    "vanished": "share of tries whose gradient is below 0.001",
}


def random_keys(tries: int, seed: int) -> Iterator[Step]:
    """A random query with two random keys, many times, for wider and wider vectors: how a weight answers to a score.

    The gradient of the softmax is to the score that it takes; the gradient to the raw score is divided by √d_head.
    """
    rng = np.random.default_rng(seed)
    tables: dict[str, dict[str, list[float]]] = {name: {"unscaled": [], "scaled": []} for name in RANDOM_KEYS}
    for width in WIDTHS:
        scores = sample_scores(rng, tries, width)
        for row, divisor in (("unscaled", 1.0), ("scaled", np.sqrt(width))):
            to_softmax = softmax_gradient(scores / divisor)
            to_score = to_softmax / divisor
            tables["spread"][row].append(float((scores / divisor).std()))
            tables["softmax gradient"][row].append(float(np.median(to_softmax)))
            tables["median gradient"][row].append(float(np.median(to_score)))
            tables["vanished"][row].append(float((to_score < 1e-3).mean()))
    columns = [f"d_head {width}" for width in WIDTHS]
    for name, title in RANDOM_KEYS.items():
        yield table_step(name, title, columns, tables[name])


def sample_scores(rng: np.random.Generator, tries: int, width: int) -> Matrix:
    """(tries, 2): the scores of two keys, all numbers of unit variance."""
    query, keys = rng.standard_normal((tries, width)), rng.standard_normal((tries, 2, width))
    return np.einsum("td,tkd->tk", query, keys)


def softmax_gradient(scores: Matrix) -> Matrix:
    """p (1 − p) of two scores, as exact for distant scores as for near ones."""
    gap = np.abs(scores[:, 0] - scores[:, 1])
    return np.exp(-gap) / (1.0 + np.exp(-gap)) ** 2


SEED = (1, 0, 2**31)
EXPERIMENTS = {
    "score_gradient": Experiment(
        score_gradient, {"first": (6.0, -1e3, 1e3), "second": (4.0, -1e3, 1e3), "d_head": (4, 1, 4096)}
    ),
    "random_keys": Experiment(random_keys, {"tries": (4000, 1, 50_000), "seed": SEED}),
    "retrieval": Experiment(
        retrieval,
        {"width": (64, 2, 512), "sharpness": (12.0, 0.0, 1e3), "decay": (0.9, 0.0, 1.0), "seed": SEED},
    ),
    "parameter_counts": Experiment(
        parameter_counts,
        {"d_model": (512, 1, 16_384), "heads": (8, 1, 64), "rank": (64, 1, 4096), "tokens": (10, 1, 10**6)},
    ),
    "what_is_learned": Experiment(training_experiments.what_is_learned, {"seed": SEED}),
    "tied_projections": Experiment(tied_projections, {"updates": (150, 1, 2000), "seed": SEED}),
    "look_ahead": Experiment(training_experiments.look_ahead, {"updates": (110, 1, 2000), "seed": SEED}),
}
