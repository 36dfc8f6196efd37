"""A claim beside what is computed: the quantity it is about, and whether the printed digits are its digits."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transom.lessons.lesson import Claim, Lesson
from transom.lessons.measures import ALONE, BETWEEN
from transom.lessons.steps import Matrix, Step, Steps
from transom.lessons.table import decimals
from transom.names import Misfit

Work = Callable[[str], Steps]  # the steps of a case by its name
MASKED = Decimal("-Infinity")


@dataclass(frozen=True, eq=False)
class Quantity:
    """What a claim is about, computed; `rows` and `columns` name its axes, as far as it has them."""

    values: NDArray[np.float64]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def named(self, place: tuple[int, ...]) -> str:
        """A place in words: `row The, column 2`."""
        axes = [("row", self.rows)] if self.rows else []
        axes += [("column", self.columns)] if self.columns else []
        return ", ".join(f"{word} {labels[index]}" for (word, labels), index in zip(axes, place, strict=True))


def quantity(lesson: Lesson, claim: Claim, work: Work | None = None) -> Quantity:
    """What the claim is about; `work` where something else than the lesson itself is to be computed."""
    try:
        return measured(claim, work or lesson.steps)
    except Misfit as error:
        raise Misfit(f"{lesson.source.at(claim.path)}: {error}") from error


def measured(claim: Claim, work: Work) -> Quantity:
    step = chosen(work(claim.case), claim)
    if claim.measure == "value":
        return picked(step, claim)
    row = None if claim.row is None else located(step, claim.row, "row", step.rows)
    values = step.values if row is None else step.values[row]
    rows = step.rows if row is None else ()
    if claim.column is not None:
        raise Misfit(f"{claim.measure} is of whole rows, but a column came; leave it out")
    if claim.measure == "rank":
        if row is not None:
            raise Misfit("rank is of a whole step, but a row came; leave it out")
        return Quantity(np.asarray(ALONE["rank"](step.values)), (), ())
    if claim.measure in ALONE:
        return Quantity(np.asarray(ALONE[claim.measure](values)), rows, ())
    others = compared(claim, work, step, row)
    if others.shape != values.shape and others.shape != values.shape[-1:]:
        raise Misfit(
            f"{claim.measure} is between rows of one width, but they have {values.shape[-1]} and {others.shape[-1]}"
        )
    return Quantity(np.asarray(BETWEEN[claim.measure](values, others)), rows, ())


def chosen(steps: Steps, claim: Claim) -> Step:
    """The step a claim is about; where there are several of that name, it must say which."""
    alike = [one for one in steps if one.name == claim.of]
    for word, asked, there in (("head", claim.head, steps.heads), ("layer", claim.layer, steps.layers)):
        if alike and asked is not None and asked not in there:
            listed = ", ".join(f"{word} {one}" for one in there) or f"no {word}"
            raise Misfit(f"there is {listed}, but {word} {asked} was asked for; count from 0")
    step = steps[claim.of, claim.head] if claim.layer is None else steps[claim.of, claim.head, claim.layer]
    if claim.head is None and len({one.head for one in alike}) > 1:
        raise Misfit(f"there is {claim.of} of {len({one.head for one in alike})} heads; give head, counted from 0")
    if claim.layer is None and len({one.layer for one in alike}) > 1:
        raise Misfit(f"there is {claim.of} of {len({one.layer for one in alike})} layers; give layer, counted from 0")
    if claim.head is not None and step.head is None:
        raise Misfit(f"{claim.of} belongs to all heads together, but head {claim.head} was asked for; leave head out")
    return step


def compared(claim: Claim, work: Work, step: Step, row: int | None) -> Matrix:
    """What a measure between two things takes as the other one: another row, or the same of another case."""
    other = step if claim.against is None else chosen(work(claim.against), claim)
    if claim.other is not None:
        return other.values[located(other, claim.other, "row", other.rows)]
    if claim.against is None:
        raise Misfit(f"{claim.measure} is between two rows or two cases; give other (a row), or against (a case)")
    return other.values if row is None else other.values[located(other, claim.row or 0, "row", other.rows)]


def located(step: Step, asked: int | str, axis: str, labels: tuple[str, ...]) -> int:
    """The index of a row or column; a lesson counts them from 1, as the numbers of a vector are labelled."""
    if isinstance(asked, int) and asked >= len(labels):
        raise Misfit(f"{step.name} has {len(labels)} {axis}s, so {asked + 1} is none of them; count from 1")
    if isinstance(asked, str) and labels.count(asked) > 1:
        many = f"{step.name} has {labels.count(asked)} {axis}s {asked!r}"
        raise Misfit(
            f"{many}, so the label does not say which; give its number, {labels.index(asked) + 1} for the first"
        )
    return step.place(asked, axis, labels)


def picked(step: Step, claim: Claim) -> Quantity:
    """The numbers of a step: all, a row, a column, or one."""
    values, rows, columns = step.values, step.rows, step.columns
    if claim.column is not None:
        values, columns = values[:, located(step, claim.column, "column", columns)], ()
    if claim.row is not None:
        values, rows = values[located(step, claim.row, "row", rows)], ()
    return Quantity(np.asarray(values), rows, columns)


def flat(value: Any) -> list[Decimal]:
    """The numbers of a claim in the order in which they are written."""
    return [value] if isinstance(value, Decimal) else [one for part in value for one in flat(part)]


def shape(value: Any) -> tuple[int, ...]:
    """The shape of a claim; ragged ones have none."""
    if isinstance(value, Decimal):
        return ()
    inner = {shape(one) for one in value}
    if len(inner) > 1:
        raise Misfit("its rows are not of one length")
    return (len(value), *next(iter(inner), ()))


def digits(value: Any) -> list[int]:
    """To how many decimals each number is claimed: as printed; a whole number among decimals like the finest."""
    numbers = flat(value)
    finest = max((decimals(one) for one in numbers), default=0)
    return [decimals(one) or finest for one in numbers]


def check_shape(lesson: Lesson, claim: Claim, found: Quantity) -> None:
    """Complain unless as many numbers are claimed as there are."""
    where = lesson.source.at((*claim.path, "value"))
    try:
        came = shape(claim.value)
    except Misfit as error:
        raise Misfit(f"{where}: value must be a number, a row or a matrix, but {error}; make them equal") from error
    if came != found.values.shape:
        raise Misfit(
            f"{where}: value must be {sized(found.values.shape)}, but it is {sized(came)}; claim all of it, or a part"
        )


def sized(shape: tuple[int, ...]) -> str:
    if not shape:
        return "one number"
    return f"{shape[0]} numbers" if len(shape) == 1 else " × ".join(str(size) for size in shape)


def agree(claim: Claim, found: Quantity) -> NDArray[np.bool_]:
    """For each number whether the claim is right: whether what is computed rounds to what is printed."""
    if claim.value is None:
        right = np.ones(found.values.shape, dtype=bool)
        right &= True if claim.above is None else found.values > float(claim.above)
        return np.asarray(right & (True if claim.below is None else found.values < float(claim.below)))
    numbers = [float(one) for one in flat(claim.value)]
    right = [
        same(value, one, places)
        for value, one, places in zip(found.values.ravel(), numbers, digits(claim.value), strict=True)
    ]
    return np.array(right, dtype=bool).reshape(found.values.shape)


def same(value: float, printed: float, places: int) -> bool:
    """Whether a value rounds to what is printed; exactly between two, both are right."""
    if np.isinf(value) or np.isinf(printed):
        return bool(value == printed)
    return bool(abs(value - printed) <= 0.5 * 10.0**-places * (1 + 1e-9) + 1e-14 * abs(value))
