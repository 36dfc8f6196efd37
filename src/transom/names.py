"""The axis words of Transom, and how a shape is spelled in an error."""

from collections.abc import Sequence

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


def spelled(shape: object, axes: str) -> str:
    """A shape with its axis words: `(batch=2, token=5, d_model=7)`; `shape` is a tensor or a sequence of sizes."""
    sizes: Sequence[int] = tuple(getattr(shape, "shape", shape))  # pyright: ignore[reportArgumentType]
    words = axes.split()
    if len(words) != len(sizes):
        return f"({', '.join(str(size) for size in sizes)})"
    return f"({', '.join(f'{word}={size}' for word, size in zip(words, sizes, strict=True))})"
