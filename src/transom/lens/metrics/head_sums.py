"""Sums of the measures over the rows of many runs: exact in any order."""

import math
from collections.abc import Iterable, Sequence

import msgspec

from transom.names import Misfit

MOST_HEADS = 2**16
LARGEST_SUM = 2**512
UNIT = 2.0**64  # sums are whole numbers of 1 / UNIT: adding them is exact in any order


class LayerSums(msgspec.Struct, forbid_unknown_fields=True):
    """The sums of one attention: for each measure a number per head, and how many rows it covers.

    sums      in units of 2⁻⁶⁴
    missing   why a measure cannot be computed, by its name
    """

    heads: int
    cross: bool
    sums: dict[str, list[int]] = {}
    counts: dict[str, list[int]] = {}
    missing: dict[str, str] = {}

    def add(self, measure: str, sums: Sequence[float], counts: Sequence[int], name: str) -> None:
        """Add more rows of a measure; `name` is that of the attention."""
        if not all(map(math.isfinite, sums)):
            raise Misfit(f"{measure!r} of {name!r} is not a number; look at what the model was given")
        self.add_units(measure, [int(number * UNIT) for number in sums], counts)

    def add_units(self, measure: str, sums: Sequence[int], counts: Sequence[int]) -> None:
        for totals, more in ((self.sums, sums), (self.counts, counts)):
            old = totals.get(measure, [0] * self.heads)
            totals[measure] = [total + number for total, number in zip(old, more, strict=True)]

    def merge(self, other: "LayerSums", name: str) -> None:
        """Add the sums of the same attention in other runs."""
        if (self.heads, self.cross) != (other.heads, other.cross):
            raise Misfit(
                f"{name!r} has heads={self.heads} in one and heads={other.heads} in the other; these are of different"
                " models, so measure them apart"
            )
        for measure, sums in other.sums.items():
            self.add_units(measure, sums, other.counts[measure])
        self.missing.update(other.missing)

    def check(self, name: str) -> None:
        """Raise an error unless each list has one number per head, within its bounds."""
        if not 1 <= self.heads <= MOST_HEADS:
            raise Misfit(f"{name!r} should have 1 to {MOST_HEADS} heads, but it says another number")
        for measure in self.sums.keys() | self.counts.keys():
            sums, counts = self.sums.get(measure, ()), self.counts.get(measure, ())
            if not self.heads == len(sums) == len(counts):
                raise Misfit(f"{name!r} should have {self.heads} sums and counts of {measure!r}, but it has not")
            if any(abs(number) > LARGEST_SUM for number in (*sums, *counts)):
                raise Misfit(f"{name!r} should have sums and counts of {measure!r} that can be, but one is too large")

    def count(self, measure: str, head: int) -> int:
        """How many rows a head's mean covers."""
        return self.counts[measure][head] if measure in self.counts else 0

    def mean(self, measure: str, head: int) -> float | None:
        """A head's measure; None if no row counts."""
        count = self.count(measure, head)
        return self.sums[measure][head] / (count * UNIT) if count else None


class HeadSums(msgspec.Struct, forbid_unknown_fields=True):
    """The sums of every attention, in the order in which they ran."""

    measures: list[str]
    layers: dict[str, LayerSums] = {}
    unseen: str = ""  # what the runs do not show, in a line

    def layer(self, name: str, heads: int, cross: bool) -> LayerSums:
        """The sums of one attention, zero at first."""
        layer = self.layers.setdefault(name, LayerSums(heads, cross))
        if layer.heads != heads:
            raise Misfit(
                f"{name!r} ran with heads={layer.heads} and with heads={heads}; measure such runs one at a time"
            )
        return layer

    def merge(self, other: "HeadSums") -> None:
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
        self.unseen = self.unseen or other.unseen
        for name, layer in other.layers.items():
            self.layer(name, layer.heads, layer.cross).merge(layer, name)

    @classmethod
    def merge_all(cls, parts: Iterable["HeadSums"]) -> "HeadSums":
        """The sums of all parts; the same in any order."""
        parts = list(parts)
        if not parts:
            raise Misfit("there should be sums to join, but none came; name one file or more")
        total = cls(parts[0].measures)
        for part in parts:
            total.merge(part)
        return total

    def check(self) -> None:
        if len(set(self.measures)) < len(self.measures):
            raise Misfit("its measures should be different ones, but one comes twice")
        for name, layer in self.layers.items():
            layer.check(name)
