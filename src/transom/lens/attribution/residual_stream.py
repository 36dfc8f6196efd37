"""The residual stream of one token, taken apart: what the embedding, each head and each feed-forward part added."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.equations.heads import merge_heads
from transom.lens.ablation.ablated_runs import ModelCall, logits_of
from transom.lens.ablation.effect import check_one_sequence
from transom.lens.capture.module_values import record_module_values
from transom.lens.capture.output_projection import OutputProjection, capture_output_projections, find_module
from transom.lens.capture.watch import watch
from transom.lens.trace import Trace
from transom.names import Misfit, check_index

NORM_ERROR = 1e-2  # how far a norm that is read may be from what it gave, as a share: half precision has 1 / 256


@dataclass(frozen=True)
class Added:
    """A module whose output is added to the stream: an attention, taken apart by heads, or another part."""

    path: str
    layer: int
    is_attention: bool = False


@dataclass(frozen=True)
class Normed:
    """A norm through which the whole stream passes."""

    path: str


@dataclass(frozen=True, eq=False)
class ResidualLayout:
    """How a model comes to its logits: where its stream begins, what is added to it in which order, and W_U.

    start     the module that takes the embeddings
    blocks    for each block, its steps in order; then those after the last block, such as a final norm
    scale     what the last vector is multiplied by before W_U
    """

    start: str
    blocks: tuple[tuple[Added | Normed, ...], ...]
    closing: tuple[Normed, ...]
    W_U: Float[Tensor, "vocabulary d_model"]
    b_U: Float[Tensor, " vocabulary"] | None = None
    scale: float = 1.0

    def steps(self) -> Iterator[Added | Normed]:
        for block in self.blocks:
            yield from block
        yield from self.closing


@dataclass(frozen=True)
class StreamPart:
    """Something that was added to the stream; `layer` and `head` where it has them."""

    kind: str  # embedding, head, feed-forward or biases
    layer: int | None = None
    head: int | None = None
    name: str = ""  # of the attention or module


@dataclass(eq=False)
class StreamRecord:
    """What the modules of a layout took and gave at one token, and the attention in between."""

    row: int
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    trace: Trace
    projections: dict[str, OutputProjection]
    logits: Float[Tensor, " vocabulary"]


def record_stream(model: nn.Module, inputs: object, layout: ResidualLayout, row: int) -> StreamRecord:
    """Run the model once, and keep what its modules took and gave at one token."""
    call = ModelCall.from_inputs(model, inputs, "attribute_logit")
    paths = list(dict.fromkeys([layout.start, *(step.path for step in layout.steps())]))
    with (
        watch(model) as trace,
        capture_output_projections(model, trace) as projections,
        record_module_values(model, paths, row) as (taken, given),
    ):
        logits = logits_of(call())
    if logits.dim() != 3:
        raise Misfit(f"attribute_logit needs logits of every token, but they have {logits.dim()} axes; give a decoder")
    check_one_sequence(trace, logits, "attribute_logit")
    here = logits[0, check_index(row, "token", logits.shape[1])].detach()
    return StreamRecord(row, taken, given, trace, projections, here)


@dataclass(eq=False)
class TakenApart:
    """The stream of one token as a sum: a name and a vector for each part, and the sum after each block."""

    parts: list[StreamPart]
    vectors: Float[Tensor, "any d_model"]
    after_blocks: list[Float[Tensor, " d_model"]]


def take_apart(model: nn.Module, record: StreamRecord, layout: ResidualLayout) -> TakenApart:
    """Carry every part through the steps of the layout; a norm divides by what the model's own stream had."""
    parts = [StreamPart("embedding"), StreamPart("biases")]
    start = record.inputs[layout.start]
    taken = TakenApart(parts, torch.stack([start, torch.zeros_like(start)]), [start])
    for block in (*layout.blocks, layout.closing):
        for step in block:
            if isinstance(step, Normed):
                apply_norm(model, record, step, taken)
            elif step.is_attention:
                add_heads(record, step, taken)
            else:
                add_part(taken, StreamPart("feed-forward", step.layer, name=step.path), record.outputs[step.path][None])
        if block is not layout.closing:
            taken.after_blocks.append(taken.vectors.sum(dim=0))
    return taken


def add_part(taken: TakenApart, part: StreamPart, vectors: Tensor, first_head: int | None = None) -> None:
    """Append one part, or one for each head."""
    for number in range(len(vectors)):
        head = None if first_head is None else first_head + number
        taken.parts.append(StreamPart(part.kind, part.layer, head, part.name))
    taken.vectors = torch.cat([taken.vectors, vectors])


def add_heads(record: StreamRecord, step: Added, taken: TakenApart) -> None:
    """Each head through W_O, and the bias of W_O with the other biases."""
    projection = record.projections.get(step.path)
    if projection is None or step.path not in record.trace:
        raise Misfit(
            f"attribute_logit needs heads and W_O of {step.path!r}, but they were not seen there; its attention must"
            " give its heads, side by side, to one linear map"
        )
    sight = record.trace[step.path].require_full()
    heads = merge_heads(sight.output.detach())[0, record.row].double()
    width = len(heads) // sight.shape[1]
    alone = torch.zeros(sight.shape[1], len(heads), dtype=torch.float64, device=heads.device)
    for head in range(sight.shape[1]):
        alone[head, head * width : (head + 1) * width] = heads[head * width : (head + 1) * width]
    add_part(taken, StreamPart("head", step.layer, name=step.path), projection.project(alone).detach(), 0)
    bias = getattr(projection.module, "bias", None)
    if isinstance(bias, Tensor):
        taken.vectors[1] += bias.detach().double()


def apply_norm(model: nn.Module, record: StreamRecord, step: Normed, taken: TakenApart) -> None:
    """Every part through the norm, with the mean and the length that the whole stream had; its bias with the others."""
    module: Any = find_module(model, step.path)
    if isinstance(module, nn.Identity):
        return
    norm = read_norm(step.path, module, record.inputs[step.path], record.outputs[step.path])
    taken.vectors = norm.apply(taken.vectors)
    if norm.shift is not None:
        taken.vectors[1] += norm.shift


@dataclass(frozen=True, eq=False)
class FrozenNorm:
    """A norm as the linear map it was for one vector: x − mean(x) or x, times a gain; and its bias."""

    gain: Float[Tensor, " d_model"]
    is_centred: bool
    shift: Float[Tensor, " d_model"] | None

    def apply(self, x: Float[Tensor, "any d_model"]) -> Float[Tensor, "any d_model"]:
        return (x - x.mean(dim=-1, keepdim=True) if self.is_centred else x) * self.gain


def read_norm(path: str, module: Any, taken: Tensor, given: Tensor) -> FrozenNorm:
    """LayerNorm or RMSNorm, with a weight or 1 + weight: whichever gives what the module gave.

    What it divided by is read from its output, so ε need not be known.
    """
    weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    gains = [torch.ones_like(taken)] if weight is None else [weight.detach().double(), 1.0 + weight.detach().double()]
    shift = bias.detach().double() if isinstance(bias, Tensor) else None
    wanted, found = given if shift is None else given - shift, []
    for gain in gains:
        for is_centred in (True, False):
            alone = FrozenNorm(gain, is_centred, shift).apply(taken[None])[0]
            size = (alone @ wanted) / alone.square().sum().clamp_min(1e-300)
            error = float((size * alone - wanted).norm() / wanted.norm().clamp_min(1e-300))
            found.append((error, FrozenNorm(size * gain, is_centred, shift)))
    error, norm = min(found, key=lambda one: one[0])
    if not error < NORM_ERROR:
        raise Misfit(f"attribute_logit knows LayerNorm and RMSNorm, but {path!r} ({type(module).__name__}) is neither")
    return norm
