"""Compute every step of a lesson in float64: embeddings, Q, K, V, each head, the heads joined, the block."""

import math
from dataclasses import dataclass, replace

import numpy as np

from transom.lessons.head_steps import (
    AT_EMBEDDING,
    EMBEDDING,
    TITLES,
    Divisor,
    HeadInputs,
    head_steps,
    joined_step,
    output_step,
)
from transom.lessons.lesson_setup import LessonLayer, LessonSetup
from transom.lessons.step_builders import (
    ACTIVATIONS,
    StepInfo,
    function_step,
    given_step,
    norm_step,
    number_labels,
    product_step,
    sum_step,
)
from transom.lessons.steps import Labels, Matrix, Step, Steps


def compute_steps(setup: LessonSetup) -> Steps:
    """All steps of a setup, in order."""
    steps = start_steps(setup)
    if "embedding" not in setup.start:
        steps += given_head_steps(LayerInputs(setup, setup.layers[0], 0, np.zeros((0, 0))))
    else:
        for number, layer in enumerate(setup.layers):
            steps += layer_steps(LayerInputs(setup, layer, number, steps[-1].values))
    return Steps(steps, setup.tokens, setup.key_tokens)


def start_steps(setup: LessonSetup) -> list[Step]:
    """The embeddings, with positions added."""
    start, tokens, steps = setup.start, setup.tokens, []
    if "at_embedding" in start:
        steps.append(given_step(AT_EMBEDDING, start["at_embedding"], setup.key_tokens))
    if "embedding" in start:
        steps.append(given_step(EMBEDDING, start["embedding"], tokens))
    if "positions" in start:
        steps.append(given_step(StepInfo("positions", "each place as a vector", "P"), start["positions"], tokens))
        parts = {"embedding": start["embedding"], "position": start["positions"]}
        info = StepInfo("placed", "tokens with their places", "X + P")
        steps.append(sum_step(info, parts, tokens, steps[-1].columns))
    return steps


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """A layer, its number from 0, and the vectors that come into it."""

    setup: LessonSetup
    layer: LessonLayer
    number: int
    x: Matrix

    @property
    def source(self) -> Matrix:
        """The vectors that keys and values are made from."""
        return self.setup.start.get("at_embedding", self.x)

    def step_info(self, name: str, title: str, equation: str, head: int | None = None) -> StepInfo:
        return StepInfo(name, title, equation, head, self.number, self.setup.change)

    def head_inputs(self, head: int, Q: Matrix, K: Matrix, V: Matrix) -> HeadInputs:
        attention, setup = self.layer.attention, self.setup
        return HeadInputs(
            *(Q, K, V),
            rows=setup.tokens,
            columns=setup.key_tokens,
            allowed=attention.allowed,
            divisor=scale_divisor(self, Q.shape[1]),
            head=head,
            layer=self.number,
            similarity=attention.similarity,
            w=self.layer.parameters.get("w"),
            change=setup.change,
            axis=attention.axis,
        )


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


def given_head_steps(inputs: LayerInputs) -> list[Step]:
    """One head whose Q, K and V, or whose scores, are given."""
    setup, start, scores, steps = inputs.setup, inputs.setup.start, None, []
    for name, title in TITLES.items():
        if name in start:
            rows = setup.tokens if name == "Q" else setup.key_tokens
            steps.append(given_step(inputs.step_info(name, title, name, 0), start[name], rows))
    no_values = np.zeros((len(setup.key_tokens), 0))
    blank = np.zeros((len(setup.tokens), inputs.layer.attention.d_head))
    head = inputs.head_inputs(0, start.get("Q", blank), start.get("K", blank), start.get("V", no_values))
    if "scores" in start:
        title = "scores, as given" + (", and taken as they are: scale is not set" if setup.note else "")
        info = inputs.step_info("scores", title, "scores", 0)
        scores = info.build(start["scores"], setup.tokens, setup.key_tokens, "given")
    return steps + [step for step in head_steps(head, scores) if step.values.shape[1]]


def layer_steps(inputs: LayerInputs) -> list[Step]:
    """The attention, with residual and norm before or after it, then the feed-forward with its own."""
    block, incoming, steps = inputs.layer.block, inputs.x, list[Step]()
    if block.norm_before:
        info = inputs.step_info("incoming", "what comes into the layer", "X")
        steps.append(given_step(info, incoming, inputs.setup.tokens))
        steps.append(layer_norm_step(inputs, steps[-1]))
        inputs = replace(inputs, x=steps[-1].values)
    steps += attention_steps(inputs)
    steps += residual_and_norm(inputs, incoming, steps[-1])
    if "W_1" not in inputs.layer.parameters:
        return steps
    attended = steps[-1]
    if block.norm_before:
        steps.append(layer_norm_step(inputs, attended, "_2"))
    steps += feed_forward_steps(inputs, steps[-1])
    return steps + residual_and_norm(inputs, attended.values, steps[-1], "_2")


def attention_steps(inputs: LayerInputs) -> list[Step]:
    """Every head by itself, then all of them joined and mapped."""
    parameters, change = inputs.layer.parameters, inputs.setup.change
    steps, contexts, values_from = list[Step](), list[Matrix](), inputs.source
    if "V_down" in parameters:
        info = inputs.step_info("waist", "values through a narrow waist", "X V_down")
        steps.append(product_step(info, inputs.source, parameters["V_down"], inputs.setup.key_tokens))
        values_from = steps[-1].values
    for head in range(inputs.layer.attention.heads):
        steps += projected_head_steps(inputs, head, values_from)
        contexts.append(steps[-1].values)
    if len(contexts) == 1 and "W_O" not in parameters:
        return steps
    steps.append(joined_step(contexts, inputs.setup.tokens, inputs.number, change))
    if "W_O" in parameters:
        steps.append(output_step(steps[-1], parameters["W_O"], parameters.get("b_O"), change))
    return steps


def projected_head_steps(inputs: LayerInputs, head: int, values_from: Matrix) -> list[Step]:
    """Q, K and V of a head, and all that follows from them."""
    tokens, key_tokens = inputs.setup.tokens, inputs.setup.key_tokens
    Q = projection_step(inputs, "Q", head, inputs.x, tokens)
    K = projection_step(inputs, "K", head, inputs.source, key_tokens)
    V = projection_step(inputs, "V", head, values_from, key_tokens)
    return [Q, K, V, *head_steps(inputs.head_inputs(head, Q.values, K.values, V.values))]


def projection_step(inputs: LayerInputs, letter: str, head: int, x: Matrix, rows: Labels) -> Step:
    """Q, K or V of one head: X W (+ b), of the whole vector or of the head's own slice."""
    parameters = inputs.layer.parameters
    W = parameters[f"W_{letter}"][head]
    bias = parameters[f"b_{letter}"][head] if f"b_{letter}" in parameters else None
    first = head * len(W) if inputs.layer.attention.narrow else 0
    product = "X V_down V_up" if letter == "V" and "V_down" in parameters else f"X W_{letter}"
    equation = f"{letter} = {product}{'' if bias is None else f' + b_{letter}'}"
    info = inputs.step_info(letter, TITLES[letter], equation, head)
    inner = number_labels(len(W), first + 1)
    return product_step(info, x[:, first : first + len(W)], W, rows, inner=inner, bias=bias)


def residual_and_norm(inputs: LayerInputs, x: Matrix, inner: Step, suffix: str = "") -> list[Step]:
    """x + inner if there is a residual, normalised if the norm comes after it."""
    block, steps = inputs.layer.block, list[Step]()
    if block.residual:
        info = inputs.step_info(f"residual{suffix}", "what came in, and what was found", f"X + {inner.name}")
        steps.append(sum_step(info, {"x": x, inner.name: inner.values}, inner.rows, number_labels(x.shape[1])))
    if block.norm_after:
        steps.append(layer_norm_step(inputs, steps[-1] if steps else inner, suffix))
    return steps


def layer_norm_step(inputs: LayerInputs, before: Step, suffix: str = "") -> Step:
    """The norm of a step, with its gain and bias."""
    width, parameters = before.values.shape[1], inputs.layer.parameters
    gain = parameters.get(f"gain{suffix}", np.ones(width))
    bias = parameters.get(f"bias{suffix}", np.zeros(width))
    centred = inputs.layer.block.norm == "layer"
    equation = "(x − mean) / √(variance + 10⁻⁵)" if centred else "x / √(mean of squares + 10⁻⁵)"
    info = inputs.step_info(f"norm{suffix}", "each vector brought to one size", equation)
    return norm_step(info, before, gain, bias, centred)


def feed_forward_steps(inputs: LayerInputs, before: Step) -> list[Step]:
    """activation(x W_1 + b_1) W_2 + b_2: each token by itself."""
    parameters, rows, activation = inputs.layer.parameters, before.rows, inputs.layer.block.activation
    info = inputs.step_info("hidden", "each token by itself, widened", "X W_1 + b_1")
    hidden = product_step(info, before.values, parameters["W_1"], rows, bias=parameters.get("b_1"))
    info = inputs.step_info("activated", "what is let through", f"{activation}(hidden)")
    active = function_step(info, hidden, ACTIVATIONS[activation](hidden.values), activation)
    info = inputs.step_info("feed_forward", "and brought back to its width", "activated W_2 + b_2")
    return [hidden, active, product_step(info, active.values, parameters["W_2"], rows, bias=parameters.get("b_2"))]
