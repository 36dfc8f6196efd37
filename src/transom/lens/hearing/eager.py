"""Attention that a model computes by hand, its weights held whole: as a problem where it is one, else as weights.

Weights alone become a problem without queries and keys: their logarithm is its bias, and each row's log-sum-exp is 0.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transom.equations.biases import GivenBias
from transom.kernels.problem import Problem
from transom.lens.asking.cut import Cut, described
from transom.lens.hearing.heard import UNCHECKED, Heard, problem_of, unexpanded
from transom.lens.kept import Kept
from transom.names import Misfit

ALONE = "the model computes it by hand, and its values were not seen"
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")  # what modules call their number of heads
AGREE = 1e-5  # how close weights worked out from Q and K come to the model's own, if they are the same attention


def of_weights(weights: Tensor, V: Tensor | None = None, output: Tensor | None = None, unproved: str = "") -> Heard:
    """Weights (batch, heads, queries, keys), and the values and output where they are known."""
    batch, heads, queries, keys = weights.shape
    lse = torch.zeros((batch, heads, queries), device=weights.device)
    lse = lse.masked_fill((weights == 0).all(dim=-1), -torch.inf)
    if V is None or output is None:
        V, output = weights.new_zeros((batch, heads, keys, 0)), weights.new_zeros((batch, heads, queries, 0))
        unproved = unproved or ALONE
    Q, K = V.new_zeros((batch, heads, queries, 0)), V.new_zeros((batch, V.shape[1], keys, 0))
    problem = problem_of(Q, K, V, bias=GivenBias(weights.log()), scale=1.0)
    return Heard(problem, output, lse, unproved=unproved)


def of_softmax(weights: Tensor, module: nn.Module) -> Heard | None:
    """What a softmax by hand gave in a module; None where it is not queries by keys for each head."""
    whole = by_heads(weights, module)
    return None if whole is None else of_weights(whole)


def by_heads(weights: Tensor, module: nn.Module) -> Tensor | None:
    """What a softmax gave as (batch, heads, queries, keys); None where the module's number of heads tells otherwise."""
    heads = next((found for word in HEADS if isinstance(found := getattr(module, word, None), int)), None)
    if weights.dim() == 4:
        return weights if heads in (None, weights.shape[1]) else None
    if heads is None:
        return weights[None]
    return weights.unflatten(0, (-1, heads)) if heads > 0 and weights.shape[0] % heads == 0 else None


def of_interface(
    given: inspect.BoundArguments, weights: list[Tensor], output: object, cut: Cut | None = None
) -> Heard | None:
    """A call of Hugging Face's eager attention: its softmax gave the weights, which decide how it is understood."""
    named = given.arguments
    Q, K, V = (named[word] for word in ("query", "key", "value"))
    if len(weights) != 1 or weights[0].dim() != 4 or not isinstance(output, Tensor):
        return None
    own = weights[0][..., : K.shape[2]]  # a sink may stand behind the keys
    fits = output.dim() == 4 and output.shape == (Q.shape[0], Q.shape[2], Q.shape[1], V.shape[3])
    dropped = float(named.get("dropout") or 0.0)
    unproved = UNCHECKED.format(dropped) if dropped else ""
    made = output.transpose(1, 2) if fits else None
    problem = plainly(named, tuple(own.shape))
    if problem is not None and made is not None:
        one = Heard(problem, made, unproved=unproved)
        one = one if cut is None else described(one, cut)
        again = Kept(one.problem, None, None, zeroed=one.zeroed)
        if torch.allclose(again.block_weights(problem.block()), own.to(problem.accurate), atol=AGREE):
            return one
    return of_weights(own, V if fits else None, made, unproved)


def plainly(named: dict[str, Any], whole: tuple[int, ...]) -> Problem | None:
    """The problem that its arguments tell of, if it has that size; whether it is the model's own, its weights tell."""
    Q, K, V, mask = (named[word] for word in ("query", "key", "value", "attention_mask"))
    more = {**named, **named.get("kwargs", {})}
    bias = None
    if isinstance(mask, Tensor):
        mask = unexpanded(mask)
        if mask.dim() != 4 or not mask.is_floating_point():
            return None
        bias = GivenBias(mask if mask.shape[3] == 1 else mask[..., : K.shape[2]])
    scale = more.get("scaling")
    problem = problem_of(Q, K, V, bias=bias, scale=Q.shape[3] ** -0.5 if scale is None else scale)
    softcap = more.get("softcap")
    if softcap is not None:
        problem = Problem(**{**vars(problem), "softcap": float(softcap)})
    return problem if problem.whole == whole else None


def wrapped_interface(told: Callable[[Callable[..., Any], inspect.BoundArguments], Any]) -> Callable[[], None]:
    """Put a wrapper around the eager functions that Hugging Face's models ask for; gives the way back."""
    library = sys.modules.get("transformers.modeling_utils")
    interface: Any = getattr(library, "AttentionInterface", None)
    if interface is None:
        return lambda: None
    original = interface.get_interface

    def get_interface(self: Any, attn_implementation: str, default: Callable[..., Any]) -> Callable[..., Any]:
        found = original(self, attn_implementation, default)
        if torch.compiler.is_compiling() or found is not default:
            return found
        signature = inspect.signature(found)
        return lambda *given, **named: told(found, signature.bind(*given, **named))

    def put_back() -> None:
        if interface.get_interface is not get_interface:
            raise Misfit(
                "AttentionInterface.get_interface was replaced while a model was watched; replace it before, or after"
            )
        interface.get_interface = original

    interface.get_interface = get_interface
    return put_back


def looks_like_attention(module: nn.Module) -> bool:
    """Whether a softmax in this module is taken for attention: its kind is named so."""
    name = type(module).__name__.lower()
    return "attention" in name or "attn" in name or isinstance(module, nn.MultiheadAttention)
