"""The words that stand beside the attentions of one run: a trace and all of its Sights share them."""

from dataclasses import dataclass

from transom.lens.grids import Grid

Tokens = list[list[str]]


@dataclass(eq=False)
class Beside:
    """Words of each sequence, those that a decoder beside an encoder reads, and the patches of an image; if known."""

    tokens: Tokens | None = None
    targets: Tokens | None = None
    grid: Grid | None = None
