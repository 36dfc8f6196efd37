"""Attention that a model computes without a kernel, with all its weights: as Q, K and V if they explain the weights.

Otherwise the weights alone become a problem without queries and keys: their logarithm is its bias, and each row's
log-sum-exp is 0.
"""

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from transom.equations.biases import TensorBias
from transom.kernels import Problem
from transom.lens.attention.record import AttentionRecord
from transom.lens.capture.captured_attention import CapturedAttention, EdgeCut, dropout_note, make_problem
from transom.lens.capture.torch_attention import unexpand
from transom.names import Misfit

UNREAD = "its weights are not queries by keys for each head"
ALONE = "the model computes it by hand, and its values were not seen"
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")  # what modules call their number of heads
AGREE = 1e-5  # how close weights computed from Q and K must come to the model's own


def from_weights(
    weights: Tensor, V: Tensor | None = None, output: Tensor | None = None, unproved: str = ""
) -> CapturedAttention:
    """Weights (batch, heads, queries, keys), and the values and output if they are known."""
    lse = torch.zeros(weights.shape[:3], device=weights.device)
    lse = lse.masked_fill((weights == 0).all(dim=-1), -torch.inf)
    if V is None or output is None:
        V, output, unproved = None, weights.new_zeros((*weights.shape[:3], 0)), unproved or ALONE
    return CapturedAttention(problem_from_scores(weights.log(), V), output, lse, unproved=unproved)


def problem_from_scores(scores: Tensor, V: Tensor | None = None) -> Problem:
    """A problem with no queries and keys, whose bias is the scores (batch, heads, queries, keys)."""
    batch, heads, queries, keys = scores.shape
    V = scores.new_zeros((batch, heads, keys, 0)) if V is None else V
    Q, K = V.new_zeros((batch, heads, queries, 0)), V.new_zeros((batch, V.shape[1], keys, 0))
    return make_problem(Q, K, V, bias=TensorBias(scores), scale=1.0)


def from_softmax(weights: Tensor, module: nn.Module) -> CapturedAttention | None:
    """The weights of a softmax in a module; None if they are not queries by keys for each head."""
    weights_4d = weights_to_four_axes(weights, module)
    return None if weights_4d is None else from_weights(weights_4d)


def weights_to_four_axes(weights: Tensor, module: nn.Module) -> Tensor | None:
    """Weights (or scores) as (batch, heads, queries, keys); None if the module has another number of heads."""
    counts = (getattr(module, name, None) for name in HEADS)
    heads = next((count for count in counts if isinstance(count, int)), None)
    if weights.dim() == 4:
        return weights if heads in (None, weights.shape[1]) else None
    if heads is None:
        return weights[None]
    return weights.unflatten(0, (-1, heads)) if heads > 0 and weights.shape[0] % heads == 0 else None


def from_eager_call(
    arguments: dict[str, Any], softmaxes: list[Tensor], output: object, cut: EdgeCut | None = None
) -> CapturedAttention | None:
    """A call of Hugging Face's eager attention; the weights of its softmax show whether its Q, K and V explain it."""
    Q, K, V = (arguments[name] for name in ("query", "key", "value"))
    if len(softmaxes) != 1 or softmaxes[0].dim() != 4 or not isinstance(output, Tensor):
        return None
    weights = softmaxes[0][..., : K.shape[2]]  # a sink may be behind the keys
    unproved = dropout_note(float(arguments.get("dropout") or 0.0))
    if output.dim() != 4 or output.shape != (Q.shape[0], Q.shape[2], Q.shape[1], V.shape[3]):
        return from_weights(weights, unproved=unproved)
    output = output.transpose(1, 2)
    problem = problem_from_eager_args(arguments)
    if problem is not None and problem.shape == weights.shape:
        captured = CapturedAttention(problem, output, unproved=unproved).with_cut(cut)
        recomputed = AttentionRecord(captured.problem, None, None, weight_mask=captured.weight_mask)
        if torch.allclose(recomputed.region_weights(problem.region()), weights.to(problem.compute_dtype), atol=AGREE):
            return captured
    return from_weights(weights, V, output, unproved)


def problem_from_eager_args(arguments: dict[str, Any]) -> Problem | None:
    """The problem that the arguments describe; None if their mask cannot be added to the scores."""
    Q, K, V, mask = (arguments[name] for name in ("query", "key", "value", "attention_mask"))
    options = {**arguments, **arguments.get("kwargs", {})}
    bias = None
    if isinstance(mask, Tensor):
        mask = unexpand(mask)
        if mask.dim() != 4 or not mask.is_floating_point():
            return None
        bias = TensorBias(mask if mask.shape[3] == 1 else mask[..., : K.shape[2]])
    scale, softcap = options.get("scaling"), options.get("softcap")
    # Not `default_scale`: Hugging Face's eager functions compute d_head**-0.5, whose last bits differ in float64.
    problem = make_problem(Q, K, V, bias=bias, scale=Q.shape[3] ** -0.5 if scale is None else scale)
    return problem if softcap is None else replace(problem, softcap=float(softcap))


def wrap_attention_interface(run: Callable[[Callable[..., Any], inspect.BoundArguments], Any]) -> Callable[[], None]:
    """Let `run` call the eager functions of Hugging Face's models; returns a function that undoes it."""
    library = sys.modules.get("transformers.modeling_utils")
    interface: Any = getattr(library, "AttentionInterface", None)
    if interface is None:
        return lambda: None
    original = interface.get_interface

    def get_interface(self: Any, attn_implementation: str, default: Callable[..., Any]) -> Callable[..., Any]:
        function = original(self, attn_implementation, default)
        if torch.compiler.is_compiling() or function is not default:
            return function
        signature = inspect.signature(function)
        return lambda *args, **kwargs: run(function, signature.bind(*args, **kwargs))

    def put_back() -> None:
        if interface.get_interface is not get_interface:
            raise Misfit(
                "AttentionInterface.get_interface was replaced while a model was watched; replace it before, or after"
            )
        interface.get_interface = original

    interface.get_interface = get_interface
    return put_back


def looks_like_attention(module: nn.Module) -> bool:
    """Whether a softmax in this module counts as attention: its class is named after it."""
    return is_attention_class(type(module))


@cache
def is_attention_class(kind: type[nn.Module]) -> bool:
    name = kind.__name__.lower()
    return "attention" in name or "attn" in name or issubclass(kind, nn.MultiheadAttention)


def is_multihead(module: nn.Module) -> TypeGuard[nn.MultiheadAttention]:
    """Whether it is PyTorch's own layer; one with another `forward` may take and return anything."""
    return isinstance(module, nn.MultiheadAttention) and type(module).forward is nn.MultiheadAttention.forward
