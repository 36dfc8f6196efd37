"""Sums over the rows of many runs, per layer and head: exact, so that any way of splitting the work gives the same."""

import math
from collections.abc import Iterable, Sequence

import msgspec

from transom.names import Misfit

MOST_HEADS = 2**16
LARGEST_SUM = 2**512
UNIT = 2.0**64  # sums are whole numbers of 1 / UNIT: adding them up is exact in any order


class LayerSums(msgspec.Struct, forbid_unknown_fields=True):
    """The sums of one attention: per measure a number per head, and how many rows it is of.

    sums      in units of 2⁻⁶⁴
    missing   why a measure cannot be had, by its name
    """

    heads: int
    cross: bool
    sums: dict[str, list[int]] = {}
    counts: dict[str, list[int]] = {}
    missing: dict[str, str] = {}

    def add(self, measure: str, sums: Sequence[float], counts: Sequence[int], where: str) -> None:
        """More rows of a measure."""
        if not all(map(math.isfinite, sums)):
            raise Misfit(f"{measure!r} of {where!r} is not a number; look at what the model was given")
        held, rows = (kept.setdefault(measure, [0] * self.heads) for kept in (self.sums, self.counts))
        for head, (more, many) in enumerate(zip(sums, counts, strict=True)):
            held[head] += int(more * UNIT)
            rows[head] += many

    def join(self, other: "LayerSums", where: str) -> None:
        """The same attention in other runs."""
        if (self.heads, self.cross) != (other.heads, other.cross):
            raise Misfit(
                f"{where!r} has heads={self.heads} in one and heads={other.heads} in the other; these are of different"
                " models, so measure them apart"
            )
        for measure, sums in other.sums.items():
            held, rows = (kept.setdefault(measure, [0] * self.heads) for kept in (self.sums, self.counts))
            for head in range(self.heads):
                held[head] += sums[head]
                rows[head] += other.counts[measure][head]
        self.missing.update(other.missing)

    def check(self, where: str) -> None:
        """Complain of lists that do not have one number per head, and of numbers that no sum could have."""
        if not 1 <= self.heads <= MOST_HEADS:
            raise Misfit(f"{where!r} should have 1 to {MOST_HEADS} heads, but it says another number")
        for measure in self.sums.keys() | self.counts.keys():
            sums, counts = self.sums.get(measure, ()), self.counts.get(measure, ())
            if not self.heads == len(sums) == len(counts):
                raise Misfit(f"{where!r} should have {self.heads} sums and counts of {measure!r}, but it has not")
            if any(abs(one) > LARGEST_SUM for one in (*sums, *counts)):
                raise Misfit(f"{where!r} should have sums and counts of {measure!r} that can be, but one is too large")

    def mean(self, measure: str, head: int) -> float | None:
        """A head's measure; None where no row tells it."""
        count = self.counts[measure][head] if measure in self.counts else 0
        return self.sums[measure][head] / (count * UNIT) if count else None


class HeadSums(msgspec.Struct, forbid_unknown_fields=True):
    """The sums of every attention, in the order in which they ran."""

    measures: list[str]
    layers: dict[str, LayerSums] = {}

    def layer(self, name: str, heads: int, cross: bool) -> LayerSums:
        """The sums of one attention, begun at zero."""
        found = self.layers.setdefault(name, LayerSums(heads, cross))
        if found.heads != heads:
            raise Misfit(
                f"{name!r} ran with heads={found.heads} and with heads={heads}; measure such runs one at a time"
            )
        return found

    def join(self, other: "HeadSums") -> None:
        """Add the sums of other runs of the same model."""
        if self.measures != other.measures:
            raise Misfit(
                f"one has the measures {', '.join(self.measures)}, the other {', '.join(other.measures)};"
                " join what was measured alike"
            )
        if self.layers and other.layers and list(self.layers) != list(other.layers):
            raise Misfit(
                f"one has the attentions {', '.join(self.layers):.80}, the other {', '.join(other.layers):.80}; these"
                " are of different models, so measure them apart"
            )
        for name, layer in other.layers.items():
            self.layer(name, layer.heads, layer.cross).join(layer, name)

    def check(self) -> None:
        if len(set(self.measures)) < len(self.measures):
            raise Misfit("its measures should be different ones, but one comes twice")
        for name, layer in self.layers.items():
            layer.check(name)


def joined(parts: Iterable[HeadSums]) -> HeadSums:
    """The sums of all parts; the same whatever their order."""
    found = None
    for part in parts:
        if found is None:
            found = HeadSums(part.measures)
        found.join(part)
    if found is None:
        raise Misfit("there should be sums to join, but none came; name one file or more")
    return found
