"""The steps of a Sight: what one head of a model computed, number by number, from its own Q, K and V."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from transom.lessons.step_builders import given_step, number_labels, product_step
from transom.lessons.steps import Labels, Matrix, Step, Steps
from transom.names import Misfit, check_index

if TYPE_CHECKING:
    from transom.lens import Sight
    from transom.lens.capture.head_origin import HeadOrigin

MOST = 1024  # tokens: every matrix is held in full


def steps_of(
    sight: "Sight",
    batch: int = 0,
    head: int = 0,
    tokens: Sequence[str] | None = None,
    at_tokens: Sequence[str] | None = None,
    names: Iterable[str] | None = None,
    embedding: Any = None,
    parameters: Mapping[str, Any] | None = None,
    at_embedding: Any = None,
    origin: "HeadOrigin | None" = None,
) -> Steps:
    """Every step of one head in float64: Q, K, V, scores, scaled, masked, weights, weighted sum.

    names       only these steps
    embedding   what Q was made from, (queries, d_model); with `parameters` W_Q, W_K, W_V (and b_Q, b_K, b_V) of this
                head, each (d_model, d_head), the cells of Q, K and V open their arithmetic; with W_O (and b_O), all
                heads are joined and mapped at the end
    origin      all of these, as `lens.capture.head_origin` finds them in a model
    """
    if origin is not None:
        embedding, at_embedding, parameters = origin.embedding, origin.at_embedding, origin.parameters
    parameters = {name: to_numpy(value) for name, value in (parameters or {}).items() if value is not None}
    shape = sight.problem.shape
    batch, head = check_index(batch, "batch", shape[0]), check_index(head, "heads", shape[1])
    if max(shape[2:]) > MOST:
        raise Misfit(
            f"steps hold every number of at most {MOST} tokens, but there are queries={shape[2]} and keys={shape[3]};"
            " draw a map instead, or take a shorter text"
        )
    if at_tokens is None and shape[2] == shape[3]:
        at_tokens = tokens
    rows, columns = token_labels(tokens, shape[2], "queries"), token_labels(at_tokens, shape[3], "keys")
    inputs = head_inputs(sight, batch, head, rows, columns)
    before = projection_steps(inputs, embedding, at_embedding, parameters)
    after = joined_steps(sight, batch, inputs, parameters)
    steps = Steps([*before, *head_steps(inputs), *after], rows, columns, () if origin is None else origin.notes)
    if names is None:
        return steps
    wanted = {steps[name].name for name in names}  # an unknown name raises an error
    return Steps((step for step in steps if step.name in wanted), rows, columns, steps.notes)


def token_labels(tokens: Sequence[str] | None, size: int, axis: str) -> Labels:
    """The tokens, or their numbers if there are none."""
    if tokens is None:
        return number_labels(size)
    if len(tokens) != size:
        raise Misfit(f"this attention has {axis}={size}, but {len(tokens)} tokens came; give one for each")
    return tuple(tokens)


def head_inputs(sight: "Sight", batch: int, head: int, rows: Labels, columns: Labels) -> HeadInputs:
    """Q, K and V of one head of a Sight, and what is done to its scores."""
    problem = sight.problem
    kv_head = head // problem.group
    Q, K, V = (to_numpy(x) for x in (problem.Q[batch, head], problem.K[batch, kv_head], problem.V[batch, kv_head]))
    mask = problem.allowed_mask(problem.region())
    allowed = None if mask is None else np.asarray(mask.expand(problem.shape)[batch, head].cpu().numpy(), dtype=bool)
    bias = None if problem.bias is None else problem.bias.materialize(problem.region()).expand(problem.shape)
    return HeadInputs(
        *(Q, K, V, rows, columns),
        allowed=allowed,
        divisor=divisor_of(problem.scale, Q.shape[1]),
        head=head,
        softcap=problem.softcap,
        bias=None if bias is None else to_numpy(bias[batch, head]),
    )


def to_numpy(tensor: Any) -> Matrix:
    """A tensor of any device, or an array, in float64."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().double().numpy()
    return np.asarray(tensor, dtype=np.float64)


def divisor_of(scale: float, d_head: int) -> Divisor | None:
    """The divisor that a scale stands for: √d_head if it is that."""
    if scale == 1.0:
        return None
    if np.isclose(scale, d_head**-0.5, rtol=1e-6):
        return Divisor(float(np.sqrt(d_head)), f"√{d_head}")
    return Divisor(1.0 / scale, f"{1.0 / scale:.6g}")


def projection_steps(
    head: HeadInputs, embedding: Any, at_embedding: Any, parameters: Mapping[str, Matrix]
) -> list[Step]:
    """The embedding, and Q, K and V, with their arithmetic if it is known what they were made from."""
    steps = []
    x = None if embedding is None else to_numpy(embedding)
    source = x if at_embedding is None else to_numpy(at_embedding)
    if x is not None:
        steps.append(given_step(EMBEDDING, x, head.rows))
    if at_embedding is not None and source is not None:
        steps.append(given_step(AT_EMBEDDING, source, head.columns))
    for letter, vectors, values, rows in (
        ("Q", x, head.Q, head.rows),
        ("K", source, head.K, head.columns),
        ("V", source, head.V, head.columns),
    ):
        if vectors is None or f"W_{letter}" not in parameters:
            info = head.step_info(letter, TITLES[letter], f"{letter}, as used")
            steps.append(given_step(info, values, rows))
        else:
            steps.append(checked_projection(head, letter, vectors, parameters, values, rows))
    return steps


def checked_projection(
    head: HeadInputs, letter: str, x: Matrix, parameters: Mapping[str, Matrix], used: Matrix, rows: Labels
) -> Step:
    """x W (+ b), checked against what the attention used."""
    W, bias = parameters[f"W_{letter}"], parameters.get(f"b_{letter}")
    if x.shape[1] != len(W):
        raise Misfit(f"W_{letter} takes d_model={len(W)}, but the embedding has {x.shape[1]}; transpose one?")
    equation = f"{letter} = X W_{letter}{'' if bias is None else f' + b_{letter}'}"
    step = product_step(head.step_info(letter, TITLES[letter], equation), x, W, rows, bias=bias)
    if step.values.shape != used.shape or not np.allclose(step.values, used, rtol=1e-3, atol=1e-4):
        raise Misfit(
            f"the embedding and W_{letter} should give the {letter} that was used, but they do not;"
            " leave `parameters` out (rotary positions turn Q and K after the projection)"
        )
    return step


def joined_steps(sight: "Sight", batch: int, head: HeadInputs, parameters: Mapping[str, Matrix]) -> list[Step]:
    """All heads joined, and mapped by W_O; nothing if W_O is not known."""
    if "W_O" not in parameters:
        return []
    heads = [head_inputs(sight, batch, index, head.rows, head.columns) for index in range(sight.problem.shape[1])]
    contexts = [head_steps(inputs)[-1].values for inputs in heads]
    joined, W_O = joined_step(contexts, head.rows), parameters["W_O"]
    if len(W_O) != len(joined.columns):
        raise Misfit(f"W_O takes {len(W_O)} numbers, but the heads joined have {len(joined.columns)}; transpose it?")
    return [joined, output_step(joined, W_O, parameters.get("b_O"))]
