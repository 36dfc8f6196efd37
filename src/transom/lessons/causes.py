"""Why a claim may be wrong: each cause makes one mistake on purpose, and fits if the claim then comes out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from transom.lessons.arithmetic import number
from transom.lessons.claims import Quantity, agree, digits, flat, measured, shape
from transom.lessons.lesson import Claim, Lesson
from transom.lessons.setup import Layer, Rounding, Setup
from transom.lessons.steps import Matrix, Steps
from transom.lessons.working import computed
from transom.names import Misfit


@dataclass(frozen=True, eq=False)
class Wrong:
    """A claim that is wrong, and what is right."""

    lesson: Lesson
    claim: Claim
    right: Quantity

    @property
    def setup(self) -> Setup | None:
        return self.lesson.cases[self.claim.case].setup

    @property
    def decimals(self) -> int:
        return max(digits(self.claim.value), default=0)

    def comes_out(self, setup: Setup) -> bool:
        """Whether the claim is right of this setup, where something was done wrong on purpose."""
        return self.would_be(computed(setup))

    def would_be(self, steps: Steps, claim: Claim | None = None) -> bool:
        try:
            found = measured(
                claim or self.claim, lambda case: steps if case == self.claim.case else self.lesson.steps(case)
            )
        except Misfit:  # this mistake takes away what the claim is about
            return False
        return found.values.shape == self.right.values.shape and bool(agree(self.claim, found).all())


Cause = Callable[[Wrong], Iterator[str]]


def each_layer(setup: Setup, change: Callable[[Layer], Layer]) -> Setup:
    return replace(setup, layers=tuple(change(layer) for layer in setup.layers))


def attending(setup: Setup, **changes: Any) -> Setup:
    """The setup with something else in the attention of every layer."""
    return each_layer(setup, lambda layer: replace(layer, attention=replace(layer.attention, **changes)))


def cut_off(wrong: Wrong) -> Iterator[str]:
    """The right numbers, cut instead of rounded."""
    values = wrong.right.values
    if not np.isfinite(values).all():
        return
    units = 10.0 ** np.array(digits(wrong.claim.value)).reshape(values.shape)
    cut = np.asarray(np.trunc(values * units + np.sign(values) * 1e-9) / units)
    if (agree(wrong.claim, wrong.right) | agree(wrong.claim, replace(wrong.right, values=cut))).all():
        yield "the digits were cut off, not rounded"


def unscaled(wrong: Wrong) -> Iterator[str]:
    assert wrong.setup is not None
    if any(layer.attention.scale for layer in wrong.setup.layers):
        if wrong.comes_out(attending(wrong.setup, scale=False)):
            yield "the scores were not divided by √d_head"
    elif wrong.comes_out(attending(wrong.setup, scale=True)):
        yield "the scores were divided by √d_head, which this lesson does not do"


def wrong_divisor(wrong: Wrong) -> Iterator[str]:
    assert wrong.setup is not None
    for divisor in ("d_head", "√d_model"):
        if wrong.comes_out(attending(wrong.setup, divisor=divisor)):
            yield f"the scores were divided by {divisor} instead of √d_head"


def wrong_axis(wrong: Wrong) -> Iterator[str]:
    assert wrong.setup is not None
    if wrong.comes_out(attending(wrong.setup, axis=0)):
        yield "the softmax went down the columns, over the queries; it goes along each row, over the keys"


def transposed(wrong: Wrong) -> Iterator[str]:
    """One parameter of one layer on its side."""
    assert wrong.setup is not None
    for place, layer in enumerate(wrong.setup.layers):
        for name, values in layer.parameters.items():
            if values.ndim < 2 or values.shape[-1] != values.shape[-2]:
                continue
            turned = replace(layer, parameters={**layer.parameters, name: np.swapaxes(values, -1, -2)})
            layers = (*wrong.setup.layers[:place], turned, *wrong.setup.layers[place + 1 :])
            if wrong.comes_out(replace(wrong.setup, layers=layers)):
                yield f"{name} was taken transposed"


def mask_forgotten(wrong: Wrong) -> Iterator[str]:
    assert wrong.setup is not None
    masks = [layer.attention.allowed for layer in wrong.setup.layers]
    if all(mask is None for mask in masks):
        if len(wrong.setup.tokens) == len(wrong.setup.looked_at):
            causal = np.tril(np.ones((len(wrong.setup.tokens),) * 2, dtype=bool))
            if wrong.comes_out(attending(wrong.setup, allowed=causal)):
                yield "a causal mask was applied, which this lesson does not have"
    elif wrong.comes_out(attending(wrong.setup, allowed=None)):
        yield "the mask was forgotten"


def mask_turned(wrong: Wrong) -> Iterator[str]:
    assert wrong.setup is not None

    def turn(layer: Layer) -> Layer:
        mask = layer.attention.allowed
        return layer if mask is None else replace(layer, attention=replace(layer.attention, allowed=mask.T))

    if len(wrong.setup.tokens) == len(wrong.setup.looked_at) and wrong.comes_out(each_layer(wrong.setup, turn)):
        yield "the mask was turned the wrong way round"


def left_out(wrong: Wrong) -> Iterator[str]:
    """A part that was forgotten: a bias, the residual, the norm, the positions, the temperature."""
    setup = wrong.setup
    assert setup is not None
    for word in ("b_Q", "b_K", "b_V", "b_O", "b_1", "b_2"):
        if any(word in layer.parameters for layer in setup.layers) and wrong.comes_out(
            each_layer(setup, without(word))
        ):
            yield f"the bias {word} was left out"
    for word, changes in (("residual", {"residual": False}), ("norm", {"norm": "none"})):
        changed = each_layer(setup, lambda one, changes=changes: replace(one, block=replace(one.block, **changes)))
        if wrong.comes_out(changed):
            yield f"the {word} was left out"
    if "positions" in setup.start:
        start = {name: values for name, values in setup.start.items() if name != "positions"}
        if wrong.comes_out(replace(setup, start=start)):
            yield "the positions were left out"
    if wrong.comes_out(attending(setup, temperature=1.0)):
        yield "the temperature was left out"


def without(word: str) -> Callable[[Layer], Layer]:
    return lambda one: replace(one, parameters={key: value for key, value in one.parameters.items() if key != word})


def rounded_early(wrong: Wrong) -> Iterator[str]:
    """Each step rounded, or cut, before the next."""
    assert wrong.setup is not None
    for places in range(wrong.decimals + 1, -1, -1):
        for cut, word in ((False, "rounded"), (True, "cut")):
            if wrong.comes_out(replace(wrong.setup, rounding=Rounding(places, cut))):
                yield f"each step was {word} to {places} decimal{'s' * (places != 1)} before the next"
                return


def not_one(wrong: Wrong) -> Iterator[str]:
    """Weights that do not sum to 1."""
    claim = wrong.claim
    if claim.of != "weights" or claim.measure != "value" or claim.column is not None:
        return
    rows = [claim.value] if len(shape(claim.value)) == 1 else claim.value
    names = [str(claim.row)] if len(shape(claim.value)) == 1 else wrong.right.rows
    for name, row in zip(names, rows, strict=True):
        total = sum(flat(row))
        if abs(float(total) - 1.0) > 0.5 * len(row) * 10.0 ** -max(digits(row)) * (1 + 1e-9):
            yield f"the claimed weights of {name} sum to {total}, and weights sum to 1"
            return


def other_step(wrong: Wrong) -> Iterator[str]:
    """The numbers of another step in the same place."""
    steps = wrong.lesson.steps(wrong.claim.case)
    for name in steps.names:
        if name != wrong.claim.of and wrong.would_be(steps, replace(wrong.claim, of=name)):
            yield f"these are the numbers of {name}, not of {wrong.claim.of}"


def swapped(wrong: Wrong) -> Iterator[str]:
    """Another row, or rows for columns."""
    steps, claim = wrong.lesson.steps(wrong.claim.case), wrong.claim
    if wrong.right.values.ndim == 2 and wrong.right.values.shape[0] == wrong.right.values.shape[1]:
        if agree(claim, replace(wrong.right, values=wrong.right.values.T)).all():
            yield "rows and columns were swapped"
        return
    if claim.row is None or claim.measure != "value":
        return
    own = next(step for step in steps if step.name == claim.of)
    for place, label in enumerate(own.rows):
        if wrong.would_be(steps, replace(claim, row=place)):
            yield f"this is the row of {label}"
    if claim.column is None and wrong.would_be(steps, replace(claim, row=None, column=claim.row)):
        yield "a column was taken for a row"


def value_vector(wrong: Wrong) -> Iterator[str]:
    """A value as simple as the others that would explain a weighted sum, with weights exact, rounded or cut."""
    claim = wrong.claim
    if claim.of != "sum" or claim.measure != "value" or claim.column is not None:
        return
    steps = wrong.lesson.steps(claim.case)
    if "V" not in steps:
        return
    head = (claim.head or 0, claim.layer or 0)
    weights, V = steps["weights", *head], steps["V", *head].values
    matrix = np.array([float(one) for one in flat(claim.value)]).reshape(-1, V.shape[1])
    row = first_wrong_row(wrong) if claim.row is None else weights.place(claim.row, "row", weights.rows)
    target = matrix[0 if claim.row is not None else row]
    found = [one for key in range(len(V)) for one in explained(wrong, weights.values[row], V, key, target)]
    if found:
        yield " or ".join(f"the value of {weights.columns[key]} was taken as {text}" for key, text in found)


def first_wrong_row(wrong: Wrong) -> int:
    return int(np.flatnonzero(~agree(wrong.claim, wrong.right).all(axis=-1))[0])


def explained(wrong: Wrong, weights: Matrix, V: Matrix, key: int, target: Matrix) -> Iterator[tuple[int, str]]:
    """The value of one key that would explain the target, if it has no more decimals than the values have."""
    if weights[key] < 1e-9 or not np.isfinite(target).all():
        return
    others = np.delete(weights, key) @ np.delete(V, key, axis=0)
    needed = (target - others) / weights[key]
    places = simplicity(V)
    if places > wrong.decimals - 2:  # with so little to match, some vector always fits
        return
    misread = V.copy()
    misread[key] = np.round(needed, places)
    for how, used in rounded_ways(weights, wrong.decimals):
        unit = 0.5 * 10.0**-wrong.decimals * (1 + 1e-9)
        if (np.abs(used @ misread - target) <= unit).all() and not np.array_equal(misread[key], V[key]):
            numbers = " ".join(number(float(one)) for one in misread[key])
            was = " ".join(number(float(one)) for one in V[key])
            yield key, f"[{numbers}] instead of [{was}]{how}"
            return


def simplicity(V: Matrix) -> int:
    """How many decimals the values have, up to 9."""
    return next((places for places in range(9) if np.allclose(V, np.round(V, places), rtol=0, atol=1e-12)), 9)


def rounded_ways(weights: Matrix, places: int) -> Iterator[tuple[str, Matrix]]:
    yield "", weights
    yield f", with weights rounded to {places} decimals", np.round(weights, places)
    yield f", with weights cut to {places} decimals", Rounding(places, cut=True)(weights)


CAUSES: dict[str, Cause] = {
    "cut off": cut_off,
    "not one": not_one,
    "unscaled": unscaled,
    "wrong divisor": wrong_divisor,
    "wrong axis": wrong_axis,
    "mask forgotten": mask_forgotten,
    "mask turned": mask_turned,
    "transposed": transposed,
    "left out": left_out,
    "other step": other_step,
    "swapped": swapped,
    "value vector": value_vector,
    "rounded early": rounded_early,
}
WITHOUT_SETUP = {"cut off", "not one", "other step", "swapped"}  # causes that need nothing to be computed anew


def causes(lesson: Lesson, claim: Claim, right: Quantity, most: int = 3) -> dict[str, str]:
    """The causes that fit a wrong claim, by name, each in words; the likeliest first."""
    if claim.value is None:
        return {}
    wrong = Wrong(lesson, claim, right)
    found: dict[str, str] = {}
    for name, cause in CAUSES.items():
        if wrong.setup is None and name not in WITHOUT_SETUP:
            continue
        with np.errstate(all="ignore"):
            words = list(islice(cause(wrong), 2))
        if words:
            found[name] = " or ".join(words)
        if len(found) == most:
            break
    return found
