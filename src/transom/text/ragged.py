"""Many rows of tokens, each of its own length, in one flat array."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import SupportsIndex

import numpy as np
from jaxtyping import Int

from transom.names import Misfit

MOST = 2**31 - 1


class Ragged:
    """Rows of tokens, packed: `rows[i]` is a view into one array of four bytes a token, not a list of objects.

    flat      all tokens, row after row
    offsets   where each row starts, and at the end where the last one stops
    """

    def __init__(self, flat: Int[np.ndarray, " any"], offsets: Int[np.ndarray, " any2"]) -> None:
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(flat) or (np.diff(offsets) < 0).any():
            raise Misfit(
                f"offsets must rise from 0 to the {len(flat)} tokens, one more than there are rows, but they do not;"
                " use Ragged.from_lists"
            )
        self.flat, self.offsets = flat, offsets

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int] | np.ndarray]) -> "Ragged":
        """Pack rows as they come; an iterator is enough."""
        flat, offsets = array("i"), array("q", [0])
        for row in rows:
            try:
                flat.extend(row)
            except (OverflowError, TypeError) as error:
                raise Misfit(
                    f"a token must be a whole number from 0 to {MOST}, but row {len(offsets) - 1} has something else;"
                    " encode the text first"
                ) from error
            offsets.append(len(flat))
        return cls(np.frombuffer(flat, np.int32) if flat else np.zeros(0, np.int32), np.frombuffer(offsets, np.int64))

    @property
    def lengths(self) -> Int[np.ndarray, " any"]:
        return np.diff(self.offsets)

    def chosen(self, places: Sequence[int] | Int[np.ndarray, " batch"]) -> "Ragged":
        """These rows alone, in this order."""
        return Ragged.from_lists(self[place] for place in places)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, place: SupportsIndex) -> Int[np.ndarray, " token"]:
        place = index(place)
        if not -len(self) <= place < len(self):
            raise IndexError(f"there are {len(self)} rows, so {place} is none of them")
        place %= len(self)
        return self.flat[self.offsets[place] : self.offsets[place + 1]]

    def __iter__(self) -> Iterator[Int[np.ndarray, " token"]]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows, {len(self.flat)} tokens)"
