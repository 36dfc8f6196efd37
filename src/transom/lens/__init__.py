"""Inspecting attention: a Sight holds one attention and gives any number of it; a Trace holds those of a run."""

from transom.lens.ablation.edge import Edge
from transom.lens.ablation.effect import effect
from transom.lens.ablation.effect_table import Effect, EffectRule, EffectTable
from transom.lens.ablation.knock_out import knock_out
from transom.lens.ablation.patch import MeanOutputs, mean_outputs, patch
from transom.lens.attention.labels import Labels, PatchGrid
from transom.lens.attention.pooled_map import PooledMap
from transom.lens.attention.receipt import Receipt
from transom.lens.attention.sight import AttentionView, Sight, StatsOnlySight, sight
from transom.lens.attention.statistics import Statistics, TopKeys
from transom.lens.attribution.agreement import Agreement
from transom.lens.attribution.attention_influence import AttentionInfluence, TopChanges
from transom.lens.attribution.influence import Influence, influence
from transom.lens.capture.watch import watch
from transom.lens.metrics.difference import Change, Difference, diff
from transom.lens.metrics.head_measures import HEADS, Measure, RowValues
from transom.lens.metrics.head_table import HeadRow, HeadTable
from transom.lens.metrics.heads import heads
from transom.lens.metrics.rollout import Rollout, flow, rollout
from transom.lens.metrics.word_weights import WordWeights, by_words
from transom.lens.replay import Recorder, Replay
from transom.lens.trace import Trace

__all__ = [
    "HEADS",
    "Agreement",
    "AttentionInfluence",
    "AttentionView",
    "Change",
    "Difference",
    "Edge",
    "Effect",
    "EffectRule",
    "EffectTable",
    "HeadRow",
    "HeadTable",
    "Influence",
    "Labels",
    "MeanOutputs",
    "Measure",
    "PatchGrid",
    "PooledMap",
    "Receipt",
    "Recorder",
    "Replay",
    "Rollout",
    "RowValues",
    "Sight",
    "Statistics",
    "StatsOnlySight",
    "TopChanges",
    "TopKeys",
    "Trace",
    "WordWeights",
    "by_words",
    "diff",
    "effect",
    "flow",
    "heads",
    "influence",
    "knock_out",
    "mean_outputs",
    "patch",
    "rollout",
    "sight",
    "watch",
]
