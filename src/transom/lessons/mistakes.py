"""Common mistakes, made on purpose: setups with one thing done wrong, and values misread.

Each function of a setup yields the mistake in words and the setup in which it was made; `CAUSES` in diagnosis.py names
them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transom.lessons.arithmetic import format_number
from transom.lessons.lesson_setup import LessonLayer, LessonSetup, Rounding
from transom.lessons.steps import Matrix

Mistakes = Iterator[tuple[str, LessonSetup]]


def change_layers(setup: LessonSetup, change: Callable[[LessonLayer], LessonLayer]) -> LessonSetup:
    return replace(setup, layers=tuple(change(layer) for layer in setup.layers))


def with_attention(setup: LessonSetup, **changes: Any) -> LessonSetup:
    return change_layers(setup, lambda layer: replace(layer, attention=replace(layer.attention, **changes)))


def with_block(setup: LessonSetup, **changes: Any) -> LessonSetup:
    return change_layers(setup, lambda layer: replace(layer, block=replace(layer.block, **changes)))


def without_parameter(setup: LessonSetup, name: str) -> LessonSetup:
    def change(layer: LessonLayer) -> LessonLayer:
        return replace(layer, parameters={key: layer.parameters[key] for key in layer.parameters if key != name})

    return change_layers(setup, change)


def wrong_scaling(setup: LessonSetup) -> Mistakes:
    if any(layer.attention.scale for layer in setup.layers):
        yield "the scores were not divided by √d_head", with_attention(setup, scale=False)
    elif all(layer.attention.d_head for layer in setup.layers):
        words = "the scores were divided by √d_head, which this lesson does not do"
        yield words, with_attention(setup, scale=True)


def wrong_divisor(setup: LessonSetup) -> Mistakes:
    divisors = ("d_head", "√d_model") if "embedding" in setup.start else ("d_head",)  # given Q and K have no d_model
    for divisor in divisors:
        words = f"the scores were divided by {divisor} instead of √d_head"
        yield words, with_attention(setup, divisor=divisor)


def wrong_axis(setup: LessonSetup) -> Mistakes:
    words = "the softmax went down the columns, over the queries; it goes along each row, over the keys"
    yield words, with_attention(setup, axis=0)


def transposed_parameter(setup: LessonSetup) -> Mistakes:
    for number, layer in enumerate(setup.layers):
        for name, values in layer.parameters.items():
            if values.ndim >= 2 and values.shape[-1] == values.shape[-2]:
                changed = replace(layer, parameters={**layer.parameters, name: np.swapaxes(values, -1, -2)})
                layers = (*setup.layers[:number], changed, *setup.layers[number + 1 :])
                yield f"{name} was taken transposed", replace(setup, layers=layers)


def is_masked(setup: LessonSetup) -> bool:
    return any(layer.attention.allowed is not None for layer in setup.layers)


def forgotten_mask(setup: LessonSetup) -> Mistakes:
    if is_masked(setup):
        yield "the mask was forgotten", with_attention(setup, allowed=None)
    elif len(setup.tokens) == len(setup.key_tokens):
        causal = np.tril(np.ones((len(setup.tokens),) * 2, dtype=bool))
        yield "a causal mask was applied, which this lesson does not have", with_attention(setup, allowed=causal)


def turned_mask(setup: LessonSetup) -> Mistakes:
    def turn(layer: LessonLayer) -> LessonLayer:
        mask = layer.attention.allowed
        return layer if mask is None else replace(layer, attention=replace(layer.attention, allowed=mask.T))

    if is_masked(setup) and len(setup.tokens) == len(setup.key_tokens):
        yield "the mask was turned the wrong way round", change_layers(setup, turn)


def omitted_part(setup: LessonSetup) -> Mistakes:
    """A bias, the residual, the norm, the positions or the temperature left out."""
    for name in ("b_Q", "b_K", "b_V", "b_O", "b_1", "b_2"):
        if any(name in layer.parameters for layer in setup.layers):
            yield f"the bias {name} was left out", without_parameter(setup, name)
    if any(layer.block.residual for layer in setup.layers):
        yield "the residual was left out", with_block(setup, residual=False)
    if any(layer.block.norm != "none" for layer in setup.layers):
        yield "the norm was left out", with_block(setup, norm="none")
    if "positions" in setup.start:
        start = {name: values for name, values in setup.start.items() if name != "positions"}
        yield "the positions were left out", replace(setup, start=start)
    if any(layer.attention.temperature != 1.0 for layer in setup.layers):
        yield "the temperature was left out", with_attention(setup, temperature=1.0)


def rounded_steps(setup: LessonSetup, decimals: int) -> Mistakes:
    """Each step rounded, or cut, before the next; `decimals` are those of the claim."""
    # Someone who prints four decimals may have computed with three or five, but not with none.
    for places in range(decimals + 1, max(-1, decimals - 2), -1):
        for cut, word in ((False, "rounded"), (True, "cut")):
            words = f"each step was {word} to {places} decimal{'s' * (places != 1)} before the next"
            yield words, replace(setup, change=Rounding(places, cut))


LARGER = 3.0  # times the largest number among the values: nobody misreads 10 as 60,000
CHANCE = 0.01  # the highest probability that some value fits a wrong figure by chance
WAYS = 3  # weights exact, rounded or cut


def find_misreading(
    weights: Matrix, V: Matrix, key: int, claimed: Matrix, matches: NDArray[np.bool_], decimals: int
) -> str:
    """The value of a key that would explain all claimed weighted sums, in words; "" if there is no plausible one.

    It must be as simple and as small as the other values, and unlikely to fit by chance.
    """
    value_decimals = count_value_decimals(V)
    row = int(np.argmax(np.where(matches.all(axis=1), -1.0, weights[:, key])))  # the wrong row with the largest weight
    chance = chance_of_fit(decimals, value_decimals, weights[:, key], matches)
    if weights[row, key] < 1e-9 or chance * len(V) > CHANCE:
        return ""
    others = np.delete(weights[row], key) @ np.delete(V, key, axis=0)
    misread = V.copy()
    misread[key] = np.round((claimed[row] - others) / weights[row, key], value_decimals)
    if np.array_equal(misread[key], V[key]) or np.abs(misread[key]).max() > LARGER * np.abs(V).max():
        return ""
    tolerance = 0.5 * 10.0**-decimals * (1 + 1e-9)
    for suffix, used in (
        ("", weights),
        (f", with weights rounded to {decimals} decimals", np.round(weights, decimals)),
        (f", with weights cut to {decimals} decimals", Rounding(decimals, cut=True).round_values(weights)),
    ):
        if (np.abs(used @ misread - claimed) <= tolerance).all():
            numbers, right = (" ".join(format_number(float(number)) for number in x[key]) for x in (misread, V))
            return f"[{numbers}] instead of [{right}]{suffix}"
    return ""


def chance_of_fit(decimals: int, value_decimals: int, weights: Matrix, matches: NDArray[np.bool_]) -> float:
    """How likely it is that some value with so many decimals fits figures that no such value made.

    A value moves a sum in steps of weight · 10^−value_decimals; each wrong figure is hit within 10^−decimals.
    """
    steps = np.maximum(weights, 1e-300)[:, None] * 10.0**-value_decimals
    chances = np.minimum(1.0, 10.0**-decimals / np.broadcast_to(steps, matches.shape))
    return float(WAYS * np.prod(chances[~matches]))


def count_value_decimals(V: Matrix) -> int:
    """How many decimals the values have, up to 9."""
    return next((places for places in range(9) if np.allclose(V, np.round(V, places), rtol=0, atol=1e-12)), 9)
