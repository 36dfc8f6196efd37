"""`knock_out`: run a model without some attention edges; an edge that never ran raises an error."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from transom.equations.biases import TensorBias
from transom.equations.edges import EdgeBox
from transom.equations.masks import Causal, masked_threshold
from transom.equations.region import Region
from transom.equations.sparse_bias import SparseBias
from transom.kernels import Problem
from transom.lens.ablation.edge import Edge, Layer, Positions, list_positions, parse_edges, to_local_positions
from transom.lens.attention.labels import is_cross
from transom.lens.capture.call_state import CAPTURE, AttentionListener
from transom.lens.capture.captured_attention import CapturedAttention, EdgeCut, Unreadable
from transom.lens.capture.dispatch_hooks import listen
from transom.lens.capture.evidence import find_unseen
from transom.lens.capture.watch import AttentionNames, check_is_model
from transom.lens.trace import layer_matches, list_some, suggest_names
from transom.lens.unseen_attention import UnseenAttention, group_by_reason
from transom.names import Misfit

PLURAL = {"batch": "sequences", "head": "heads", "query": "queries", "key": "keys"}
MAX_CHECKED = 2**20  # a box of more edges is not checked for being masked already
COMPILED = "it is compiled; knock them out of the model as it was before torch.compile, which has the same parameters"
NOT_CUT = (
    "its attention is computed in a form that cannot be cut; knock out other layers with layer=…, or load the model"
    ' with attn_implementation="sdpa"'
)

How = Literal["before", "after"]


def check_how(how: object) -> None:
    if how not in ("before", "after"):
        raise Misfit(f'how must be "before" or "after" the softmax, but got {how!r}; before lets other keys take over')


@contextmanager
def knock_out(
    model: nn.Module,
    layer: Layer = None,
    head: Positions = None,
    query: Positions = None,
    key: Positions = None,
    *,
    edges: Sequence["Edge | tuple[Layer, Positions, Positions, Positions]"] | None = None,
    batch: Positions = None,
    how: How = "before",
) -> Iterator[None]:
    """While the block runs, the model's attention goes without these edges; an axis that is left out means all of it.

    layer        a number (3 is any path with a part "3"), a path, its beginning, a pattern with *, or several of them
    head, query, key, batch
                 a number, a range, a slice or a list; −1 is the last; positions are those of the whole sequence
    edges        a set of edges instead, each (layer, head, query, key) or an Edge
    how          "before" the softmax (the row's other keys share the weight), or "after" it (the weight is lost)
    """
    check_is_model(model, "knock_out")
    check_how(how)
    ablator = EdgeAblator(model, parse_edges(Edge(layer, head, query, key, batch), edges), how)
    with listen(ablator):
        yield
        unseen = find_unseen(ablator.names.paths, ablator.names.ran, ablator.runs_before, {})
    ablator.check_reached(unseen)
    ablator.check_all_ran()


@dataclass(eq=False)
class AblatedEdge:
    """One edge, or one box of them, and what happened to it: did it run, and was it masked already."""

    edge: Edge
    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # first and last position of each call
    ran: bool = False
    was_visible: bool = False

    def make_box(self, problem: Problem, firsts: tuple[int, int]) -> EdgeBox | None:
        """The edges of an attention to cut; None if it has none of them."""
        box = []
        axes = self.edge.axes.items()
        for (axis, positions), first, size in zip(axes, (0, 0, *firsts), problem.shape, strict=True):
            box.append(to_local_positions(positions, first, size))
            self.ranges.setdefault(axis, []).append((first, first + size - 1))
        if () in box:
            return None
        self.ran = True
        self.was_visible = self.was_visible or is_any_visible(problem, EdgeBox(*box))
        return EdgeBox(*box)

    def check(self, ran: list[str]) -> None:
        """Raise an error if it never ran, or was masked already; `ran` are the attentions that did."""
        for layer in self.edge.layers:
            if not any(layer_matches(layer, name) for name in ran):
                near = suggest_names(str(layer), ran)
                raise Misfit(f"layer {layer!r} was to be knocked out, but no attention ran in it; {near}")
        names = list_some([name for name in ran if self.edge.covers(name)])
        for axis, positions in self.edge.axes.items():
            self.check_axis(axis, list_positions(positions), names)
        if not self.ran:
            raise Misfit(
                f"{self.edge.describe()} was to be knocked out of {names}, but its query and key were never in one"
                " call; a query attends to the keys that are there when it runs"
            )
        if not self.was_visible:
            raise Misfit(
                f"{self.edge.describe()} was to be knocked out of {names}, but it is masked there already; name an edge"
                " that the model may use"
            )

    def check_axis(self, axis: str, positions: list[int], names: str) -> None:
        ranges = self.ranges[axis]
        lowest, highest = min(first for first, _ in ranges), max(last for _, last in ranges)
        for position in positions:
            if not any(in_range(position, *some) for some in ranges):
                raise Misfit(
                    f"{axis} {position} was to be knocked out of {names}, but the {PLURAL[axis]} there are {lowest} to"
                    f" {highest}; count from 0, or back from -1"
                )


def in_range(position: int, first: int, last: int) -> bool:
    return first <= position <= last if position >= 0 else position >= first - last - 1


class EdgeAblator(AttentionListener):
    """Decides which edges of each attention to cut, and reports at the end those that never ran."""

    cuts_edges = True

    def __init__(self, model: nn.Module, edges: list[Edge], how: How) -> None:
        self.edges, self.how = [AblatedEdge(edge) for edge in edges], how
        self.names, self.positions = AttentionNames(model), CallPositions()
        self.runs_before = CAPTURE.runs
        self.asked: set[str] = set()  # attentions that were asked for the edges to cut, and are not reported yet

    def edges_to_cut(self, problem: Problem, modules: list[nn.Module], order: int) -> EdgeCut | None:
        name = self.names.attention_name(modules, order)
        if name is None:
            return None
        self.asked.add(name)
        firsts = self.positions.first_positions(name, modules[-1] if modules else None, problem)
        boxes = [ablated.make_box(problem, firsts) for ablated in self.edges if ablated.edge.covers(name)]
        to_cut = tuple(box for box in boxes if box is not None)
        if not to_cut:
            return None
        return EdgeCut(before=to_cut) if self.how == "before" else EdgeCut(after=to_cut)

    def on_attention(self, captured: CapturedAttention | Unreadable, modules: list[nn.Module], order: int) -> None:
        name = self.names.record(modules, order)
        if name is None:
            return
        out_of_reach = isinstance(captured, Unreadable) or name not in self.asked
        if out_of_reach and any(ablated.edge.covers(name) for ablated in self.edges):
            is_compiled = any(hasattr(module, "_orig_mod") for module in modules)
            raise Misfit(f"edges of {name!r} were to be knocked out, but {COMPILED if is_compiled else NOT_CUT}")
        self.asked.discard(name)

    def check_reached(self, unseen: list[UnseenAttention]) -> None:
        """Raise an error for attention that was to lose edges, and was not seen."""
        missed = [one for one in unseen if one.evidence == "strong"]
        missed = [one for one in missed if any(ablated.edge.covers(one.name) for ablated in self.edges)]
        if missed:
            raise Misfit(
                f"edges were to be knocked out of attention that could not be reached: {group_by_reason(missed)}; name"
                " the layers that you mean with layer=…"
            )

    def check_all_ran(self) -> None:
        """Raise an error for everything that was to be knocked out and never ran."""
        self.names.check_any_ran()
        for ablated in self.edges:
            ablated.check(list(dict.fromkeys(self.names.ran)))


def is_any_visible(problem: Problem, box: EdgeBox) -> bool:
    """Whether the attention may use any of these edges; a box too large to check counts as visible."""
    indices = [range(size) if some is None else some for some, size in zip(box, problem.shape, strict=True)]
    if math.prod(len(some) for some in indices) > MAX_CHECKED:
        return True
    visible = visible_edges(problem, *(torch.tensor(some, device=problem.Q.device) for some in indices))
    return visible is None or bool(visible.any())


def visible_edges(problem: Problem, *indices: Tensor) -> Tensor | None:
    """True where a query may attend to a key, for some indices of each axis or all; None if nothing is masked."""
    region = Region(problem.shape, *indices, device=problem.Q.device)
    visible = None if problem.mask is None else problem.mask.materialize(region)
    if isinstance(problem.bias, TensorBias | SparseBias):
        unmasked = problem.bias.materialize(region) > masked_threshold(problem.bias.source.dtype)
        visible = unmasked if visible is None else visible & unmasked
    return visible


class CallPositions:
    """Where the queries and keys of each call are in the whole sequence, when a text grows step by step.

    The queries of self-attention are its last positions: with a cache, keys − queries came before them. Those of
    cross-attention are where the self-attention before them is, whatever they attend to.
    """

    def __init__(self) -> None:
        self.ended: dict[str, tuple[int, int]] = {}  # one past the last query, and the keys, of names that began at 0
        self.latest = (0, 0)  # how many queries the last self-attention had, and where they began

    def first_positions(self, name: str, module: nn.Module | None, problem: Problem) -> tuple[int, int]:
        """The positions of the first query and of the first key."""
        queries, keys = problem.shape[2:]
        if isinstance(module, nn.MultiheadAttention):
            return 0, 0  # it has no cache
        crosses = is_cross(name) or getattr(module, "is_cross_attention", False) is True or queries > keys
        first = None if crosses else self.self_attention_start(name, problem)
        if first is None:
            return (self.latest[1] if self.latest[0] == queries else 0), 0
        self.latest = (queries, first[0])
        if queries == keys or name in self.ended:
            self.ended[name] = (first[0] + queries, keys)
        return first

    def self_attention_start(self, name: str, problem: Problem) -> tuple[int, int] | None:
        """The same for self-attention; None if it can only be cross-attention."""
        queries, keys = problem.shape[2:]
        if queries == keys:
            return 0, 0
        last_keys = last_visible_keys(problem)
        if queries > 1 and (last_keys is None or bool((last_keys == last_keys[0]).all())):
            return None  # new tokens that all see the same keys would look ahead
        first = keys - queries if last_keys is None else int((last_keys - torch.arange(queries)).max())
        end, keys_before = self.ended.get(name, (0, 0))
        if keys <= keys_before and first == keys - queries and end > first:
            return end, end + queries - keys  # a cache that drops all but a window
        return first, 0


def last_visible_keys(problem: Problem) -> Tensor | None:
    """The last key that each query may attend to, in any head of any sequence; None if nothing is masked."""
    queries, keys = problem.shape[2:]
    for mask in () if problem.mask is None else problem.mask.conjuncts():
        if isinstance(mask, Causal):
            start = keys - queries if mask.start is None else mask.start
            return torch.arange(start, start + queries)
    visible = visible_edges(problem)
    if visible is None:
        return None
    visible = visible.expand(*visible.shape[:2], queries, keys).flatten(0, 1).any(dim=0).cpu()
    return torch.where(visible, torch.arange(keys), -1).amax(dim=-1)
