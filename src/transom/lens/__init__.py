"""Looking into attention: a Sight is one attention, kept so that any number of it can be asked for; a Trace a run's."""

from transom.lens.glance import Glance
from transom.lens.grids import Grid
from transom.lens.labels import Labels
from transom.lens.pooled import Map
from transom.lens.receipt import Receipt
from transom.lens.sight import Sight, sight
from transom.lens.statistics import Statistics, Top
from transom.lens.trace import Trace
from transom.lens.watch import watch

__all__ = ["Glance", "Grid", "Labels", "Map", "Receipt", "Sight", "Statistics", "Top", "Trace", "sight", "watch"]
