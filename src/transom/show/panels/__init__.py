"""What a picture is made of: each kind of panel is plain data that knows how to be written and how to be drawn."""

from transom.show.panels.arrows import Arrow, Arrows
from transom.show.panels.bars import Bars
from transom.show.panels.curves import Curve, Curves
from transom.show.panels.exchange import Exchange, Message
from transom.show.panels.grid import Grid
from transom.show.panels.heat import Heat, heat
from transom.show.panels.plane import Plane, Vector
from transom.show.panels.tiles import Tile, Tiles

Panel = Grid | Arrows | Bars | Curves | Plane | Exchange | Tiles
PANELS = (Grid, Arrows, Bars, Curves, Plane, Exchange, Tiles)

__all__ = [
    "PANELS",
    "Arrow",
    "Arrows",
    "Bars",
    "Curve",
    "Curves",
    "Exchange",
    "Grid",
    "Heat",
    "Message",
    "Panel",
    "Plane",
    "Tile",
    "Tiles",
    "Vector",
    "heat",
]
