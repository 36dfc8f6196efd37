"""Experiments: quantities that need many tries, each by a seed; a lesson names one, and claims what comes of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from transom.lessons.lesson import Trial
from transom.lessons.steps import Step
from transom.lessons.table import Table


@dataclass(frozen=True)
class Experiment:
    """A function that gives tables, and its settings: name → (default, least, most), whole where the default is."""

    run: Callable[..., Iterable[Step]]
    settings: dict[str, tuple[Any, Any, Any]]


EXPERIMENTS: dict[str, Experiment] = {}


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
