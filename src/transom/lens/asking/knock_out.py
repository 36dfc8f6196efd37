"""Knocking edges out: a model runs as if a row could not look at a key, and what changes is what the edge was for."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import nn

from transom.equations.biases import GivenBias
from transom.equations.blocks import Block
from transom.equations.edges import Box
from transom.lens.asking.cut import Cut, lowest
from transom.lens.asking.edge import Edge, Layer, Places, asked, local
from transom.lens.asking.knocked import Record
from transom.lens.asking.standing import Standing
from transom.lens.hearing.copies import Copies
from transom.lens.hearing.ear import Outline
from transom.lens.hearing.heard import Heard
from transom.lens.hearing.interception import listening
from transom.lens.trace import Trace
from transom.lens.watch import ModelWatcher, check_seen
from transom.names import Misfit

HOWS = ("before", "after")
LOOKED_INTO = 2**20  # edges of a box that are asked one by one whether they were open

How = Literal["before", "after"]


@contextmanager
def knock_out(
    model: nn.Module,
    layer: Layer = None,
    head: Places = None,
    query: Places = None,
    key: Places = None,
    *,
    edges: Sequence["Edge | tuple[Layer, Places, Places, Places]"] | None = None,
    batch: Places = None,
    how: How = "before",
) -> Iterator[None]:
    """While the block runs, the model's attention goes without these edges; what is not said is all of it.

    layer        a number (3 is any path with a part "3"), a path, its beginning, a pattern with *, or several of them
    head, query, key, batch
                 a number, a range, a slice or a list; −1 is the last; positions are those of the whole sequence
    edges        a set of edges instead, each (layer, head, query, key) or an Edge
    how          "before" the softmax (the row's other keys share the weight), or "after" it (the weight is lost)
    """
    if not isinstance(model, nn.Module):
        raise Misfit(f"knock_out takes a torch.nn.Module, but got {type(model).__name__}; give the model itself")
    if how not in HOWS:
        raise Misfit(f'how must be "before" or "after" the softmax, but got {how!r}; before lets other keys take over')
    knocker = Knocker(model, asked(Edge(layer, head, query, key, batch), edges), how)
    with listening(knocker, knocker):
        yield
    knocker.finished()


class Knocker:
    """Says of each attention which of its edges are to be cut, and remembers what it found, to complain at the end."""

    def __init__(self, model: nn.Module, edges: list[Edge], how: How) -> None:
        self.model, self.edges, self.how = model, edges, how
        self.names = ModelWatcher(model, Trace(), None, "qkv", Copies(None))
        self.standing = Standing()
        self.records = [Record() for _ in edges]
        self.cutting = ""  # the attention that was asked about last

    def cut(self, outline: Outline, modules: list[nn.Module], order: int) -> Cut | None:
        name = self.names.place(modules, order)
        if name is None:
            return None
        firsts = self.standing.firsts(name, modules[-1] if modules else None, outline)
        self.cutting = name
        pairs = zip(self.edges, self.records, strict=True)
        found = [self.box(edge, record, outline, firsts) for edge, record in pairs if edge.covers(name)]
        boxes = tuple(box for box in found if box is not None)
        if not boxes:
            return None
        if outline.compiled:
            raise Misfit(
                f"edges of {name!r} were to be knocked out, but it is compiled; knock them out of the model as it was"
                " before torch.compile, which has the same parameters"
            )
        return Cut(before=boxes) if self.how == "before" else Cut(after=boxes)

    def box(self, edge: Edge, record: Record, outline: Outline, firsts: tuple[int, int]) -> Box | None:
        """The edges of this attention that were asked for; None where it has none of them."""
        here = {}
        for (axis, places), first, size in zip(edge.axes.items(), (0, 0, *firsts), outline.whole, strict=True):
            here[axis] = local(places, first, size)
            record.ranges.setdefault(axis, []).append((first, first + size - 1))
        if any(places is not None and not places for places in here.values()):
            return None
        box = Box(*(None if places is None else tuple(places.values()) for places in here.values()))
        record.ran = True
        record.was_open = record.was_open or is_open(outline, box)
        return box

    def hear(self, one: Heard | None, modules: list[nn.Module], order: int) -> None:
        name = self.names.place(modules, order)
        if name is None:
            self.names.foreign += 1
            return
        self.names.ran.append(name)
        if any(edge.covers(name) for edge in self.edges) and (one is None or self.cutting != name):
            raise Misfit(
                f"edges of {name!r} were to be knocked out, but its attention is computed in a form that cannot be cut;"
                ' knock out other layers with layer=…, or load the model with attn_implementation="sdpa"'
            )
        self.cutting = ""

    def finished(self) -> None:
        """Complain about everything that was to be knocked out and never ran."""
        check_seen(self.model, self.names)
        ran = list(dict.fromkeys(self.names.ran))
        for edge, record in zip(self.edges, self.records, strict=True):
            record.check(edge, ran)


def is_open(outline: Outline, box: Box) -> bool:
    """Whether the attention may look along one of these edges at all; a box too large to look into is taken to be."""
    places = [range(size) if held is None else held for held, size in zip(box, outline.whole, strict=True)]
    if torch.Size([len(held) for held in places]).numel() > LOOKED_INTO:
        return True
    device = next((x.device for x in (outline.scores, getattr(outline.bias, "source", None)) if x is not None), None)
    index = [torch.tensor(held, device=device or torch.device("cpu")) for held in places]
    block = Block(outline.whole, *index, device=index[0].device)
    seen = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=block.device)
    if outline.scores is not None:
        seen = block.part(outline.scores) > lowest(outline.scores.dtype)
    if outline.mask is not None:
        seen = seen & outline.mask.seen(block)
    if isinstance(outline.bias, GivenBias):
        seen = seen & (outline.bias.added(block) > lowest(outline.bias.source.dtype))
    return bool(seen.any())
