"""The steps of a layer: its attentions with residual and norm, then the feed-forward with its own."""

from dataclasses import replace

import numpy as np

from transom.lessons.attention_steps import LayerInputs, attention_steps
from transom.lessons.step_builders import (
    ACTIVATIONS,
    function_step,
    given_step,
    norm_step,
    number_labels,
    product_step,
    sum_step,
)
from transom.lessons.steps import Matrix, Step


def layer_steps(inputs: LayerInputs) -> list[Step]:
    """Self-attention, cross-attention if there is one, and the feed-forward, each with residual and norm.

    With around = "feed_forward" the attention has neither; what cross-attention finds is then added to what
    self-attention found, since alone it would pass on nothing of the token itself.
    """
    steps = attention_part(inputs)
    if inputs.layer.cross is not None:
        source = list(inputs.setup.key_tokens)
        cross = replace(inputs, layer=inputs.layer.cross, x=steps[-1].values, keys=tuple(source), cross=True)
        steps += attention_part(cross)
    if "W_1" not in inputs.layer.parameters:
        return steps
    attended = steps[-1]
    if inputs.layer.block.norm_before:
        steps.append(layer_norm_step(inputs, attended, "_2"))
    steps += feed_forward_steps(inputs, steps[-1])
    return steps + residual_and_norm(inputs, attended.values, steps[-1], "_2")


def attention_part(inputs: LayerInputs) -> list[Step]:
    """An attention, with residual and norm before or after it."""
    block, incoming, steps = inputs.layer.block, inputs.x, list[Step]()
    bare = block.around == "feed_forward" and "W_1" in inputs.layer.parameters
    if block.norm_before and not bare:
        info = inputs.step_info("incoming", "what comes into the layer", "X")
        steps.append(given_step(info, incoming, inputs.rows))
        steps.append(layer_norm_step(inputs, steps[-1]))
        inputs = replace(inputs, x=steps[-1].values)
    steps += attention_steps(inputs)
    if bare and not inputs.cross:
        return steps
    if bare:
        return steps + residual_steps(inputs, incoming, steps[-1])
    return steps + residual_and_norm(inputs, incoming, steps[-1])


def residual_steps(inputs: LayerInputs, x: Matrix, inner: Step, suffix: str = "") -> list[Step]:
    """x + inner."""
    info = inputs.step_info(f"residual{suffix}", "what came in, and what was found", f"X + {inner.name}")
    return [sum_step(info, {"x": x, inner.name: inner.values}, inner.rows, number_labels(x.shape[1]))]


def residual_and_norm(inputs: LayerInputs, x: Matrix, inner: Step, suffix: str = "") -> list[Step]:
    """x + inner if there is a residual, normalised if the norm comes after it."""
    block, steps = inputs.layer.block, list[Step]()
    if block.residual:
        steps += residual_steps(inputs, x, inner, suffix)
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
