"""A histogram of a head's scores before the softmax."""

import math
from itertools import pairwise
from typing import Any

from transom.names import Misfit
from transom.show.formatting import to_fixed
from transom.show.panels.charts import Bars
from transom.show.picture import Picture, Table
from transom.show.selected_head import SelectedHead, select_head


def histogram(thing: Any, *, bins: int = 24, **selection: Any) -> Picture:
    """The scores of one head, scaled and before the softmax, in bins of equal width; masked ones are only counted."""
    if not 1 <= bins <= 200:
        raise Misfit(f"bins must be 1 to 200, but got {bins}; the default is 24")
    import torch

    selected = select_head(thing, **selection)
    low, high, count, masked = score_range(selected)
    if count == 0:
        raise Misfit("a histogram needs scores, but all of them are masked; choose another head or batch")
    high = high if high > low else low + 1.0
    counts = torch.zeros(bins, dtype=torch.long)
    total = squares = 0.0
    for block in selected.row_slices(len(selected.rows)):
        scores = selected.scores(rows=block)
        scores = scores[scores.isfinite()]
        indices = ((scores - low) / (high - low) * bins).long().clamp_(0, bins - 1)
        counts += torch.bincount(indices, minlength=bins)
        total, squares = total + float(scores.sum()), squares + float(scores.square().sum())
    mean = total / count
    deviation = math.sqrt(max(0.0, squares / count - mean * mean))
    edges = [low + (high - low) * number / bins for number in range(bins + 1)]
    digits = min(6, max(0, 1 - math.floor(math.log10((high - low) / bins))))
    names = [to_fixed(edge, digits) for edge in edges]
    panel = Bars(
        labels=tuple(f"{low} to {high}" for low, high in pairwise(names)),
        edges=tuple(names),
        values=tuple(map(float, counts.tolist())),
        title="scores in each bin",
        digits=0,
        upright=True,
        across="score →",
    )
    span = f"{count:,} scores from {to_fixed(low, 3)} to {to_fixed(high, 3)}"
    notes = [f"{span}: mean {to_fixed(mean, 3)}, standard deviation {to_fixed(deviation, 3)}."]
    notes += [f"{masked:,} masked scores are left out."] if masked else []
    table = Table(("from", "to", "scores"), tuple(zip(edges[:-1], edges[1:], counts.tolist(), strict=True)))
    title, source = f"The scores of {selected.title}", selected.source
    return Picture(view="histogram", title=title, panels=(panel,), source=source, notes=tuple(notes), table=table)


def score_range(selected: SelectedHead) -> tuple[float, float, int, int]:
    """The lowest and the highest score, how many scores there are, and how many are masked."""
    low, high, count, masked = math.inf, -math.inf, 0, 0
    for block in selected.row_slices(len(selected.rows)):
        scores = selected.scores(rows=block)
        masked += int((scores == -math.inf).sum())
        scores = scores[scores.isfinite()]
        count += scores.numel()
        if scores.numel():
            low, high = min(low, float(scores.min())), max(high, float(scores.max()))
    return low, high, count, masked
