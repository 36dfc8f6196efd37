"""Intercepts attention by hand: the operators that normalise scores, and the products before and after them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from transom.lens.capture.call_state import (
    CAPTURE,
    EagerCall,
    OwnWork,
    is_concrete,
    outside_model,
)
from transom.lens.capture.eager_attention import is_multihead
from transom.lens.capture.edge_cut import cut_weights, run_cut_softmax
from transom.lens.capture.kernel_overrides import OVERRIDES, Override
from transom.lens.capture.segment_sums import SEGMENT_OPERATORS
from transom.lens.capture.weight_products import Normalisation, add_sum, match_weights


def capture_softmax(
    run: Callable[..., Tensor], x: Tensor, dim: int, half_to_float: bool, above_autograd: bool = False
) -> Tensor:
    """A softmax: the weights of an attention without a kernel, or of something else.

    It is captured above autograd if edges are to be cut, so that gradients follow, and else below it.
    """
    listening = CAPTURE.listeners
    if above_autograd:
        listening = CAPTURE.cutters and x.requires_grad and torch.is_grad_enabled()
    if not listening or not is_concrete(x):
        return run(x, dim, half_to_float)
    if x.dim() not in (3, 4) or dim not in (-1, x.dim() - 1):
        return note_normalisation(x, run(x, dim, half_to_float))

    def run_softmax(scores: Tensor) -> Tensor:
        with CAPTURE.enter(OwnWork()):  # or what is captured above autograd would be captured below it again
            return run(scores, dim, half_to_float)

    return keep_softmax(run_cut_softmax(x, run_softmax, above_autograd))


def keep_softmax(weights: Tensor) -> Tensor:
    """Keep the weights of a softmax until they are multiplied, or for the attention it is part of; returns them."""
    attention = CAPTURE.attention
    if isinstance(attention, EagerCall):
        attention.weights.append(weights)
    elif by_hand():
        event = Normalisation(tuple(weights.shape), CAPTURE.modules, weights.numel() in CAPTURE.hand.product_sizes)
        event.weights = weights.detach().clone()
        event.is_cut = bool(CAPTURE.cutters) and event.is_named
        CAPTURE.hand.add(event)
    return weights


def by_hand() -> bool:
    """Whether what runs now is the model's own, outside any attention that is captured as a whole."""
    call = CAPTURE.module_call
    return CAPTURE.attention is None and (call is None or not is_multihead(call.module))  # which is read when it ends


def note_normalisation(x: Tensor, result: Any) -> Any:
    """Remember that a softmax over another axis, an exp or the like ran on x; returns its result."""
    if by_hand():
        of_product = x.numel() in CAPTURE.hand.product_sizes
        CAPTURE.hand.add(Normalisation(tuple(x.shape), CAPTURE.modules, of_product))
        if x.dim() <= 2:
            OVERRIDES.wrap_once(MATRIX_OPERATORS)
    return result


def capture_normalisation(run: Callable[..., Any], x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Another softmax: its input counts as scores, whatever comes of it."""
    result = run(x, *args, **kwargs)
    return note_normalisation(x, result) if CAPTURE.listeners and is_concrete(x) else result


def capture_sparse_softmax(run: Callable[..., Any], x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A softmax of a sparse matrix: there is no other use for it than attention, and its product is not read."""
    result = run(x, *args, **kwargs)
    if CAPTURE.listeners and by_hand():
        CAPTURE.hand.add(Normalisation(tuple(x.shape), CAPTURE.modules, of_product=True, multiplied=True))
    return result


def capture_exp(run: Callable[..., Any], x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """An exp; that of a product, or of a matrix, may be part of a softmax."""
    result = run(x, *args, **kwargs)
    if not CAPTURE.listeners or not is_concrete(x) or x.numel() < 2:
        return result
    if by_hand():
        CAPTURE.hand.exp_sizes.add(x.numel())
        OVERRIDES.wrap_once(SEGMENT_OPERATORS)
    is_matrix = x.dim() == 2 and min(x.shape) > 1
    is_part = is_matrix or x.numel() in CAPTURE.hand.product_sizes or has_score_shape(x.shape, CAPTURE.key_counts)
    return note_normalisation(x, result) if is_part else result


def has_score_shape(shape: torch.Size, key_counts: set[int]) -> bool:
    """Whether a tensor may be queries by keys; one that is computed key by key has one column."""
    if len(shape) < 3 or shape[-2] < 2:
        return False
    if len(shape) == 3:
        return shape[-1] in key_counts and shape[-2] in key_counts
    return shape[-1] in {1, shape[-2], *key_counts}


def capture_sum(run: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A sum over one axis: of a product of queries and keys, or of weights and values, without a matrix product."""
    result = run(x, *args, **kwargs)
    if not CAPTURE.listeners or x.dim() - 1 != result.dim() or x.dim() < 4 or not is_concrete(x) or not by_hand():
        return result
    hand = CAPTURE.hand
    if result.shape == x.shape[:-1] and has_score_shape(result.shape, CAPTURE.key_counts):
        hand.product_sizes.add(result.numel())
    elif x.numel() // x.shape[-1] in hand.product_sizes and result.shape == (*x.shape[:-2], x.shape[-1]):
        hand.unexplained = [*hand.unexplained[-99:], (CAPTURE.modules, tuple(x.shape[:-1]))]
    return result


def capture_product(run: Callable[..., Tensor], left: Tensor, right: Tensor, above_autograd: bool = False) -> Tensor:
    """A batched product (batch, n, m) @ (batch, m, d): of weights and values, or perhaps scores."""
    listening = CAPTURE.listeners
    if above_autograd:
        wants_gradient = (left.requires_grad or right.requires_grad) and torch.is_grad_enabled()
        listening = CAPTURE.cutters and wants_gradient
    if not listening or not by_hand() or not is_concrete(left):
        return run(left, right)
    return multiply(run, left, right) if left.numel() and right.numel() else run(left, right)


def multiply(run: Callable[..., Tensor], left: Tensor, right: Tensor) -> Tensor:
    """Run a batched product, and keep it if one of its factors is weights."""
    state = CAPTURE.hand
    with outside_model():
        match, flipped = match_weights(state, left, CAPTURE.modules, CAPTURE.key_counts), False
        if match is None:  # values transposed @ weights transposed
            match, flipped = match_weights(state, right.mT, CAPTURE.modules, CAPTURE.key_counts), True
    if match is None:
        if left.numel() in state.product_sizes and len(left) > 1:
            state.unexplained = [*state.unexplained[-99:], (CAPTURE.modules, tuple(left.shape))]
        output = run(left, right)
        state.product_sizes.add(output.numel())
        return output
    if CAPTURE.cutters and not match.tentative and (match.event is None or not match.event.is_cut):
        weights = cut_weights(right.mT if flipped else left, match, left.mT if flipped else right)
        left, right = (left, weights.mT) if flipped else (weights, right)
        match = replace(match, weights=weights)
    with CAPTURE.enter(OwnWork()):  # or what is captured above autograd would be captured below it again
        output = run(left, right)
    with outside_model():
        add_sum(state, match, left.mT if flipped else right, output.mT if flipped else output)
    return output


def capture_matrix_product(
    run: Callable[..., Tensor], left: Tensor, right: Tensor, above_autograd: bool = False
) -> Tensor:
    """A product of two matrices; one of them may be the weights of a softmax over two axes or one."""
    waiting = CAPTURE.hand.waiting
    if not waiting or all(event.size not in (left.numel(), right.numel()) for event in waiting):
        return run(left, right)
    run_batched = lambda left, right: run(left[0], right[0])[None]  # noqa: E731
    return capture_product(run_batched, left[None], right[None], above_autograd)[0]


def capture_scores(run: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """A batched product that is added to something: perhaps scores."""
    output = run(*args, **kwargs)
    if CAPTURE.listeners and by_hand() and is_concrete(output):
        CAPTURE.hand.product_sizes.add(output.numel())
    return output


# Captured from the first softmax over two axes or one on: every linear map without a bias is such a product too.
MATRIX_OPERATORS: list[Override] = [
    ("mm", "CPU", capture_matrix_product),
    ("mm", "AutogradCPU", partial(capture_matrix_product, above_autograd=True)),
]
