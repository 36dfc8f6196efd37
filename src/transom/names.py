"""The axis words of Transom, how a shape is spelled in an error, and what can be drawn."""

import operator
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

AXES = {
    "batch": "independent sequences",
    "token": "positions of one sequence",
    "source": "positions of the other sequence, in cross-attention",
    "heads": "attention heads of the queries",
    "kv_heads": "heads of the keys and values; divides heads",
    "group": "query heads that share one head of keys and values",
    "queries": "rows: the positions one looks from",
    "keys": "columns: the positions one looks at",
    "rows": "the queries of one block",
    "columns": "the keys of one block",
    "d_head": "width of a query and of a key",
    "d_value": "width of a value",
    "d_model": "width of a token's vector between layers",
    "d_out": "width of a layer's output",
    "d_slice": "width of the part of a token's vector that a narrow head sees",
    "d_hidden": "width inside the feed-forward part, or inside additive similarity",
    "pairs": "pairs of numbers that rotary positions turn",
    "distances": "the distances a relative bias tells apart",
    "vocabulary": "the tokens a model knows",
    "labels": "the classes a classifier tells apart",
    "any": "an axis of which only the place matters",
}


class Misfit(ValueError):
    """Something given does not fit: says what was expected, what came, and the way out."""


def format_shape(shape: object, axes: str) -> str:
    """A shape with its axis words: `(batch=2, token=5, d_model=7)`; `shape` is a tensor or a sequence of sizes."""
    sizes: Sequence[int] = tuple(getattr(shape, "shape", shape))  # pyright: ignore[reportArgumentType]
    words = axes.split()
    if len(words) != len(sizes):
        return f"({', '.join(str(size) for size in sizes)})"
    return f"({', '.join(f'{word}={size}' for word, size in zip(words, sizes, strict=True))})"


def integer_or_none(value: object) -> int | None:
    """A whole number of Python, numpy or torch as an int; None for anything else, True and False included."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
        return None
    try:
        return operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return None


def check_index(index: object, axis: str, size: int) -> int:
    """An index into an axis as a number from 0 on; a negative one counts from the end."""
    number = integer_or_none(index)
    if number is None:
        raise Misfit(f"{axis} are asked for by whole numbers, but got {index!r:.60}; count from 0")
    if not size:
        raise Misfit(f"there are {axis}=0, so {number} is none of them; there is nothing to look at")
    if not -size <= number < size:
        raise Misfit(
            f"there are {axis}={size}, so {number} is none of them; count from 0 to {size - 1}, or back from -1"
        )
    return number % size


def count_noun(count: int, what: str) -> str:
    """`1 token`, `2,000 tokens`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


class Drawable:
    """Something with pictures: `show` shows one, and a notebook shows it of itself.

    What draws it is in a higher room, which this one may not import: the package says where it is.
    """

    drawn_by: ClassVar[str] = ""  # a module with `display(thing, view, **options)` and `bundle(thing)`
    paged_by: ClassVar[str] = ""  # a module with `page_of(trace, name)`

    def show(self, view: str | None = None, **options: Any) -> Any:
        """A picture of it, inline in a notebook and as text in a terminal; `transom.draw` gives the picture itself.

        In a notebook a Trace shows its page, and returns a view of it: `view.selection` is what is chosen there.
        """
        return import_module(self.drawn_by).display(self, view, **options)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return import_module(self.drawn_by).bundle(self)

    def _repr_html_(self) -> str | None:
        return self._repr_mimebundle_().get("text/html")
