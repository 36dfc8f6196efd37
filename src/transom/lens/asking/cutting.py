"""Cutting edges where attention passes by, as those who ask for it say: in what a kernel gave, or in a softmax."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from transom.lens.asking.cut import Cut, cut_softmax, described, remade
from transom.lens.hearing.eager import by_heads, looks_like_attention
from transom.lens.hearing.ear import EAR, Outline, beside, exactly
from transom.lens.hearing.heard import Heard
from transom.lens.sight import Sight
from transom.names import Misfit


def recut(one: Heard) -> tuple[Heard, Cut | None]:
    """An attention that a kernel gave without the edges that are to be cut, and what was cut."""
    cut = EAR.cut(Outline.of(one.problem))
    if cut is None:
        return one, None
    with exactly(), EAR.within():
        return remade(one, cut), cut


def cut_sdpa(output: Tensor, one: Heard, run: Callable[[], Tensor], state: Tensor) -> Tensor:
    """What PyTorch's function gives without the edges to cut; `state` is what its dropout was drawn from."""
    if one.unproved:
        one, output = cut_dropped(output, one, run, state)
    else:
        one, cut = recut(one)
        output = output if cut is None or one.output is None else one.output.reshape(output.shape)
    EAR.tell(lambda: one)
    return output


def cut_dropped(output: Tensor, one: Heard, run: Callable[[], Tensor], state: Tensor) -> tuple[Heard, Tensor]:
    """The same with dropout: it runs again, the same numbers drawn, and its softmax is cut."""
    EAR.to_cut = EAR.cut(Outline.of(one.problem))
    if EAR.to_cut is None:
        return one, output
    EAR.was_cut = None
    torch.set_rng_state(state)
    try:
        with EAR.within():
            output = run()
    finally:
        EAR.to_cut = None
    if EAR.was_cut is None:
        raise Misfit(
            f"edges were to be knocked out of attention with dropout in {running()}, but its softmax was not seen; call"
            " model.eval()"
        )
    shown = output.reshape((*one.problem.whole[:3], one.problem.V.shape[3]))
    return described(replace(one, output=shown), EAR.was_cut), output


def cut_native(outputs: tuple[Tensor, Tensor | None], told: Callable[[], Heard]) -> tuple[Tensor, Tensor | None]:
    """What the fast path of `nn.MultiheadAttention` gives without the edges, nested if it came so, and its weights."""
    with beside():
        came = told()
    one, cut = recut(came)
    EAR.tell(lambda: one)
    output, weights = outputs
    if cut is None or one.joined is None:
        return outputs
    changed = one.joined.output
    if output.is_nested:
        lengths = [len(row) for row in output.unbind()]
        changed = torch.nested.nested_tensor([row[:n] for row, n in zip(changed, lengths, strict=True)])
    if weights is not None and weights.numel():
        weights = weights_again(weights, one, cut)
    return changed, weights


def weights_again(weights: Tensor, one: Heard, cut: Cut) -> Tensor:
    """Weights that came beside an output, of all heads or their mean: rows that lost an edge are made anew."""
    shown = Sight(one.problem, None, None, zeroed=one.zeroed).weights().to(weights.dtype)
    touched = cut.touched(one.problem.block())
    if weights.dim() == 3:
        shown, touched = shown.mean(dim=1), touched.any(dim=1)
    return torch.where(touched[..., None], shown, weights)


def softmax_to_cut(x: Tensor) -> tuple[Tensor, Cut, int] | None:
    """Scores as (batch, heads, queries, columns), what to cut out of them, and how many of the columns are keys."""
    if EAR.to_cut is not None:
        return x, EAR.to_cut, x.shape[-1]
    scores = x
    if EAR.weights is None:
        if EAR.inside is not None or not EAR.modules or not looks_like_attention(EAR.modules[-1]):
            return None
        scores = by_heads(x, EAR.modules[-1])
    if scores is None or scores.dim() != 4:
        return None
    keys = scores.shape[3] if EAR.keys is None else EAR.keys
    cut = EAR.cut(Outline((*scores.shape[:3], keys), scores=scores.detach()[..., :keys]))  # pyright: ignore[reportArgumentType]
    return None if cut is None else (scores, cut, keys)


def softmax_cut(x: Tensor, run: Callable[[Tensor], Tensor], differentiable: bool) -> Tensor:
    """What a softmax makes of x, without the edges that are to be cut."""
    EAR.was_cut = None
    found = softmax_to_cut(x) if EAR.cutters else None
    if found is None:
        return run(x)
    scores, cut, keys = found
    # Below autograd, its formula goes by the weights that come out: right for edges cut before, wrong for those after.
    if cut.after and not differentiable and x.requires_grad and torch.is_grad_enabled():
        raise Misfit(
            f"gradients through the dropout of {running()} cannot follow an edge knocked out after the softmax; call"
            ' model.eval(), or use how="before"'
        )
    with exactly(), EAR.within():
        weights, EAR.was_cut = cut_softmax(
            scores, lambda kept: run(kept.reshape(x.shape)).reshape(scores.shape), cut, keys
        )
    return weights.reshape(x.shape)


def running() -> str:
    """The innermost module, for an error."""
    return type(EAR.modules[-1]).__name__ if EAR.modules else "no module"
