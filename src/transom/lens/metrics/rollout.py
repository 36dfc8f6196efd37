"""Rollout and flow: what each output row may hold of each token, through all layers (Abnar & Zuidema 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.lens.attention.indexing import AxisIndex, resolve_index
from transom.lens.attention.labels import in_decoder, is_cross
from transom.lens.attention.record import mean_weights
from transom.lens.attention.sight import AnySight, Sight
from transom.lens.trace import Trace, layer_matches, suggest_names
from transom.lens.unseen_attention import UnseenAttention, unseen_note
from transom.names import Misfit

TARGET, SOURCE = "target", "source"
MOST_EDGES = 30_000  # a maximum flow through so many takes a fraction of a second, and each pair needs one
CAPACITY_UNITS = 2**40  # capacities are whole numbers of 1 / 2⁴⁰: in floating point a search may never end
Layers = Sequence[str | int] | str | int | None
Heads = AxisIndex | dict[str, AxisIndex]  # the same in every attention, or by its name
Node = tuple[str, int, int]  # sequence, depth from the last layer, position


@dataclass(frozen=True, eq=False)
class ChainLink:
    """One attention: the sequence of its queries, and that of its keys."""

    name: str
    sight: Sight
    rows_of: str
    keys_of: str


@dataclass(frozen=True, eq=False)
class LayerChain:
    """The attentions from the last to the first, and the length of each sequence; `source` is 0 if there is none."""

    links: list[ChainLink]
    target: int
    source: int

    @property
    def names(self) -> list[str]:
        return [link.name for link in self.links]


@dataclass(frozen=True, eq=False)
class Rollout:
    """The share of each token in each chosen row; a row sums to 1 over `keys` and `sources` together.

    rows      which rows of the last layer
    keys      the tokens of the sequence itself; in an encoder–decoder those the decoder reads
    sources   the tokens of the source, in an encoder–decoder
    layers    the attentions it went through, from the last to the first
    unseen    the attention of the model that it could not go through
    """

    rows: list[int]
    keys: Float[Tensor, "rows keys"]
    sources: Float[Tensor, "rows source"] | None
    layers: list[str]
    unseen: tuple[UnseenAttention, ...] = ()

    def __repr__(self) -> str:
        sources = "" if self.sources is None else f", sources={self.sources.shape[1]}"
        note = unseen_note(self.unseen)
        layers = f"layers={len(self.layers)}{f'. {note}' if note else ''}"
        return f"Rollout(rows={len(self.rows)}, keys={self.keys.shape[1]}{sources}, {layers})"


def rollout(
    trace: Trace,
    rows: AxisIndex = None,
    layers: Layers = None,
    heads: Heads = None,
    batch: int = 0,
    residual: float = 0.5,
) -> Rollout:
    """The weights of all layers multiplied, each as residual · I + (1 − residual) · A (arXiv 2005.00928, section 3.2).

    rows       of the last layer; all by default. Each costs one vector per layer, never a matrix
    layers     as in `watch`: only these attentions; all by default
    heads      whose mean is taken: all by default, the same ones in every layer, or a dict by name
    batch      which sequence
    residual   the share that stays with the token itself

    Weight that a row gives to no key (it is fully masked, or a sink without a key takes it) stays with the row too.
    """
    chain, chosen = build_chain(trace, layers, residual, rows)
    shares = {
        TARGET: torch.zeros((len(chosen), chain.target), dtype=torch.float64).scatter_(1, chosen[:, None], 1.0),
        SOURCE: torch.zeros((len(chosen), chain.source), dtype=torch.float64),
    }
    for link in chain.links:
        held = shares[link.rows_of]
        moved, left = pass_down(held, link, heads, batch)
        shares[link.rows_of] = residual * held + (1.0 - residual) * left
        shares[link.keys_of] = shares[link.keys_of] + (1.0 - residual) * moved
    sources = shares[SOURCE] if chain.source else None
    return Rollout(chosen.tolist(), shares[TARGET], sources, chain.names, tuple(trace.unseen))


def flow(
    trace: Trace,
    rows: AxisIndex = -1,
    layers: Layers = None,
    heads: Heads = None,
    batch: int = 0,
    residual: float = 0.5,
) -> Rollout:
    """The maximum flow from each chosen row to each token, with residual · I + (1 − residual) · A as capacities.

    The arguments are those of `rollout`. A row need not sum to 1: the flow to each token is found as if it were the
    only one. Only for small graphs: layers × tokens² may have 30,000 edges.
    """
    import networkx
    from networkx.algorithms.flow import build_residual_network, preflow_push

    chain, chosen = build_chain(trace, layers, residual, rows)
    check_edge_count(chain)
    edges, depths = flow_capacities(chain, heads, batch, residual)
    graph: Any = networkx.DiGraph()
    graph.add_edges_from(
        (above, below, {"capacity": round(share * CAPACITY_UNITS)}) for (above, below), share in edges.items()
    )
    residual_network = build_residual_network(graph, "capacity")

    def max_flows(side: str, size: int) -> Float[Tensor, "rows keys"]:
        values = torch.zeros((len(chosen), size), dtype=torch.float64)
        for i, row in enumerate(chosen.tolist()):
            for j in range(size):
                ends = (TARGET, 0, row), (side, depths[side], j)
                if all(end in graph for end in ends):
                    units = networkx.maximum_flow_value(graph, *ends, flow_func=preflow_push, residual=residual_network)
                    values[i, j] = units / CAPACITY_UNITS
        return values

    sources = max_flows(SOURCE, chain.source) if chain.source else None
    return Rollout(chosen.tolist(), max_flows(TARGET, chain.target), sources, chain.names, tuple(trace.unseen))


def build_chain(
    trace: Trace, layers: Layers, residual: float, rows: AxisIndex
) -> tuple[LayerChain, Int[Tensor, " rows"]]:
    """The chosen attentions of a trace, once they fit together, and the chosen rows of the last one."""
    if not 0.0 <= residual <= 1.0:
        raise Misfit(f"residual is a share from 0 to 1, but got {residual}; 0.5 weighs both alike")
    entries = select_layers(trace, [layers] if isinstance(layers, str | int) else layers)
    has_cross = any(is_cross(name) for name, _ in entries)
    links = [make_link(name, view, has_cross) for name, view in reversed(entries)]
    sizes: dict[str, int] = {}
    for link in links:
        for side, size in zip((link.rows_of, link.keys_of), link.sight.shape[2:], strict=True):
            if sizes.setdefault(side, size) != size:
                raise Misfit(
                    f"each attention of the chain should see the whole {side} of {sizes[side]} tokens, but"
                    f" {link.name!r} sees {size}; run the model once over all tokens, without a cache, or choose"
                    " layers=…"
                )
    chain = LayerChain(links, sizes.get(TARGET, 0), sizes.get(SOURCE, 0))
    return chain, torch.arange(chain.target)[resolve_index(rows, "queries", chain.target, torch.device("cpu"))]


def select_layers(trace: Trace, layers: Sequence[str | int] | None) -> list[tuple[str, AnySight]]:
    """The attentions of these layers, each of which ran once."""
    entries = [
        (name, view)
        for name, view in trace.items()
        if layers is None or any(layer_matches(layer, name) for layer in layers)
    ]
    names = [name for name, _ in entries]
    for layer in layers or ():
        if not any(layer_matches(layer, name) for name in names):
            raise Misfit(f"no attention ran in layer {layer!r}; {suggest_names(str(layer), trace.names)}")
    if not entries:
        raise Misfit("a chain of attentions needs one or more, but the trace holds none; watch a run first")
    for name in names:
        if names.count(name) > 1:
            raise Misfit(
                f"{name!r} ran {names.count(name)} times, so the run is no chain of layers; run the model once over all"
                " tokens, without a cache"
            )
    return entries


def make_link(name: str, view: AnySight, has_cross: bool) -> ChainLink:
    """One attention of a chain; without cross-attention there is only one sequence."""
    if view.full is None:
        raise Misfit(f"of {name!r} only statistics were kept, but its weights are needed; watch with keep='qkv'")
    rows_of = TARGET if not has_cross or in_decoder(name) else SOURCE
    return ChainLink(name, view.full, rows_of, SOURCE if is_cross(name) else rows_of)


def heads_of(heads: Heads, name: str) -> AxisIndex:
    """The heads chosen for one attention; all if a dict does not name it."""
    return heads.get(name) if isinstance(heads, dict) else heads


def pass_down(
    held: Float[Tensor, "rows queries"], link: ChainLink, heads: Heads, batch: int
) -> tuple[Float[Tensor, "rows keys"], Float[Tensor, "rows queries"]]:
    """held @ A, a block of rows at a time, and what the rows gave to no key."""
    moved = held.new_zeros((len(held), link.sight.shape[3]))
    left = held.clone()
    for block, weights in mean_weights(link.sight, batch, heads_of(heads, link.name)):
        part = held[:, block.rows]
        if part.any():  # rows with nothing to pass on are skipped
            weights = weights.cpu()
            moved[:, block.columns] += part @ weights
            left[:, block.rows] = part * (1.0 - weights.sum(dim=1)).clamp_min(0.0)
    return moved, left


def check_edge_count(chain: LayerChain) -> None:
    count = sum(link.sight.shape[2] * (link.sight.shape[3] + 1) for link in chain.links)
    if count > MOST_EDGES:
        raise Misfit(
            f"flow is for small graphs of up to {MOST_EDGES} edges, but these {len(chain.links)} attentions have"
            f" {count}; choose layers=… or a shorter text, or take rollout"
        )


def flow_capacities(
    chain: LayerChain, heads: Heads, batch: int, residual: float
) -> tuple[dict[tuple[Node, Node], float], dict[str, int]]:
    """The capacity of each edge, and the depth of each sequence."""
    edges: dict[tuple[Node, Node], float] = {}
    depths = {TARGET: 0, SOURCE: 0}
    for link in chain.links:
        above = depths[link.rows_of]
        depths[link.rows_of] += 1
        below = depths[link.keys_of]
        left = torch.ones(link.sight.shape[2], dtype=torch.float64)  # what a row gives to no key
        for block, weights in mean_weights(link.sight, batch, heads_of(heads, link.name)):
            weights = weights.cpu()
            left[block.rows] -= weights.sum(dim=1)
            rows, keys = block.query_positions(0)[:, 0].tolist(), block.key_positions()[0].tolist()
            for i, j in weights.nonzero().tolist():
                ends = (link.rows_of, above, rows[i]), (link.keys_of, below, keys[j])
                edges[ends] = (1.0 - residual) * float(weights[i, j])
        for row, unused in enumerate(left.clamp_min(0.0).tolist()):
            ends = (link.rows_of, above, row), (link.rows_of, depths[link.rows_of], row)
            edges[ends] = edges.get(ends, 0.0) + residual + (1.0 - residual) * unused
    return edges, depths
