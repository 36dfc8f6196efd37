"""A lesson: what it computes, its text, and its claims."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from transom.files.strict_settings import suggest
from transom.lessons.compute import compute_steps
from transom.lessons.lesson_setup import LessonSetup
from transom.lessons.steps import Step, Steps
from transom.lessons.toml_source import Path, TomlSource
from transom.names import Drawable, Misfit

FIGURES = ("value", "above", "below")


@dataclass(frozen=True)
class Claim:
    """A figure in a lesson. Heads, layers, rows and columns are counted from 0; a file counts rows and columns from 1.

    of        the step it is about
    measure   what is measured of it: one of MEASURES; "value" for the numbers themselves
    other     the row that `row` is compared with
    against   the case that the step is compared with
    value     the figure with its printed digits; or a bound that the number must be `above` or `below`
    slip      the cause of a figure that is wrong on purpose; "" for one that must be right
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

    @property
    def bounds(self) -> dict[str, Decimal]:
        """`above` and `below`, as far as they are given."""
        bounds = {"above": self.above, "below": self.below}
        return {name: bound for name, bound in bounds.items() if bound is not None}


@dataclass(frozen=True)
class Choice:
    """One of several answers: a figure, or words that hold where the number lies above or below a bound."""

    says: str
    value: Decimal | None = None
    above: Decimal | None = None
    below: Decimal | None = None

    def holds(self, number: float) -> bool:
        """Whether a computed number lies within the bounds of these words."""
        return (self.above is None or number > self.above) and (self.below is None or number < self.below)


@dataclass(frozen=True)
class Prediction:
    """A figure that the learner says before it is shown.

    claim     what is asked for; its value is the learner's
    digits    the decimals that an answer needs
    which     "largest" or "smallest" if a column is asked for, not a number; "" otherwise
    choices   answers to choose from; none if the number is typed
    because   shown after the answer
    """

    ask: str
    claim: Claim
    digits: int = 2
    which: str = ""
    choices: tuple[Choice, ...] = ()
    because: str = ""


@dataclass(frozen=True)
class NumberChange:
    """One number of a lesson to change, and the steps in which to see it follow through.

    setting   by its keys: ("parameters", "W_Q")
    to        the number to try first
    see_row   the only row of those steps to look at; None for all
    """

    says: str
    setting: tuple[str, ...]
    row: int | str | None
    column: int | str | None
    to: Decimal
    see: tuple[str, ...]
    see_row: int | str | None = None


@dataclass(frozen=True)
class LessonStep:
    """One screen of a lesson: what it says, what is predicted, the matrices it shows, and what can be changed.

    show      steps of the case, or its parameters
    picture   a view to draw, with its options `draws`; "" for none
    frames    whether it is drawn once for each token that looks, one after the other
    """

    path: Path
    title: str
    says: str = ""
    case: str = ""
    show: tuple[str, ...] = ()
    head: int | None = None
    layer: int | None = None
    picture: str = ""
    draws: Mapping[str, Any] = field(default_factory=dict)
    frames: bool = False
    predict: Prediction | None = None
    change: NumberChange | None = None


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
    def from_error(cls, source: TomlSource, path: Path, error: Misfit) -> "MalformedPart":
        """The part at a path, with the error about it; an error about another file, such as CSV, is not split."""
        message = str(error)
        match = re.fullmatch(rf"({re.escape(source.name)}, line \d+): (.*)", message, re.DOTALL)
        where, complaint = match.groups() if match else (source.at(path), message)
        return cls(path, where, complaint, message)

    def to_dict(self) -> dict[str, Any]:
        """The part as plain data, for JSON, with the same keys as a Finding."""
        empty = dict.fromkeys(("of", "says", "place", "claimed", "right", "computed", "entries"))
        return {
            "where": self.where,
            **empty,
            "verdict": "malformed",
            "causes": {},
            "wrong": [],
            "complaint": self.complaint,
        }


@dataclass(frozen=True, eq=False)
class LessonCase:
    """One thing that a lesson computes; the lesson itself is the case named "". `show_path` is where `show` is set."""

    name: str
    says: str
    show: tuple[str, ...] | None
    setup: LessonSetup | None
    experiment: Callable[[], Iterable[Step]] | None = None
    show_path: Path = ("show",)

    @cached_property
    def steps(self) -> Steps:
        """Every step, then the tables of the experiment."""
        with np.errstate(all="ignore"):
            steps = Steps((), ()) if self.setup is None else compute_steps(self.setup)
        for step in steps:
            if np.isnan(step.values).any() or np.isposinf(step.values).any():
                raise Misfit(f"{step.name} of layer {step.layer} is too large to be computed; take smaller numbers")
        tables = () if self.experiment is None else self.experiment()
        return Steps([*steps, *tables], steps.tokens, steps.at_tokens)


@dataclass(frozen=True, eq=False)
class Lesson(Drawable):
    """A worked example from a TOML file; `malformed` lists the parts that could not be read, if it was read partly.

    script    the screens in which it is taught; empty if it is shown step by step as it is computed
    """

    name: str
    source: TomlSource
    title: str
    about: str
    picture: str
    cases: Mapping[str, LessonCase]
    claims: tuple[Claim, ...]
    closing: str = ""
    question: str = ""
    next: str = ""
    script: tuple[LessonStep, ...] = ()
    draws: Mapping[str, Any] = field(default_factory=dict)
    malformed: tuple[MalformedPart, ...] = ()

    @property
    def notes(self) -> dict[str, str]:
        """What is assumed in a case because the lesson does not say it, by the name of the case."""
        return {name: case.setup.note for name, case in self.cases.items() if case.setup and case.setup.note}

    def steps(self, case: str = "") -> Steps:
        """What the lesson computes, or a case of it."""
        if case not in self.cases:
            raise Misfit(f"{self.name} has no case {case!r}; {suggest(case, [name for name in self.cases if name])}")
        return self.cases[case].steps


def compute_lesson(lesson: Lesson, case: str = "") -> Steps:
    """Every step of a lesson with its numbers: embeddings, Q, K, V, scores, weights … in order."""
    return lesson.steps(case)
