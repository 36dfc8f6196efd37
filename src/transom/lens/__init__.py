"""Looking into attention: a Sight is one attention, kept so that any number of it can be asked for; a Trace a run's."""

from transom.lens.asking.edge import Edge
from transom.lens.asking.effect import effect
from transom.lens.asking.effect_table import Effect, EffectTable, Rule
from transom.lens.asking.knock_out import knock_out
from transom.lens.glance import Glance
from transom.lens.grids import Grid
from transom.lens.labels import Labels
from transom.lens.measuring.difference import Change, Difference, diff
from transom.lens.measuring.flow import flow
from transom.lens.measuring.head_table import HeadRow, HeadTable
from transom.lens.measuring.heads import heads
from transom.lens.measuring.measures import HEADS, Measure, Tally
from transom.lens.measuring.rollout import Rollout, rollout
from transom.lens.measuring.words import Words, by_words
from transom.lens.pooled import Map
from transom.lens.receipt import Receipt
from transom.lens.replay import Recorder, Replay
from transom.lens.sight import Sight, sight
from transom.lens.statistics import Statistics, Top
from transom.lens.trace import Trace
from transom.lens.watch import watch

__all__ = [
    "HEADS",
    "Change",
    "Difference",
    "Edge",
    "Effect",
    "EffectTable",
    "Glance",
    "Grid",
    "HeadRow",
    "HeadTable",
    "Labels",
    "Map",
    "Measure",
    "Receipt",
    "Recorder",
    "Replay",
    "Rollout",
    "Rule",
    "Sight",
    "Statistics",
    "Tally",
    "Top",
    "Trace",
    "Words",
    "by_words",
    "diff",
    "effect",
    "flow",
    "heads",
    "knock_out",
    "rollout",
    "sight",
    "watch",
]
