"""An edge, or a box of edges: what is asked for by layer, head, query and key, as people write it."""

from collections.abc import Sequence
from dataclasses import dataclass

from transom.lens.watch import covers
from transom.names import Misfit

Places = int | range | slice | Sequence[int] | None
Layer = str | int | range | Sequence[str | int] | None


@dataclass(frozen=True)
class Edge:
    """Edges by layer, head, query and key, each one place or several, and of which sequence; None is all of them."""

    layer: Layer = None
    head: Places = None
    query: Places = None
    key: Places = None
    batch: Places = None

    def covers(self, name: str) -> bool:
        return self.layer is None or any(covers(layer, name) for layer in layers_of(self))

    @property
    def axes(self) -> dict[str, Places]:
        return {"batch": self.batch, "head": self.head, "query": self.query, "key": self.key}


def layers_of(edge: Edge) -> list[str | int]:
    """The layers it names; none where it means all."""
    if edge.layer is None:
        return []
    return [edge.layer] if isinstance(edge.layer, str | int) else list(edge.layer)


def asked(one: Edge, edges: Sequence[object] | None) -> list[Edge]:
    """The edges asked for, however they were written."""
    said = any(part is not None for part in (one.layer, *one.axes.values()))
    if said == (edges is not None):
        what = "both edges and single places came" if said else "nothing was named"
        raise Misfit(
            f"knock_out takes a layer, head, query or key, or a set of edges, but {what}; say which to knock out"
        )
    found = [one] if edges is None else [as_edge(edge) for edge in edges]
    if not found:
        raise Misfit("knock_out got an empty set of edges; give at least one (layer, head, query, key)")
    for edge in found:
        for axis, places in edge.axes.items():
            check_places(axis, places)
    return found


def as_edge(edge: object) -> Edge:
    if isinstance(edge, Edge):
        return edge
    if isinstance(edge, tuple) and len(edge) == 4:
        return Edge(*edge)
    raise Misfit(f"an edge is (layer, head, query, key), but got {edge!r:.60}; None stands for all of an axis")


def check_places(axis: str, places: object) -> None:
    if places is None or isinstance(places, slice):
        return
    several = list(places) if isinstance(places, range | Sequence) and not isinstance(places, str) else [places]
    if not several or not all(isinstance(one, int) and not isinstance(one, bool) for one in several):
        raise Misfit(
            f"{axis} is a number, a range, a slice or a list of numbers, but got {places!r:.60}; None is all of them"
        )


def local(places: Places, first: int, size: int) -> dict[int, int] | None:
    """Of places of the whole sequence, as they were asked for, those of one call: where each of them is in it."""
    if places is None:
        return None
    if isinstance(places, slice):
        places = range(*places.indices(first + size))
    found = {}
    for place in [places] if isinstance(places, int) else places:
        at = place - first if place >= 0 else place + size
        if 0 <= at < size:
            found[place] = at
    return found


def listed(places: object) -> list[int]:
    """The numbers that were asked for by name; a slice asks for whatever is there."""
    if places is None or isinstance(places, slice):
        return []
    return [places] if isinstance(places, int) else list(places)  # pyright: ignore[reportArgumentType]


def spelled_edge(edge: "Edge") -> str:
    parts = [f"{axis} {places}" for axis, places in edge.axes.items() if places is not None]
    return ", ".join(parts) or "all of it"
