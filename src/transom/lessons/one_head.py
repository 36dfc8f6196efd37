"""The steps of one head: scores → scaled → masked → weights → weighted sum."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transom.lessons import made
from transom.lessons.made import Labels, Said
from transom.lessons.steps import Matrix, Step


def whole(step: Step) -> Step:
    return step


@dataclass(frozen=True)
class Head:
    """What one head works on.

    allowed   True where a row may look; None where it may look everywhere
    divisor   what scores are divided by; None where they are not
    spelled   how the divisor is written: √4
    kept      what is kept of a step for the next one: all of it, unless someone rounds too early
    axis      what the softmax goes along: the keys, unless by mistake
    """

    Q: Matrix
    K: Matrix
    V: Matrix
    rows: Labels
    columns: Labels
    allowed: NDArray[np.bool_] | None
    divisor: float | None
    spelled: str
    head: int = 0
    layer: int = 0
    kept: Callable[[Step], Step] = whole
    axis: int = -1

    def said(self, name: str, title: str, equation: str) -> Said:
        return Said(name, title, equation, self.head, self.layer)


def head_steps(head: Head, scores: Step | None = None) -> list[Step]:
    """From Q, K and V to the weighted sum; `scores` where they are not the dot product."""
    steps = [head.kept(dot_scores(head) if scores is None else scores)]
    if head.divisor is not None:
        steps.append(head.kept(scaled(head, steps[-1], head.divisor)))
    return steps + weighing(head, steps[-1])


def dot_scores(head: Head) -> Step:
    said = head.said("scores", "how well each query matches each key", "scores = Q Kᵀ")
    return made.product(said, head.Q, head.K.T, head.rows, head.columns, made.counted(head.Q.shape[1]))


def scaled(head: Head, scores: Step, divisor: float) -> Step:
    said = head.said("scaled", f"scores divided by {head.spelled}", f"scaled = scores / {head.spelled}")
    return made.quotient(said, scores, divisor, head.spelled)


def weighing(head: Head, scores: Step) -> list[Step]:
    """From what the softmax takes to the weighted sum, through the mask if there is one."""
    steps = []
    if head.allowed is not None:
        said = head.said("masked", "scores, without those where a row may not look", "masked = scores, −∞ where masked")
        scores = made.masked(said, scores, head.allowed)
        steps.append(scores)
    said = head.said("weights", "each row of scores as shares of 1", f"weights = softmax({scores.name}), over each row")
    steps.append(head.kept(made.softmax(said, scores, head.axis)))
    said = head.said("sum", "the values, each times its weight, summed up", "sum = weights · V")
    return [*steps, head.kept(made.weighted(said, steps[-1], head.V))]
