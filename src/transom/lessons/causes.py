"""Why a claim may be wrong: each cause makes one mistake on purpose, and fits if the claim then comes out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from transom.lessons.claims import Quantity, agree, digits, flat, measured, shape
from transom.lessons.lesson import Claim, Lesson
from transom.lessons.setup import Layer, Rounding, Setup
from transom.lessons.steps import Steps
from transom.lessons.value_cause import value_vector
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

    @property
    def digits_that_tell(self) -> int:
        """The digits of all wrong figures together, without leading zeros: a single one fits too much by chance."""
        right = agree(self.claim, self.right).ravel()
        wrong = [one for one, fine in zip(flat(self.claim.value), right, strict=True) if not fine]
        return sum(len(one.as_tuple().digits) for one in wrong)

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
    elif all(layer.attention.d_head for layer in wrong.setup.layers) and wrong.comes_out(
        attending(wrong.setup, scale=True)
    ):
        yield "the scores were divided by √d_head, which this lesson does not do"


def wrong_divisor(wrong: Wrong) -> Iterator[str]:
    assert wrong.setup is not None
    known = "embedding" in wrong.setup.start  # what is given has no d_model
    for divisor in ("d_head", "√d_model") if known else ("d_head",):
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

    masked = any(layer.attention.allowed is not None for layer in wrong.setup.layers)
    square = len(wrong.setup.tokens) == len(wrong.setup.looked_at)
    if masked and square and wrong.comes_out(each_layer(wrong.setup, turn)):
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
    for word, none in (("residual", False), ("norm", "none")):
        if all(getattr(layer.block, word) == none for layer in setup.layers):
            continue
        changes = {word: none}
        changed = each_layer(setup, lambda one, changes=changes: replace(one, block=replace(one.block, **changes)))
        if wrong.comes_out(changed):
            yield f"the {word} was left out"
    if "positions" in setup.start:
        start = {name: values for name, values in setup.start.items() if name != "positions"}
        if wrong.comes_out(replace(setup, start=start)):
            yield "the positions were left out"
    warm = any(layer.attention.temperature != 1.0 for layer in setup.layers)
    if warm and wrong.comes_out(attending(setup, temperature=1.0)):
        yield "the temperature was left out"


def without(word: str) -> Callable[[Layer], Layer]:
    return lambda one: replace(one, parameters={key: value for key, value in one.parameters.items() if key != word})


def rounded_early(wrong: Wrong) -> Iterator[str]:
    """Each step rounded, or cut, before the next."""
    assert wrong.setup is not None
    # Whoever prints four decimals may have worked with three or five, but not with none.
    for places in range(wrong.decimals + 1, max(-1, wrong.decimals - 2), -1):
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
LEAST_DIGITS = 2  # of the wrong figures of a claim, so that a mistake can be told from chance
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
        if name != "not one" and wrong.digits_that_tell < LEAST_DIGITS:
            continue
        with np.errstate(all="ignore"):
            words = list(islice(cause(wrong), 2))
        if words:
            found[name] = " or ".join(words)
        if len(found) == most:
            break
    return found
