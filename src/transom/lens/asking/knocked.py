"""What became of the edges that were to be knocked out, and the error for those that never ran."""

from dataclasses import dataclass, field

from transom.lens.asking.edge import Edge, layers_of, listed, spelled_edge
from transom.lens.trace import nearest, some
from transom.lens.watch import covers
from transom.names import Misfit

PLURAL = {"batch": "sequences", "head": "heads", "query": "queries", "key": "keys"}


@dataclass
class Record:
    """Of one edge, or one box of them: which of the places asked for were there, and which there were."""

    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    ran: bool = False
    was_open: bool = False

    def check(self, edge: Edge, ran: list[str]) -> None:
        """Complain about what was asked for and never ran, or had nothing to lose."""
        for layer in layers_of(edge):
            if not any(covers(layer, name) for name in ran):
                near = nearest(str(layer), ran)
                raise Misfit(f"layer {layer!r} was to be knocked out, but no attention ran in it; {near}")
        names = [name for name in ran if edge.covers(name)]
        for axis, places in edge.axes.items():
            self.check_axis(axis, listed(places), names)
        if not self.ran:
            raise Misfit(
                f"{spelled_edge(edge)} was to be knocked out of {some(names)}, but its query and key were never in one"
                " call; a query looks at the keys that were there when it ran"
            )
        if not self.was_open:
            raise Misfit(
                f"{spelled_edge(edge)} was to be knocked out of {some(names)}, but it is masked there already; name an"
                " edge that the model may look along"
            )

    def check_axis(self, axis: str, places: list[int], names: list[str]) -> None:
        ranges = self.ranges.get(axis, [])
        lowest, highest = min(first for first, _ in ranges), max(last for _, last in ranges)
        for place in places:
            if not any(holds(*one, place) for one in ranges):
                raise Misfit(
                    f"{axis} {place} was to be knocked out of {some(names)}, but the {PLURAL[axis]} there are {lowest}"
                    f" to {highest}; count from 0, or back from -1"
                )


def holds(first: int, last: int, place: int) -> bool:
    return first <= place <= last if place >= 0 else place >= first - last - 1
