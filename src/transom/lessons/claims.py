"""The claims of a lesson: what each is about, computed, and whether the figure as printed is right."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transom.lessons.glossary import STEP_WORDS
from transom.lessons.lesson import Claim, Lesson
from transom.lessons.steps import Labels, Matrix, Step, Steps
from transom.lessons.toml_source import count_decimals
from transom.names import Misfit

Result = Matrix | np.float64  # of many rows, or of one


def row_entropy(weights: Matrix) -> Result:
    """How spread out each row of weights is, in nats."""
    return -(weights * np.log(np.where(weights > 0.0, weights, 1.0))).sum(axis=-1)


def row_length(values: Matrix) -> Result:
    """The length of each row as a vector."""
    return np.sqrt((values**2).sum(axis=-1))


def row_cosine(values: Matrix, others: Matrix) -> Result:
    """1 where two rows point the same way, 0 where they have nothing in common, −1 where they are opposite."""
    return (values * others).sum(axis=-1) / np.maximum(row_length(values) * row_length(others), 1e-300)


ALONE: dict[str, Callable[[Matrix], Result]] = {
    "total": lambda values: values.sum(axis=-1),
    "entropy": row_entropy,
    "length": row_length,
    "largest": lambda values: values.max(axis=-1),
    "smallest": lambda values: values.min(axis=-1),
    "rank": lambda values: np.float64(np.linalg.matrix_rank(values)),  # of the whole step, not of a row
}
BETWEEN: dict[str, Callable[[Matrix, Matrix], Result]] = {
    "cosine": row_cosine,
    "distance": lambda values, others: row_length(values - others),
    "difference": lambda values, others: np.abs(values - others).max(axis=-1),
}
MEASURES = ("value", *ALONE, *BETWEEN)
MASKED = Decimal("-Infinity")
StepsOfCase = Callable[[str], Steps]  # the steps of a case by its name


@dataclass(frozen=True, eq=False)
class Quantity:
    """What a claim is about, computed; `rows` and `columns` label its axes, as far as it has them."""

    values: NDArray[np.float64]
    rows: Labels
    columns: Labels

    def position_text(self, index: tuple[int, ...]) -> str:
        """An index in words: `row The, column 2`."""
        axes = [(axis, labels) for axis, labels in (("row", self.rows), ("column", self.columns)) if labels]
        return ", ".join(f"{axis} {labels[place]}" for (axis, labels), place in zip(axes, index, strict=True))


def compute_quantity(lesson: Lesson, claim: Claim) -> Quantity:
    """What a claim of a lesson is about."""
    try:
        return measure_claim(claim, lesson.steps)
    except Misfit as error:
        raise Misfit(f"{lesson.source.at(claim.path)}: {error}") from error


def measure_claim(claim: Claim, steps_of_case: StepsOfCase) -> Quantity:
    """What a claim is about, in steps that may be others than those of its lesson."""
    step = select_step(steps_of_case(claim.case), claim)
    if claim.measure == "value":
        return select_values(step, claim)
    if claim.column is not None:
        raise Misfit(f"{claim.measure} is of whole rows, but a column came; leave it out")
    values, rows = step.values, step.rows
    if claim.row is not None:
        values, rows = values[step.index_of(claim.row, "row", first=1)], ()
    if claim.measure == "rank":
        if claim.row is not None:
            raise Misfit("rank is of a whole step, but a row came; leave it out")
        rows = ()
    if claim.measure in ALONE:
        return Quantity(np.asarray(ALONE[claim.measure](values)), rows, ())
    others = comparison_values(claim, steps_of_case, step)
    if others.shape != values.shape and others.shape != values.shape[-1:]:
        raise Misfit(
            f"{claim.measure} is between rows of one width, but they have {values.shape[-1]} and {others.shape[-1]}"
        )
    return Quantity(np.asarray(BETWEEN[claim.measure](values, others)), rows, ())


def select_step(steps: Steps, claim: Claim) -> Step:
    """The step a claim is about; if there are several of that name, it must say which."""
    if claim.of not in steps:
        raise Misfit(f"there is no step {claim.of!r}; {suggest_step(claim.of, steps)}")
    step = steps[claim.of, claim.head, claim.layer]
    for axis in ("head", "layer"):
        count = len({getattr(other, axis) for other in steps if other.name == claim.of})
        if getattr(claim, axis) is None and count > 1:
            raise Misfit(f"there is {claim.of} of {count} {axis}s; give {axis}, counted from 0")
    if claim.head is not None and step.head is None:
        raise Misfit(f"{claim.of} belongs to all heads together, but head {claim.head} was asked for; leave head out")
    return step


def suggest_step(word: str, steps: Steps) -> str:
    """The step that a word may mean, among the names of the steps and the words for them."""
    plain = word.lower().replace("_", " ")
    if plain in ("attention score", "attention scores"):
        return "before the softmax they are scores, after it weights"
    if plain in ("output", "outputs") and "sum" in steps:
        return "with one head and no W_O the output is 'sum'"
    near = get_close_matches(word, [*steps.names, *STEP_WORDS], n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(steps.names)}"


def comparison_values(claim: Claim, steps_of_case: StepsOfCase, step: Step) -> Matrix:
    """What a measure compares with: another row, or the same step of another case."""
    row = claim.row if claim.other is None else claim.other
    if claim.against is not None:
        step = select_step(steps_of_case(claim.against), claim)
    elif claim.other is None:
        raise Misfit(f"{claim.measure} is between two rows or two cases; give other (a row), or against (a case)")
    return step.values if row is None else step.values[step.index_of(row, "row", first=1)]


def select_values(step: Step, claim: Claim) -> Quantity:
    """The numbers of a step: all, a row, a column, or one."""
    values, rows, columns = step.values, step.rows, step.columns
    if claim.column is not None:
        values, columns = values[:, step.index_of(claim.column, "column", first=1)], ()
    if claim.row is not None:
        values, rows = values[step.index_of(claim.row, "row", first=1)], ()
    return Quantity(np.asarray(values), rows, columns)


def flatten_claim(value: Any) -> list[Decimal]:
    """The numbers of a claim in the order in which they are written."""
    return [value] if isinstance(value, Decimal) else [number for part in value for number in flatten_claim(part)]


def claimed_decimals(value: Any) -> list[int]:
    """How many decimals of each number are claimed: as printed; for a whole number, as many as the finest has."""
    decimals = [count_decimals(number) for number in flatten_claim(value)]
    return [count or max(decimals) for count in decimals]


def check_claim_shape(lesson: Lesson, claim: Claim, computed: Quantity) -> None:
    """Complain unless as many numbers are claimed as there are."""
    where = lesson.source.at((*claim.path, "value"))
    try:
        shape = np.shape(claim.value)
    except ValueError as error:
        complaint = "value must be a number, a row or a matrix, but its rows are not of one length; make them equal"
        raise Misfit(f"{where}: {complaint}") from error
    if shape != computed.values.shape:
        turned = len(shape) == 2 and shape[::-1] == computed.values.shape
        raise Misfit(
            f"{where}: value must be {format_size(computed.values.shape)}, but it is {format_size(shape)};"
            f" {'transposed it would fit' if turned else 'claim all of it, or a part'}"
        )


def format_size(shape: tuple[int, ...]) -> str:
    if not shape:
        return "one number"
    return f"{shape[0]} numbers" if len(shape) == 1 else " × ".join(str(size) for size in shape)


def claim_matches(claim: Claim, computed: Quantity) -> NDArray[np.bool_]:
    """For each number whether the claim is right: within its bounds, or what the computed number rounds to."""
    values = computed.values
    if claim.value is None:
        right = np.ones(values.shape, dtype=bool)
        right &= True if claim.above is None else values > float(claim.above)
        right &= True if claim.below is None else values < float(claim.below)
        return right
    printed = zip(values.ravel(), flatten_claim(claim.value), claimed_decimals(claim.value), strict=True)
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    right = [
        rounds_to(value, float(number), decimals)
        or (is_float32(number) and abs(value - float(number)) <= FLOAT32_ERROR * largest)
        for value, number, decimals in printed
    ]
    return np.array(right, dtype=bool).reshape(values.shape)


FLOAT32_DIGITS = 7  # a number with fewer digits is held to them
FLOAT32_ERROR = 2.0**-21  # of the largest number: what a few steps in float32 leave


def is_float32(number: Decimal) -> bool:
    """Whether a number is one that float32 holds, printed at full length."""
    if not number.is_finite() or len(number.as_tuple().digits) < FLOAT32_DIGITS:
        return False
    single = np.float32(float(number))
    return Decimal(str(single)) == number or f"{float(single):.{count_decimals(number)}f}" == f"{number:f}"


def rounds_to(value: float, printed: float, decimals: int) -> bool:
    """Whether a value rounds to what is printed; exactly between two, both are right."""
    if np.isinf(value) or np.isinf(printed):
        return bool(value == printed)
    return bool(abs(value - printed) <= 0.5 * 10.0**-decimals * (1 + 1e-9) + 1e-14 * abs(value))


def claim_subject(claim: Claim) -> str:
    """What a claim is about, in few words: weights of The, sat."""
    labels = (("row", claim.row), ("column", claim.column))
    places = [f"{axis} {label + 1}" if isinstance(label, int) else label for axis, label in labels if label is not None]
    words = claim.of if claim.measure == "value" else f"{claim.measure} of {claim.of}"
    words += f" in layer {claim.layer}" if claim.layer is not None else ""
    words += f" in head {claim.head}" if claim.head is not None else ""
    words += f" of {', '.join(places)}" if places else ""
    other = f"row {claim.other + 1}" if isinstance(claim.other, int) else claim.other
    words += f" and {other}" if other is not None else ""
    if claim.against is not None:
        words += f" against “{claim.against}”" if claim.against else " against the lesson itself"
    return words
