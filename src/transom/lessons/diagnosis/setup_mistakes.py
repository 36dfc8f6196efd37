"""Common mistakes, made on purpose: setups with one thing done wrong.

Each function of a setup yields the mistake in words and the setup in which it was made; `CAUSES` in causes.py names
them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from transom.lessons.lesson_setup import LessonLayer, LessonSetup
from transom.lessons.step_builders import StepChange, StepInfo
from transom.lessons.steps import Matrix


class Mistake(NamedTuple):
    """A mistake in words, the setup in which it was made, and what it costs beyond its cause, in digits."""

    words: str
    setup: LessonSetup
    cost: float = 0.0


Mistakes = Iterator[Mistake]


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
        yield Mistake("the scores were not divided by √d_head", with_attention(setup, scale=False))
    elif all(layer.attention.d_head for layer in setup.layers):
        words = "the scores were divided by √d_head, which this lesson does not do"
        yield Mistake(words, with_attention(setup, scale=True))


def wrong_divisor(setup: LessonSetup) -> Mistakes:
    """Another divisor than √d_head; given Q and K have no d_model."""
    if not any(layer.attention.scale for layer in setup.layers):
        return
    for divisor in ("d_head", "√d_model") if "embedding" in setup.start else ("d_head",):
        words = f"the scores were divided by {divisor} instead of √d_head"
        yield Mistake(words, with_attention(setup, divisor=divisor))
    d_head, count = setup.layers[0].attention.d_head, len(setup.key_tokens)
    for divisor, size in (
        (f"√{count}, of the number of tokens,", sqrt(count)),
        (f"{count}, the number of tokens,", count),
    ):
        words = f"the scores were divided by {divisor} instead of √d_head"
        yield Mistake(words, replace(setup, change=change_step("scaled", lambda x, n=size: x * sqrt(d_head) / n)), 0.3)


def wrong_axis(setup: LessonSetup) -> Mistakes:
    words = "the softmax went down the columns, over the queries; it goes along each row, over the keys"
    yield Mistake(words, with_attention(setup, axis=0))
    if len(setup.tokens) > 1:
        words = "the softmax went over the whole matrix; it goes along each row, over the keys"
        yield Mistake(words, with_attention(setup, axis=None))


def change_step(name: str, change: Callable[[Matrix], Matrix]) -> StepChange:
    """A change of one step, in every head and layer."""
    return lambda info, values: change(values) if info.name == name else values


def wrong_softmax(setup: LessonSetup) -> Mistakes:
    """A softmax without its powers, without its sum, or to another base."""
    words = "the scores were divided by their sum, without e^score"
    yield Mistake(words, replace(setup, change=change_step("powers", lambda x: np.where(x > 0.0, np.log(x), 0.0))))
    words = "the powers e^score were not divided by their sum"
    yield Mistake(words, replace(setup, change=change_step("total", np.ones_like)))
    words = "the softmax was taken of powers of 2 instead of e"
    yield Mistake(words, replace(setup, change=change_step("powers", lambda x: x ** np.log(2.0))), 0.2)


def transposed_parameter(setup: LessonSetup) -> Mistakes:
    for number, layer in enumerate(setup.layers):
        for name, values in layer.parameters.items():
            if values.ndim >= 2 and values.shape[-1] == values.shape[-2]:
                changed = replace(layer, parameters={**layer.parameters, name: np.swapaxes(values, -1, -2)})
                layers = (*setup.layers[:number], changed, *setup.layers[number + 1 :])
                where = f" in layer {number}" if len(setup.layers) > 1 else ""
                yield Mistake(f"{name} was taken transposed{where}", replace(setup, layers=layers))
    yield from transposed_steps(setup)


def transposed_steps(setup: LessonSetup) -> Mistakes:
    """K or the weights transposed in the next step, where that is possible."""
    count, d_head = len(setup.key_tokens), setup.layers[0].attention.d_head
    if count == d_head and "scores" not in setup.start:
        words = "K was not transposed: this is Q K, not Q Kᵀ"
        if "K" in setup.start:
            yield Mistake(words, replace(setup, start={**setup.start, "K": setup.start["K"].T}))
        else:
            yield Mistake(words, replace(setup, change=change_step("K", np.transpose)))
    if count == len(setup.tokens):
        words = "the weights were taken transposed, a column for a row"
        yield Mistake(words, replace(setup, change=change_step("weights", np.transpose)))


def exchanged_parameters(setup: LessonSetup) -> Mistakes:
    """W_Q, W_K and W_V, or given Q, K and V, in another order; or one of them used for another."""
    prefix = "" if "Q" in setup.start else "W_"
    for order in permutations("QKV"):
        source = {letter: other for letter, other in zip("QKV", order, strict=True) if letter != other}
        if len(source) == 2:
            one, two = source
            yield from take_others(setup, source, f"{prefix}{one} and {prefix}{two} were exchanged", 0.0)
        elif source:
            uses = ", ".join(f"{prefix}{other} for {letter}" for letter, other in source.items())
            yield from take_others(setup, source, f"all three were exchanged: {uses}", 0.4)
    for letter, other in permutations("QKV", 2):
        yield from take_others(setup, {letter: other}, f"{prefix}{other} was used for {letter}", 0.3)


def take_others(setup: LessonSetup, source: dict[str, str], words: str, cost: float) -> Mistakes:
    """The setup in which Q, K or V is made by the parameters of another, or is another, if their sizes are equal."""
    if "Q" in setup.start:
        if have_equal_sizes(setup.start, source):
            moved = {name: setup.start[other] for name, other in source.items()}
            yield Mistake(words, replace(setup, start={**setup.start, **moved}), cost)
        return
    source = {f"W_{name}": f"W_{other}" for name, other in source.items()}

    def change(layer: LessonLayer) -> LessonLayer:
        moved = {name: layer.parameters[other] for name, other in source.items()}
        return replace(layer, parameters={**layer.parameters, **moved})

    if all(have_equal_sizes(layer.parameters, source) for layer in setup.layers):
        yield Mistake(words, change_layers(setup, change), cost)


def have_equal_sizes(tensors: Mapping[str, Matrix], source: dict[str, str]) -> bool:
    pairs = [(tensors.get(name), tensors.get(other)) for name, other in source.items()]
    return all(one is not None and two is not None and one.shape == two.shape for one, two in pairs)


def is_masked(setup: LessonSetup) -> bool:
    return any(layer.attention.allowed is not None for layer in setup.layers)


def forgotten_mask(setup: LessonSetup) -> Mistakes:
    if is_masked(setup):
        yield Mistake("the mask was forgotten", with_attention(setup, allowed=None))
    elif len(setup.tokens) == len(setup.key_tokens):
        causal = np.tril(np.ones((len(setup.tokens),) * 2, dtype=bool))
        yield Mistake(
            "a causal mask was applied, which this lesson does not have", with_attention(setup, allowed=causal)
        )


def turned_mask(setup: LessonSetup) -> Mistakes:
    def turn(layer: LessonLayer) -> LessonLayer:
        mask = layer.attention.allowed
        return layer if mask is None else replace(layer, attention=replace(layer.attention, allowed=mask.T))

    if is_masked(setup) and len(setup.tokens) == len(setup.key_tokens):
        yield Mistake("the mask was turned the wrong way round", change_layers(setup, turn))


def misplaced_mask(setup: LessonSetup) -> Mistakes:
    """A mask without the token itself, with 0 for −∞, or after the softmax."""
    if not is_masked(setup):
        return

    def without_itself(layer: LessonLayer) -> LessonLayer:
        mask = layer.attention.allowed
        inner = None if mask is None else mask & ~np.eye(*mask.shape, dtype=bool)
        return replace(layer, attention=replace(layer.attention, allowed=inner))

    if len(setup.tokens) == len(setup.key_tokens):
        yield Mistake("the mask also hid each token from itself", change_layers(setup, without_itself))
    zeros = change_step("masked", lambda x: np.where(np.isneginf(x), 0.0, x))
    yield Mistake("masked scores were set to 0 instead of −∞", replace(setup, change=zeros))
    masks = [layer.attention.allowed for layer in setup.layers]

    def mask_weights(info: StepInfo, values: Matrix) -> Matrix:
        mask = masks[info.layer]
        return values if info.name != "weights" or mask is None else np.where(mask, values, 0.0)

    words = "the mask came after the softmax, so that the rows do not sum to 1"
    yield Mistake(words, replace(with_attention(setup, allowed=None), change=mask_weights))


def omitted_part(setup: LessonSetup) -> Mistakes:
    """A bias, the residual, the norm, the positions or the temperature left out."""
    for name in ("b_Q", "b_K", "b_V", "b_O", "b_1", "b_2"):
        if any(name in layer.parameters for layer in setup.layers):
            yield Mistake(f"the bias {name} was left out", without_parameter(setup, name))
    if any(layer.block.residual for layer in setup.layers):
        yield Mistake("the residual was left out", with_block(setup, residual=False))
    if any(layer.block.norm != "none" for layer in setup.layers):
        yield Mistake("the norm was left out", with_block(setup, norm="none"))
    if "positions" in setup.start:
        start = {name: values for name, values in setup.start.items() if name != "positions"}
        yield Mistake("the positions were left out", replace(setup, start=start))
    if any(layer.attention.temperature != 1.0 for layer in setup.layers):
        yield Mistake("the temperature was left out", with_attention(setup, temperature=1.0))
