"""`patch`: run a model with outputs of heads, or values of edges, taken from another run; and means over many runs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.lens.ablation.ablated_runs import ModelCall
from transom.lens.ablation.edge import Edge, Layer, Positions, check_positions, to_local_positions
from transom.lens.capture.attention_listener import AttentionListener, ReadAttention
from transom.lens.capture.captured_attention import CapturedAttention, Unreadable
from transom.lens.capture.dispatch_hooks import listen
from transom.lens.capture.watch import AttentionNames, check_is_model, watch
from transom.lens.trace import Trace, layer_matches, list_some, suggest_names
from transom.names import Misfit

Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class MeanOutputs:
    """The mean output of every head over some texts: at each position, or one for all positions."""

    outputs: dict[str, Float[Tensor, "heads queries d_value"]]
    texts: int

    @property
    def names(self) -> list[str]:
        return list(self.outputs)


def mean_outputs(model: nn.Module, texts: Sequence[object], by_position: bool = True) -> MeanOutputs:
    """Run a model on some texts, and keep the mean output of each head, for `patch`: mean ablation.

    texts         the inputs of each, as in `effect`: one sequence each
    by_position   a mean for each position, of texts of one length; otherwise one over all positions of all texts
    """
    sums: dict[str, Tensor] = {}
    rows: dict[str, int] = {}
    for inputs in texts:
        call = ModelCall.from_inputs(model, inputs, "mean_outputs")
        with watch(model) as trace:
            call()
        for name in trace.names:
            output = trace[name].require_full().output.detach().double().sum(dim=0)
            output = output if by_position else output.sum(dim=1, keepdim=True)
            if name in sums and sums[name].shape != output.shape:
                raise Misfit(
                    f"a mean for each position needs texts of one length, but {name!r} has queries={output.shape[1]}"
                    f" after {sums[name].shape[1]}; use by_position=False"
                )
            sums[name] = output + sums.get(name, 0.0)
            rows[name] = rows.get(name, 0) + (1 if by_position else trace[name].shape[2])
    if not sums:
        raise Misfit("mean_outputs needs at least one text, but got none; give the inputs of some")
    return MeanOutputs({name: total / rows[name] for name, total in sums.items()}, len(texts))


@contextmanager
def patch(
    model: nn.Module,
    source: Trace | MeanOutputs,
    layer: Layer = None,
    head: Positions = None,
    query: Positions = None,
    key: Positions = None,
    *,
    pairs: Pairs | None = None,
) -> Iterator[None]:
    """While the block runs, heads give what they gave in another run; with `key`, edges carry the values of that run.

    source       a Trace of the other run (`watch`), or means over texts (`mean_outputs`)
    layer, head  as in `knock_out`; left out, all of them: all heads are the attention's whole output
    query, key   the rows that are patched, and the edges of them; left out, all rows and whole outputs
    pairs        (position here, position there), where the texts differ in length; by default the same position
    """
    check_is_model(model, "patch")
    edge = Edge(layer, head, query, key)
    for axis, positions in edge.axes.items():
        check_positions(axis, positions)
    if key is not None and not isinstance(source, Trace):
        raise Misfit("a mean has outputs of heads, but key asks for the values of edges; give a Trace as source")
    patcher = OutputPatcher(model, source, edge, None if pairs is None else dict(pairs))
    with listen(patcher):
        yield
    patcher.check_all_ran()


class OutputPatcher(AttentionListener):
    """Replaces outputs of a running model's attention, and reports what never ran."""

    patches_outputs = True

    def __init__(self, model: nn.Module, source: Trace | MeanOutputs, edge: Edge, pairs: dict[int, int] | None) -> None:
        self.names, self.source, self.edge, self.pairs = AttentionNames(model), source, edge, pairs
        self.patched: list[str] = []

    def on_attention(self, captured: CapturedAttention | Unreadable, modules: list[nn.Module], order: int) -> None:
        name = self.names.record(modules, order)
        if name is not None and self.edge.covers(name) and name not in self.patched:
            raise Misfit(
                f"outputs of {name!r} were to be patched, but its attention is computed in a form that cannot be; name"
                ' other layers, or load the model with attn_implementation="sdpa"'
            )

    def patch_output(
        self, output: Tensor, read: ReadAttention, modules: list[nn.Module], order: int
    ) -> Float[Tensor, "batch heads queries d_value"] | None:
        """The output (batch, heads, queries, d_value) with the other run's in it; None if it stays as it is."""
        name = self.names.attention_name(modules, order)
        if name is None or not self.edge.covers(name):
            return None
        if name in self.patched:
            raise Misfit(f"{name!r} ran more than once, but patch replaces one run by one; leave the cache out")
        self.patched.append(name)
        heads = self.indices("head", self.edge.head, output.shape[1])
        rows = self.indices("query", self.edge.query, output.shape[2])
        if self.edge.key is not None:
            return self.patch_values(name, output, read, heads, rows)
        theirs = self.other_output(name, output)
        there = [0] * len(rows) if theirs.shape[1] == 1 else self.others(rows, theirs.shape[1], "queries")
        rows = [row for row, other in zip(rows, there, strict=True) if other is not None]
        there = [other for other in there if other is not None]
        patched = output.clone()
        index = torch.tensor(heads)[:, None], torch.tensor(rows)[None]
        patched[:, index[0], index[1]] = theirs[index[0], torch.tensor(there)[None]].to(output)
        return patched

    def patch_values(self, name: str, output: Tensor, read: ReadAttention, heads: list[int], rows: list[int]) -> Tensor:
        """o + Σ A (v′ − v) over the keys, for each of the rows."""
        captured, other = read(), self.source[name].require_full()  # pyright: ignore[reportIndexIssue]
        if not isinstance(captured, CapturedAttention) or captured.problem.V.shape[3] == 0:
            raise Misfit(
                f"values of {name!r} were to be patched, but they are not seen; patch the outputs of its heads"
            )
        problem, sight = captured.problem, captured.to_sight()
        keys = self.indices("key", self.edge.key, problem.shape[3])
        there = self.others(keys, other.shape[3], "keys")
        here = [key for key, place in zip(keys, there, strict=True) if place is not None]
        place = [number for number in there if number is not None]
        patched = output.clone()
        for head in heads:
            ours, theirs = head // problem.group, head // other.problem.group
            change = other.V[0, theirs, place].to(output) - problem.V[:, ours, here]
            weights = sight.weights(head=head, rows=rows, keys=here).to(output.dtype)
            patched[:, head, rows] += weights @ change
        return patched

    def other_output(self, name: str, output: Tensor) -> Float[Tensor, "heads queries d_value"]:
        known = self.source.names
        if name not in known:
            raise Misfit(f"the other run has no attention {name!r} to take outputs from; {suggest_names(name, known)}")
        source = self.source
        theirs = source.outputs[name] if isinstance(source, MeanOutputs) else source[name].require_full().output[0]
        if theirs.shape[0] != output.shape[1] or theirs.shape[2] != output.shape[3]:
            raise Misfit(
                f"{name!r} has heads={output.shape[1]} and d_value={output.shape[3]}, but in the other run"
                f" heads={theirs.shape[0]} and d_value={theirs.shape[2]}; take a run of the same model"
            )
        return theirs.detach()

    def indices(self, axis: str, positions: Positions, size: int) -> list[int]:
        local = to_local_positions(positions, 0, size)
        found = list(range(size)) if local is None else list(local)
        if not found:
            raise Misfit(f"{axis} {positions} was to be patched, but there are {size}; count from 0, or back from -1")
        return found

    def others(self, positions: list[int], size: int, axis: str) -> list[int | None]:
        """Where each position is in the other run; None for one that no pair names."""
        there = [number if self.pairs is None else self.pairs.get(number) for number in positions]
        missing = next((number for number in there if number is not None and not 0 <= number < size), None)
        if missing is not None:
            raise Misfit(
                f"position {missing} of the other run was to be taken, but it has {axis}={size}; give pairs of"
                " (position here, position there)"
            )
        if all(number is None for number in there):
            raise Misfit(
                "no pair names a position that is to be patched; give pairs of (position here, position there)"
            )
        return there

    def check_all_ran(self) -> None:
        self.names.check_any_ran()
        ran = list(dict.fromkeys(self.names.ran))
        for layer in self.edge.layers:
            if not any(layer_matches(layer, name) for name in ran):
                raise Misfit(
                    f"layer {layer!r} was to be patched, but no attention ran in it; {suggest_names(str(layer), ran)}"
                )
        if not self.patched:
            raise Misfit(f"outputs were to be patched, but only {list_some(ran)} ran; name the layers that you mean")
