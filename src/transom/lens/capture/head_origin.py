"""What one head was computed from, and what became of it: X, its W_Q, W_K and W_V, and W_O; each proved by its numbers.

The model runs once more. A projection is recognised by its output, W_O by its input, and neither counts before X W + b,
computed in float64, equals what the attention used. What cannot be proved is left out, and a note says so.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transom.equations.heads import merge_heads
from transom.layers.positions import Rotary
from transom.layers.projections import LowRank, NarrowLinear
from transom.lens.attention.labels import is_cross
from transom.lens.attention.sight import Sight
from transom.lens.capture.output_projection import find_module, is_joined_heads
from transom.lens.capture.torch_attention import batch_first, bind_mha_args, in_projections
from transom.lens.capture.watch import watch
from transom.lens.trace import Trace
from transom.names import check_index

ROUNDING = 32 * torch.finfo(torch.float32).eps  # of the sum of magnitudes
BEFORE = "X is the input of this attention, after all that comes before it: positions, norm, earlier layers."
NO_OUTPUT = "The steps end at the weighted sum: no projection was found that takes the joined heads."
ONLY_WEIGHTS = "Only scores and weights can be shown: the model's softmax was seen, but not its Q and K."
OTHER_RUN = "The steps begin at Q: the model computed something else when it ran again."


@dataclass(frozen=True, eq=False)
class HeadOrigin:
    """What is known of one head's surroundings.

    embedding      what Q is computed from; for self-attention K and V too
    at_embedding   what K and V are computed from, if that is something else
    parameters     W_Q, W_K, W_V (d_model, d_head) and b_Q, b_K, b_V of this head, W_O (heads · d_value, d_out) and b_O
    output         the output of W_O in the model
    notes          what is left out, and why
    """

    embedding: Float[Tensor, "queries d_model"] | None = None
    at_embedding: Float[Tensor, "keys any"] | None = None
    parameters: dict[str, Tensor] = field(default_factory=dict)
    output: Float[Tensor, "queries d_out"] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LinearCall:
    """A linear map that ran: its input and output, and a function that finds W (d_in, d_out) and b."""

    x: Tensor
    output: Tensor
    parameters: Callable[[], tuple[Tensor, Tensor | None]]


class ProvenProjection(NamedTuple):
    """One of Q, K and V as x W + b."""

    x: Tensor
    W: Tensor
    b: Tensor | None


class LinearMapCapture:
    """Keeps the linear maps that run in the module of an attention before it, and the one that takes its heads."""

    def __init__(self, module: nn.Module | None, trace: Trace) -> None:
        self.module, self.trace = module, trace
        self.inside = set() if module is None else set(module.modules())
        self.before: list[LinearCall] = []
        self.after: LinearCall | None = None

    def on_linear(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        x = args[0] if args else None
        if not isinstance(x, Tensor) or not isinstance(output, Tensor) or not x.is_floating_point():
            return
        before = module in self.inside and not self.trace.entries
        if not before and (self.after is not None or not self.takes_heads(x)):
            return
        # Copies, because the model may overwrite its own.
        call = LinearCall(x.detach().clone(), output.detach().clone(), lambda: matrix_of(module, x))
        if before:
            self.before.append(call)
        else:
            self.after = call

    def takes_heads(self, x: Tensor) -> bool:
        return bool(self.trace.entries) and is_joined_heads(x, self.trace.entries[0][1].require_full())

    def on_mha(self, module: nn.MultiheadAttention, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """PyTorch's layer calls no modules for its projections."""
        arguments = bind_mha_args(module, args, kwargs)
        for name, (W, b) in zip(("query", "key", "value"), in_projections(module), strict=True):
            x = batch_first(arguments[name], module).detach()
            self.before.append(LinearCall(x, F.linear(x, W, b), lambda W=W, b=b: (W.mT, b)))
        result = batch_first(output[0], module).detach()
        self.after = LinearCall(result, result, lambda: matrix_of(module.out_proj, result))


def find_origin(
    model: nn.Module, run: Callable[[], object], name: str, sight: Sight, head: int = 0, batch: int = 0
) -> HeadOrigin:
    """What a head of the attention `name` was computed from; `run` runs the model as it ran when it was watched."""
    batches, heads = sight.problem.shape[:2]
    batch, head = check_index(batch, "batch", batches), check_index(head, "heads", heads)
    if sight.Q.shape[3] == 0:
        return HeadOrigin(notes=(ONLY_WEIGHTS,))
    with torch.no_grad():
        maps, rerun = capture_linear_maps(model, run, name)
        if rerun.problem.shape != sight.problem.shape:
            return HeadOrigin(notes=(OTHER_RUN,))
        kv_head = head // sight.problem.group
        projections: dict[str, ProvenProjection] = {}
        for letter, index in (("Q", head), ("K", kv_head), ("V", kv_head)):
            used, used_again = getattr(sight, letter)[batch, index], getattr(rerun, letter)[batch, index]
            projection = find_projection(maps.before, used, used_again, (batch, batches))
            if projection is not None:
                projections[letter] = projection
        output, parameters = find_output_projection(maps.after, sight, batch)
        embedding, at_embedding = find_embeddings(name, sight, projections)
        for letter, projection in projections.items():
            parameters[f"W_{letter}"] = projection.W
            if projection.b is not None:
                parameters[f"b_{letter}"] = projection.b
        notes = origin_notes(name, sight, head, projections, maps.module)
        if output is None:
            notes.append(NO_OUTPUT)
        return HeadOrigin(embedding, at_embedding, parameters, output, tuple(notes))


def find_embeddings(
    name: str, sight: Sight, projections: dict[str, ProvenProjection]
) -> tuple[Tensor | None, Tensor | None]:
    """X of the queries, and X of the keys if it is another; a projection of V from a third X is dropped."""
    source = projections.get("K", projections.get("V"))
    if source is not None and "V" in projections and not torch.equal(projections["V"].x, source.x):
        del projections["V"]  # keys with positions added, values without: only one X can be shown for both
    at = None if source is None else source.x
    is_self = sight.problem.shape[2] == sight.problem.shape[3] and not is_cross(name)
    own = projections["Q"].x if "Q" in projections else at if is_self else None
    same = own is not None and at is not None and own.shape == at.shape and torch.equal(own, at)
    return own, None if same else at


def origin_notes(
    name: str, sight: Sight, head: int, projections: dict[str, ProvenProjection], module: nn.Module | None
) -> list[str]:
    """What X is, which of Q, K and V are shown as they were used, and which heads share theirs."""
    notes = [BEFORE] if projections else []
    missing = [letter for letter in "QKV" if letter not in projections]
    if missing:
        letters = ", ".join(missing[:-1]) + " and " + missing[-1] if len(missing) > 1 else missing[0]
        are, them = ("are", "them") if len(missing) > 1 else ("is", "it")
        why = f"no projection in {name} gives {them} as X W + b (positions, a norm or a factor may come after it)"
        if isinstance(getattr(module, "positions", None), Rotary) and set(missing) == {"Q", "K"}:
            why = "rotary positions turn them after the projection"
        notes.append(f"{letters} {are} shown as the model used {them}: {why}.")
    group = sight.problem.group
    if group > 1:
        notes.append(f"{group} heads share each K and V; head {head} uses those of key–value head {head // group}.")
    return notes


def find_projection(
    calls: list[LinearCall], used: Tensor, used_again: Tensor, batch: tuple[int, int]
) -> ProvenProjection | None:
    """The projection that gave one head's Q, K or V: the last that ran, if there are several."""
    tokens, width = used.shape
    for call in reversed(calls):
        x, output = sequence_rows(call.x, *batch, tokens), sequence_rows(call.output, *batch, tokens)
        if x is None or output is None or width == 0:
            continue
        for first in range(0, output.shape[1] - width + 1, width):
            columns = slice(first, first + width)
            if not is_close(output[:, columns], used_again):
                continue
            W, b = call.parameters()
            W, b = W[:, columns], None if b is None else b[columns]
            if reproduces(x, W, b, used):
                return ProvenProjection(x, W, b)
    return None


def is_close(x: Tensor, expected: Tensor) -> bool:
    """Whether two tensors are the same but for rounding."""
    return float((x - expected).abs().max()) <= 1e-5 * float(expected.abs().max())


def reproduces(x: Tensor, W: Tensor, b: Tensor | None, used: Tensor) -> bool:
    """Whether x W + b in float64 is what was used, but for rounding in float32."""
    x, W = x.double(), W.double()
    values, magnitudes = x @ W, x.abs() @ W.abs()
    if b is not None:
        values, magnitudes = values + b.double(), magnitudes + b.double().abs()
    return values.shape == used.shape and bool(((values - used.double()).abs() <= ROUNDING * magnitudes + 1e-12).all())


def find_output_projection(
    after: LinearCall | None, sight: Sight, batch: int
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """The output of the joined heads, and W_O and b_O, if they give it."""
    batches, _, queries, _ = sight.problem.shape
    output = None if after is None else sequence_rows(after.output, batch, batches, queries)
    if after is None or output is None:
        return None, {}
    W, b = after.parameters()
    heads = merge_heads(sight.output)[batch]
    if heads.shape[1] != W.shape[0] or not reproduces(heads, W, b, output):
        return None, {}
    return output, {"W_O": W} if b is None else {"W_O": W, "b_O": b}


def sequence_rows(x: Tensor, batch: int, batches: int, tokens: int) -> Tensor | None:
    """One vector per token of one sequence of the batch; None if x has another layout."""
    if x.dim() == 2 and x.shape[0] == batches * tokens:
        x = x.unflatten(0, (batches, tokens))
    return x[batch] if x.dim() == 3 and x.shape[:2] == (batches, tokens) else None


def capture_linear_maps(model: nn.Module, run: Callable[[], object], name: str) -> tuple[LinearMapCapture, Sight]:
    """Run the model, and capture the attention of that name and the linear maps around it."""
    with ExitStack() as stack, watch(model, layers=name) as trace:
        maps = LinearMapCapture(find_module(model, name), trace)
        for module in model.modules():
            if is_linear_map(module):
                stack.enter_context(module.register_forward_hook(maps.on_linear))
            elif module is maps.module and isinstance(module, nn.MultiheadAttention):
                stack.enter_context(module.register_forward_hook(maps.on_mha, with_kwargs=True))  # pyright: ignore[reportArgumentType]
        run()
    return maps, trace.entries[0][1].require_full()


def is_linear_map(module: nn.Module) -> bool:
    """Whether a module may be a linear map of vectors."""
    weight = getattr(module, "weight", None)
    return isinstance(module, NarrowLinear | LowRank) or (isinstance(weight, Tensor) and weight.dim() == 2)


def matrix_of(module: nn.Module, like: Tensor) -> tuple[Tensor, Tensor | None]:
    """W and b of a linear map, however it stores its parameters."""
    if isinstance(module, nn.Linear):
        return module.weight.detach().mT, None if module.bias is None else module.bias.detach()
    identity = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)[None]
    b = module(torch.zeros_like(identity[:, :1]))[0, 0]
    return module(identity)[0] - b, b if bool(b.any()) else None
