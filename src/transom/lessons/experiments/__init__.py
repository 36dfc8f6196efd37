"""Experiments: quantities that need many tries, each by a seed; a lesson names one, and claims what comes of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from transom.lessons.experiments import counting, learning, retrieval, scaling
from transom.lessons.lesson import Trial
from transom.lessons.steps import Step
from transom.lessons.table import Table


@dataclass(frozen=True)
class Experiment:
    """A function that gives tables, and its settings: name → (default, least, most), whole where the default is."""

    run: Callable[..., Iterable[Step]]
    settings: dict[str, tuple[Any, Any, Any]]


SEED = (1, 0, 2**31)
EXPERIMENTS = {
    "score_gradient": Experiment(
        scaling.score_gradient, {"first": (6.0, -1e3, 1e3), "second": (4.0, -1e3, 1e3), "d_head": (4, 1, 4096)}
    ),
    "random_keys": Experiment(scaling.random_keys, {"tries": (4000, 1, 50_000), "seed": SEED}),
    "retrieval": Experiment(
        retrieval.retrieval,
        {"width": (64, 2, 512), "sharpness": (12.0, 0.0, 1e3), "decay": (0.9, 0.0, 1.0), "seed": SEED},
    ),
    "parameter_counts": Experiment(
        counting.parameter_counts,
        {"d_model": (512, 1, 16_384), "heads": (8, 1, 64), "rank": (64, 1, 4096), "tokens": (10, 1, 10**6)},
    ),
    "what_is_learned": Experiment(learning.what_is_learned, {"seed": SEED}),
    "look_ahead": Experiment(learning.look_ahead, {"updates": (110, 1, 2000), "seed": SEED}),
}


def trial_from(table: Table) -> Trial:
    """The experiment that a lesson names, its settings within their bounds."""
    name = table.choice("name", "", EXPERIMENTS)
    known = EXPERIMENTS[name].settings
    table.known(("name", *known))
    settings = {}
    for word, (default, low, high) in known.items():
        whole = isinstance(default, int)
        settings[word] = table.whole(word, default, low, high) if whole else table.real(word, default, low, high)
    return Trial(name, settings)


def tried(trial: Trial) -> list[Step]:
    """What comes of an experiment."""
    return list(EXPERIMENTS[trial.name].run(**trial.settings))
