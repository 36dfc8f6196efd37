"""A lesson: what is computed, what is said of it, and the claims that must hold."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from transom.files.strict import nearest
from transom.lessons.lines import Path, Source
from transom.lessons.setup import Setup
from transom.lessons.steps import Steps
from transom.lessons.working import computed
from transom.names import Drawable, Misfit


@dataclass(frozen=True)
class Claim:
    """A figure in a lesson. Heads and layers are counted from 0; rows and columns too here, but from 1 in the file.

    of        the step it is about
    measure   what of it: one of MEASURES, or "value"
    other     the row that `row` is compared with
    against   the case that the step is compared with
    value     the figure with its printed digits; or the number it must be `above` or `below`
    slip      the cause of a figure that is known to be wrong; "" for one that must be right
    """

    of: str
    path: Path
    says: str = ""
    case: str = ""
    head: int | None = None
    layer: int | None = None
    row: int | str | None = None
    column: int | str | None = None
    measure: str = "value"
    other: int | str | None = None
    against: str | None = None
    value: Any = None
    above: Decimal | None = None
    below: Decimal | None = None
    slip: str = ""


@dataclass(frozen=True)
class MalformedPart:
    """A claim or a case of a lesson that could not be read or computed.

    where       file and line of what is wrong
    complaint   what is wrong with it, without the line
    message     the error as it was raised
    """

    path: Path
    where: str
    complaint: str
    message: str

    @classmethod
    def from_error(cls, source: Source, path: Path, error: Misfit) -> "MalformedPart":
        """The part at a path with the error about it; an error about another file, as a CSV file, stays whole."""
        message = str(error)
        found = re.fullmatch(rf"({re.escape(source.name)}, line \d+): (.*)", message, re.DOTALL)
        where, complaint = found.groups() if found else (source.at(path), message)
        return cls(path, where, complaint, message)

    def plain(self) -> dict[str, Any]:
        """The part as plain data, for JSON, with the keys of a claim that was judged."""
        empty = dict.fromkeys(("of", "says", "place", "claimed", "right", "computed", "entries"))
        judged = {"verdict": "malformed", "causes": {}, "wrong": [], "complaint": self.complaint}
        return {"where": self.where, **empty, **judged}


@dataclass(frozen=True, eq=False)
class Trial:
    """An experiment and its settings."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Case:
    """One thing that a lesson computes: the main one is called "", the others have names."""

    name: str
    says: str
    show: tuple[str, ...] | None
    setup: Setup | None
    trial: Trial | None = None

    @cached_property
    def steps(self) -> Steps:
        """Every step, and the tables of the experiment behind them."""
        from transom.lessons.experiments import tried

        with np.errstate(all="ignore"):
            steps = Steps((), ()) if self.setup is None else computed(self.setup)
        for step in steps:
            if np.isnan(step.values).any() or np.isposinf(step.values).any():
                raise Misfit(f"{step.name} of layer {step.layer} is too large to be computed; take smaller numbers")
        return steps if self.trial is None else Steps([*steps, *tried(self.trial)], steps.tokens, steps.at_tokens)


@dataclass(frozen=True, eq=False)
class Lesson(Drawable):
    """A worked example, read from a TOML file; `malformed` is what of it could not be read, if it was read partly."""

    name: str
    source: Source
    title: str
    about: str
    picture: str
    cases: Mapping[str, Case]
    claims: tuple[Claim, ...]
    closing: str = ""
    draws: Mapping[str, Any] = field(default_factory=dict)
    malformed: tuple[MalformedPart, ...] = ()

    @property
    def notes(self) -> dict[str, str]:
        """What is assumed in a case because the lesson does not say it, by the name of the case."""
        setups = {name: case.setup for name, case in self.cases.items()}
        return {name: setup.note for name, setup in setups.items() if setup is not None and setup.note}

    def steps(self, case: str = "") -> Steps:
        """What the lesson computes, or a case of it."""
        if case not in self.cases:
            raise Misfit(f"{self.name} has no case {case!r}; {nearest(case, [name for name in self.cases if name])}")
        return self.cases[case].steps


def worked(lesson: Lesson, case: str = "") -> Steps:
    """Every step of a lesson with its numbers: embeddings, Q, K, V, scores, weights … in order."""
    return lesson.steps(case)
