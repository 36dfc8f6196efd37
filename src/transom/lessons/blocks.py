"""What stands around an attention: residual, norm and feed-forward, after it or before."""

from typing import TYPE_CHECKING

import numpy as np

from transom.lessons import made
from transom.lessons.steps import Matrix, Step

if TYPE_CHECKING:
    from transom.lessons.working import Bench

NORMS = ("none", "layer", "rms")
ACTIVATIONS = ("relu", "tanh")


def before_attention(bench: "Bench", x: Matrix) -> list[Step]:
    """Where the norm comes first: what comes in, and the same normalised."""
    block = bench.layer.block
    if not block.norm_first or block.norm == "none":
        return []
    said = bench.said("incoming", "what comes into the layer", "X")
    step = made.given(said, x, bench.setup.tokens)
    return [step, normalised(bench, step, 1)]


def after_attention(bench: "Bench", x: Matrix | None, attended: Step) -> list[Step]:
    """Residual and norm after the attention, then the feed-forward with its own."""
    block, parameters = bench.layer.block, bench.layer.parameters
    steps = around(bench, bench.x if x is None else x, attended, 1)
    if "W_1" not in parameters:
        return steps
    carried = steps[-1] if steps else attended
    inner = carried
    if block.norm_first and block.norm != "none":
        inner = normalised(bench, carried, 2)
        steps.append(inner)
    steps += fed_forward(bench, inner)
    return steps + around(bench, carried.values, steps[-1], 2)


def around(bench: "Bench", x: Matrix, inner: Step, number: int) -> list[Step]:
    """x + inner where there is a residual, normalised where the norm comes last."""
    block, steps, ending = bench.layer.block, [], "" if number == 1 else f"_{number}"
    if block.residual:
        said = bench.said(f"residual{ending}", "what came in, and what was found", f"X + {inner.name}")
        step = made.added(said, {"x": x, inner.name: inner.values}, inner.rows, made.counted(x.shape[1]))
        steps.append(bench.kept(step))
    if block.norm != "none" and not block.norm_first:
        steps.append(normalised(bench, steps[-1] if steps else inner, number))
    return steps


def normalised(bench: "Bench", before: Step, number: int) -> Step:
    """The norm of a step, with the gain and bias that are given for it."""
    ending = "" if number == 1 else f"_{number}"
    width, parameters = before.values.shape[1], bench.layer.parameters
    gain = parameters.get(f"gain{ending}", np.ones(width))
    bias = parameters.get(f"bias{ending}", np.zeros(width))
    layer = bench.layer.block.norm == "layer"
    equation = "(x − mean) / √(variance + 10⁻⁵)" if layer else "x / √(mean of squares + 10⁻⁵)"
    said = bench.said(f"norm{ending}", "each vector brought to one size", equation)
    return bench.kept(made.normalised(said, before, gain, bias, layer))


def fed_forward(bench: "Bench", before: Step) -> list[Step]:
    """activation(x W_1 + b_1) W_2 + b_2: each token by itself."""
    parameters, rows = bench.layer.parameters, before.rows
    said = bench.said("hidden", "each token by itself, widened", "X W_1 + b_1")
    W_1, W_2 = parameters["W_1"], parameters["W_2"]
    inner, wide = made.counted(len(W_1)), made.counted(W_1.shape[1])
    hidden = bench.kept(made.product(said, before.values, W_1, rows, wide, inner, parameters.get("b_1")))
    word = bench.layer.block.activation
    values = np.maximum(hidden.values, 0.0) if word == "relu" else np.tanh(hidden.values)
    said = bench.said("activated", "what is let through", f"{word}(hidden)")
    active = bench.kept(made.applied(said, hidden, values, word))
    said = bench.said("feed_forward", "and brought back to its width", "activated W_2 + b_2")
    out = made.product(said, active.values, W_2, rows, made.counted(W_2.shape[1]), wide, parameters.get("b_2"))
    return [hidden, active, bench.kept(out)]
