"""Flow: how much could go from an output row to each input token if weights were pipes (Abnar & Zuidema 2020)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.blocks import Block, Index, numbers
from transom.lens.asked import Asked, places
from transom.lens.measuring.chain import SOURCE, TARGET, Chain, chained, heads_of
from transom.lens.measuring.rollout import Layers, Rollout, check_residual, names
from transom.lens.measuring.row_bands import mean_weights
from transom.lens.trace import Trace
from transom.names import Misfit

LARGEST = 30_000  # edges: a maximum flow through so many takes a fraction of a second, and each pair wants one
WHOLE = 2**40  # capacities are whole numbers of its parts: in floating point a search may never end
Node = tuple[str, int, int]  # sequence, depth from the last layer, place


def flow(
    trace: Trace,
    rows: Asked = -1,
    layers: Layers = None,
    heads: Asked | dict[str, Asked] = None,
    batch: int = 0,
    residual: float = 0.5,
) -> Rollout:
    """The maximum flow from each asked row to each token, with residual · I + (1 − residual) · A as capacities.

    The arguments are those of `rollout`. A row need not sum to 1: each token's flow is found as if it were the only
    one wanted. It is for small graphs: layers × tokens² may have 30,000 edges.
    """
    import networkx
    from networkx.algorithms.flow import build_residual_network, preflow_push

    check_residual(residual)
    chain = chained(trace, layers)
    check_size(chain)
    edges, depths = pipes(chain, heads, batch, residual)
    graph: Any = networkx.DiGraph()
    graph.add_edges_from((above, below, {"capacity": round(share * WHOLE)}) for (above, below), share in edges.items())
    remaining = build_residual_network(graph, "capacity")
    picked = torch.arange(chain.target)[places(rows, "queries", chain.target, torch.device("cpu"))].tolist()

    def found(side: str, size: int) -> Float[Tensor, "rows keys"]:
        values = torch.zeros((len(picked), size), dtype=torch.float64)
        for line, row in enumerate(picked):
            for place in range(size):
                ends = (TARGET, 0, row), (side, depths[side], place)
                if all(end in graph for end in ends):
                    most = networkx.maximum_flow_value(graph, *ends, flow_func=preflow_push, residual=remaining)
                    values[line, place] = most / WHOLE
        return values

    sources = found(SOURCE, chain.source) if chain.source else None
    return Rollout(picked, found(TARGET, chain.target), sources, names(chain))


def check_size(chain: Chain) -> None:
    count = sum(link.sight.problem.whole[2] * (link.sight.problem.whole[3] + 1) for link in chain.links)
    if count > LARGEST:
        raise Misfit(
            f"flow is for small graphs of up to {LARGEST} edges, but these {len(chain.links)} attentions have {count};"
            " choose layers=… or a shorter text, or take rollout"
        )


def pipes(
    chain: Chain, heads: Any, batch: int, residual: float
) -> tuple[dict[tuple[Node, Node], float], dict[str, int]]:
    """Each edge with its share, and how deep each sequence goes."""
    edges: dict[tuple[Node, Node], float] = {}
    depths = {TARGET: 0, SOURCE: 0}
    for link in chain.links:
        above = depths[link.rows_of]
        depths[link.rows_of] += 1
        below = depths[link.keys_of]
        left = torch.ones(link.sight.problem.whole[2], dtype=torch.float64)  # what a row gives to no key
        for band, weights in mean_weights(link.sight, batch, heads_of(heads, link.name)):
            weights = weights.cpu()
            left[band.rows] -= weights.sum(dim=1)
            top, first = (numbers(index, size, weights.device) for index, size in spans(band))
            for i, j in weights.nonzero().tolist():
                ends = (link.rows_of, above, int(top[i])), (link.keys_of, below, int(first[j]))
                edges[ends] = (1.0 - residual) * float(weights[i, j])
        for row, rest in enumerate(left.clamp_min(0.0).tolist()):
            ends = (link.rows_of, above, row), (link.rows_of, depths[link.rows_of], row)
            edges[ends] = edges.get(ends, 0.0) + residual + (1.0 - residual) * rest
    return edges, depths


def spans(band: Block) -> list[tuple[Index, int]]:
    """Rows and columns of a band, each with its size."""
    return [(band.rows, band.whole[2]), (band.columns, band.whole[3])]
