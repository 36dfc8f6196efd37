"""What a picture is made of: panels, each plain data that renders itself as text and as SVG; source, notes, numbers."""

import json
import math
from typing import Any

import msgspec

from transom.show.formatting import make_visible
from transom.show.panels.arrows import Arrows
from transom.show.panels.block_diagram import BlockDiagram
from transom.show.panels.charts import Bars, Curves
from transom.show.panels.fold_diagram import FoldDiagram
from transom.show.panels.grid import Grid, Tiles
from transom.show.panels.head_arrows import HeadArrows
from transom.show.panels.plane import Plane
from transom.show.panels.sequence_diagram import SequenceDiagram

Panel = Grid | Arrows | HeadArrows | Bars | Curves | Plane | SequenceDiagram | Tiles | BlockDiagram | FoldDiagram


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the numbers of a picture come from."""

    model: str = ""
    layer: str = ""
    head: str = ""
    receipt: str = ""

    def summary(self) -> str:
        parts = {"model": self.model, "layer": self.layer, "head": self.head, "receipt": self.receipt}
        return " · ".join(f"{name} {make_visible(value)}" for name, value in parts.items() if value)


class Table(msgspec.Struct, frozen=True):
    """The numbers behind a picture, not rounded."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]


class PictureData(msgspec.Struct, frozen=True, kw_only=True):
    """What a Picture holds: the view it comes from, its panels and their source, what is left out, the numbers."""

    view: str
    title: str
    panels: tuple[Panel, ...]
    source: Source = Source()
    notes: tuple[str, ...] = ()
    table: Table = Table((), ())

    def json(self, indent: int | None = None) -> str:
        """The picture as data, in plain ASCII, so that it is safe to print anywhere."""
        return json.dumps(without_infinities(msgspec.to_builtins(self)), indent=indent, allow_nan=False)


def without_infinities(data: Any) -> Any:
    """JSON has no NaN and no infinity: they are written as words."""
    if isinstance(data, dict):
        return {key: without_infinities(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [without_infinities(item) for item in data]
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data
