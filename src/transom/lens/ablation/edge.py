"""An edge, or a box of edges, as people write it: by layer, head, query and key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transom.lens.trace import layer_matches
from transom.names import Misfit

Positions = int | range | slice | Sequence[int] | None
Layer = str | int | range | Sequence[str | int] | None


@dataclass(frozen=True)
class Edge:
    """Edges by layer, head, query, key and sequence of the batch, each one position or several; None is all."""

    layer: Layer = None
    head: Positions = None
    query: Positions = None
    key: Positions = None
    batch: Positions = None

    @property
    def layers(self) -> list[str | int]:
        """The layers it names; none if it means all."""
        if self.layer is None:
            return []
        return [self.layer] if isinstance(self.layer, str | int) else list(self.layer)

    @property
    def axes(self) -> dict[str, Positions]:
        return {"batch": self.batch, "head": self.head, "query": self.query, "key": self.key}

    def covers(self, name: str) -> bool:
        return self.layer is None or any(layer_matches(layer, name) for layer in self.layers)

    def describe(self) -> str:
        """Its positions, for an error."""
        parts = [f"{axis} {positions}" for axis, positions in self.axes.items() if positions is not None]
        return ", ".join(parts) or "all of it"


def parse_edges(edge: Edge, edges: Sequence[object] | None) -> list[Edge]:
    """The edges to knock out: either the one that was named by its parts, or a set of edges."""
    is_named = any(part is not None for part in (edge.layer, *edge.axes.values()))
    if is_named == (edges is not None):
        problem = "both edges and single positions were given" if is_named else "nothing was named"
        raise Misfit(
            f"knock_out takes a layer, head, query or key, or a set of edges, but {problem}; say which to knock out"
        )
    parsed = [edge] if edges is None else [as_edge(item) for item in edges]
    if not parsed:
        raise Misfit("knock_out got an empty set of edges; give at least one (layer, head, query, key)")
    for item in parsed:
        for axis, positions in item.axes.items():
            check_positions(axis, positions)
    return parsed


def as_edge(edge: object) -> Edge:
    if isinstance(edge, Edge):
        return edge
    if isinstance(edge, tuple) and len(edge) == 4:
        return Edge(*edge)
    raise Misfit(f"an edge is (layer, head, query, key), but got {edge!r:.60}; None stands for all of an axis")


def check_positions(axis: str, positions: object) -> None:
    numbers = list_positions(positions)
    is_all = positions is None or isinstance(positions, slice)
    if not (is_all or numbers) or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise Misfit(
            f"{axis} is a number, a range, a slice or a list of numbers, but got {positions!r:.60}; None is all of them"
        )


def list_positions(positions: object) -> list[Any]:
    """The positions that were named one by one; none if all are meant, or a slice."""
    if positions is None or isinstance(positions, slice):
        return []
    return list(positions) if isinstance(positions, range | Sequence) else [positions]


def to_local_positions(positions: Positions, first: int, size: int) -> tuple[int, ...] | None:
    """Which of these positions of the whole sequence one call has, as indices into the call; None is all."""
    if positions is None:
        return None
    if isinstance(positions, slice):
        positions = range(*positions.indices(first + size))
    indices = (position - first if position >= 0 else position + size for position in list_positions(positions))
    return tuple(index for index in dict.fromkeys(indices) if 0 <= index < size)
