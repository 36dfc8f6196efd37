"""Looking into attention: a Sight is one attention, kept so that any number of it can be asked for; a Trace a run's."""

from transom.lens.edge import Edge
from transom.lens.effect import effect
from transom.lens.effect_table import Effect, EffectTable, Rule
from transom.lens.glance import Glance
from transom.lens.grids import Grid
from transom.lens.knock_out import knock_out
from transom.lens.labels import Labels
from transom.lens.pooled import Map
from transom.lens.receipt import Receipt
from transom.lens.replay import Recorder, Replay
from transom.lens.sight import Sight, sight
from transom.lens.statistics import Statistics, Top
from transom.lens.trace import Trace
from transom.lens.watch import watch

__all__ = [
    "Edge",
    "Effect",
    "EffectTable",
    "Glance",
    "Grid",
    "Labels",
    "Map",
    "Receipt",
    "Recorder",
    "Replay",
    "Rule",
    "Sight",
    "Statistics",
    "Top",
    "Trace",
    "effect",
    "knock_out",
    "sight",
    "watch",
]
