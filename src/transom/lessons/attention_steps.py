"""The steps of one attention of a lesson: Q, K and V of each head, positions, the cache, and all heads joined."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from transom.lessons.head_steps import TITLES, Divisor, HeadInputs, head_steps, joined_step, output_step
from transom.lessons.lesson_setup import LessonLayer, LessonSetup
from transom.lessons.step_builders import (
    StepInfo,
    given_step,
    number_labels,
    product_step,
    rotation_step,
    stacked_step,
)
from transom.lessons.steps import Labels, Matrix, Step

Cache = dict[tuple[int, int, str], Matrix]  # by layer, head of keys and values, and letter


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """A layer, its number from 0, and the vectors that come into it.

    rows    the labels of the queries
    keys    the labels of the keys
    first   the place of the first query, from 0
    cache   K and V of earlier tokens; None if nothing is kept
    cross   whether it is the cross-attention of a decoder block
    """

    setup: LessonSetup
    layer: LessonLayer
    number: int
    x: Matrix
    start: Mapping[str, Matrix]
    rows: Labels
    keys: Labels
    first: int = 0
    cache: Cache | None = field(default=None, repr=False)
    cross: bool = False

    @property
    def key_source(self) -> Matrix:
        """The vectors that keys are made from."""
        looks_elsewhere = self.cross or self.layer.cross is None
        return self.start.get("at_embedding", self.x) if looks_elsewhere else self.x

    @property
    def value_source(self) -> Matrix:
        """The vectors that values are made from: those of the keys, unless the lesson gives others."""
        looks_elsewhere = self.cross or self.layer.cross is None
        return self.start.get("value_embedding", self.key_source) if looks_elsewhere else self.x

    @property
    def decodes(self) -> bool:
        """Whether K and V of earlier tokens come from the cache."""
        return self.first > 0

    def step_info(self, name: str, title: str, equation: str, head: int | None = None) -> StepInfo:
        prefix = "cross_" if self.cross else ""
        return StepInfo(prefix + name, title, equation, head, self.number, self.setup.change)

    def head_inputs(self, head: int, Q: Matrix, K: Matrix, V: Matrix) -> HeadInputs:
        attention = self.layer.attention
        return HeadInputs(
            *(Q, K, V),
            rows=self.rows,
            columns=self.keys,
            # Everything in a cache lies in the past, so a causal mask would hide nothing.
            allowed=None if self.decodes and not self.cross else attention.allowed,
            divisor=scale_divisor(self, Q.shape[1]),
            head=head,
            layer=self.number,
            similarity=attention.similarity,
            w=self.layer.parameters.get("w"),
            bias=self.distance_bias(head, len(K)),
            change=self.setup.change,
            axis=attention.axis,
            prefix="cross_" if self.cross else "",
        )

    def distance_bias(self, head: int, keys: int) -> Matrix | None:
        """What ALiBi takes away: a slope for each head, times the distance (Press et al. 2022)."""
        if self.setup.places != "alibi" or self.cross:
            return None
        queries = self.first + np.arange(len(self.rows))
        return -alibi_slope(head, self.layer.attention.heads) * np.abs(queries[:, None] - np.arange(keys)[None])


def alibi_slope(head: int, heads: int) -> float:
    """2^(−8/heads) and its powers; for other numbers of heads every second slope of the next power of two follows."""
    power = 1 << (heads.bit_length() - 1)
    if head < power:
        return 2.0 ** (-8.0 * (head + 1) / power)
    return 2.0 ** (-8.0 * (2 * (head - power) + 1) / (2 * power))


def scale_divisor(inputs: LayerInputs, d_head: int) -> Divisor | None:
    """√d_head (or what a mistake takes for it), and the temperature."""
    attention, d_model = inputs.layer.attention, inputs.x.shape[1]
    roots = {
        "√d_head": Divisor(math.sqrt(d_head), f"√{d_head}"),
        "d_head": Divisor(float(d_head), f"{d_head}"),
        "√d_model": Divisor(math.sqrt(max(1, d_model)), f"√{d_model}"),
    }
    scale, temperature = roots[attention.divisor], attention.temperature
    if temperature == 1.0:
        return scale if attention.scale else None
    if not attention.scale:
        return Divisor(temperature, f"{temperature:g}")
    return Divisor(scale.value * temperature, f"({scale.text} · {temperature:g})")


def attention_steps(inputs: LayerInputs) -> list[Step]:
    """Every head by itself, then all of them joined and mapped."""
    parameters, change, steps = inputs.layer.parameters, inputs.setup.change, list[Step]()
    contexts, values_from = list[Matrix](), inputs.value_source
    if "V_down" in parameters:
        info = inputs.step_info("waist", "values through a narrow waist", "X V_down")
        steps.append(product_step(info, inputs.value_source, parameters["V_down"], inputs.keys))
        values_from = steps[-1].values
    if inputs.layer.attention.fold:
        steps += wide_steps(inputs, values_from)
    for head in range(inputs.layer.attention.heads):
        steps += projected_head_steps(inputs, head, values_from)
        contexts.append(steps[-1].values)
    if len(contexts) == 1 and "W_O" not in parameters:
        return steps
    joined = joined_step(contexts, inputs.rows, inputs.number, change)
    steps.append(replace(joined, name="cross_joined") if inputs.cross else joined)
    if "W_O" in parameters:
        output = output_step(steps[-1], parameters["W_O"], parameters.get("b_O"), change)
        steps.append(replace(output, name="cross_output") if inputs.cross else output)
    return steps


def wide_steps(inputs: LayerInputs, values_from: Matrix) -> list[Step]:
    """Q, K and V of all heads as one matrix each: a column is labelled by its head and its number within it."""
    steps, sources = [], {"Q": inputs.x, "K": inputs.key_source, "V": values_from}
    for letter, x in sources.items():
        W, bias = inputs.layer.parameters[f"W_{letter}"], inputs.layer.parameters.get(f"b_{letter}")
        columns = tuple(f"{head}.{place + 1}" for head in range(len(W)) for place in range(W.shape[2]))
        wide = W.transpose(1, 0, 2).reshape(W.shape[1], -1)
        info = inputs.step_info(f"{letter}_wide", f"{TITLES[letter]}, for all heads at once", f"X W_{letter}")
        rows = inputs.rows if letter == "Q" else inputs.keys
        steps.append(product_step(info, x, wide, rows, columns, bias=None if bias is None else bias.ravel()))
    return steps


def projected_head_steps(inputs: LayerInputs, head: int, values_from: Matrix) -> list[Step]:
    """Q, K and V of a head, turned by their places if these are rotary, and all that follows from them."""
    new_keys = inputs.keys if inputs.cross else inputs.keys[inputs.first :]
    Q = projection_step(inputs, "Q", head, inputs.x, inputs.rows)
    K = projection_step(inputs, "K", head, inputs.key_source, new_keys)
    V = projection_step(inputs, "V", head, values_from, new_keys)
    steps = [Q, K, V]
    if inputs.setup.places == "rotary" and not inputs.cross:
        Q, K = (rotated_step(inputs, step) for step in (Q, K))
        steps += [Q, K]
    if inputs.cache is not None and not inputs.cross:
        K, V = (keep_in_cache(inputs, head, step, letter) for letter, step in (("K", K), ("V", V)))
        steps += [K, V] if inputs.decodes else []
    return [*steps, *head_steps(inputs.head_inputs(head, Q.values, K.values, V.values))]


def rotated_step(inputs: LayerInputs, before: Step) -> Step:
    """Q or K with each pair of numbers turned by place · 10,000^(−2i/d_head)."""
    width = before.values.shape[1]
    places = inputs.first + np.arange(len(before.rows))
    angles = places[:, None] * 10_000.0 ** (-np.arange(0, width, 2) / width)
    info = inputs.step_info(
        f"rotated_{before.name}", f"{before.name}, each pair turned by its place", "(x₁, x₂) turned", before.head
    )
    return rotation_step(info, before, angles)


def keep_in_cache(inputs: LayerInputs, head: int, new: Step, letter: str) -> Step:
    """K or V of all tokens so far: those that were kept, and the new ones."""
    assert inputs.cache is not None
    key = (inputs.number, inputs.layer.attention.kv_head(head), letter)
    kept = inputs.cache.get(key, np.zeros((0, new.values.shape[1])))
    info = inputs.step_info(f"cached_{letter}", f"{letter} of all tokens so far", "kept, and the new row", head)
    # Heads that share keys find them in the cache already.
    known = len(kept) == len(inputs.keys)
    rows = kept[: inputs.first] if known else kept
    step = stacked_step(info, rows, new, inputs.keys)
    inputs.cache[key] = step.values
    return step


def projection_step(inputs: LayerInputs, letter: str, head: int, x: Matrix, rows: Labels) -> Step:
    """Q, K or V of one head: X W (+ b), of the whole vector or of the head's own slice."""
    parameters, attention = inputs.layer.parameters, inputs.layer.attention
    own = head if letter == "Q" else attention.kv_head(head)
    W = parameters[f"W_{letter}"][own]
    bias = parameters[f"b_{letter}"][own] if f"b_{letter}" in parameters else None
    first = head * len(W) if attention.narrow else 0
    product = "X V_down V_up" if letter == "V" and "V_down" in parameters else f"X W_{letter}"
    equation = f"{letter} = {product}{'' if bias is None else f' + b_{letter}'}"
    if letter != "Q" and attention.kv_heads not in (0, attention.heads):
        equation += f", head {own} of {attention.kv_heads} for keys and values"
    if attention.fold:
        equation = f"{letter} = columns {own}.1 to {own}.{W.shape[1]} of {letter}_wide"
    info = inputs.step_info(letter, TITLES[letter], equation, head)
    inner = number_labels(len(W), first + 1)
    return product_step(info, x[:, first : first + len(W)], W, rows, inner=inner, bias=bias)


def given_head_steps(inputs: LayerInputs) -> list[Step]:
    """One head whose Q, K and V, or whose scores, are given."""
    setup, start, scores, steps = inputs.setup, inputs.start, None, []
    for name, title in TITLES.items():
        if name in start:
            rows = inputs.rows if name == "Q" else inputs.keys
            steps.append(given_step(inputs.step_info(name, title, name, 0), start[name], rows))
    no_values = np.zeros((len(inputs.keys), 0))
    blank = np.zeros((len(inputs.rows), inputs.layer.attention.d_head))
    head = inputs.head_inputs(0, start.get("Q", blank), start.get("K", blank), start.get("V", no_values))
    if "scores" in start:
        title = "scores, as given" + (", and taken as they are: scale is not set" if setup.note else "")
        info = inputs.step_info("scores", title, "scores", 0)
        scores = info.build(start["scores"], inputs.rows, inputs.keys, "given")
    return steps + [step for step in head_steps(head, scores) if step.values.shape[1]]
