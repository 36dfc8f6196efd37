"""How the scores of a head are spread: a histogram of all of them, before the softmax."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.show.look import Look, looked
from transom.show.numbers import grouped, written
from transom.show.panels import Bars
from transom.show.picture import Picture, Table

if TYPE_CHECKING:
    from torch import Tensor

BAND = 1 << 20


def histogram(thing: Any, *, bins: int = 24, **where: Any) -> Picture:
    """The scores of one head, scaled and before the softmax, in bins of one width; masked ones are only counted."""
    if not 1 <= bins <= 200:
        raise Misfit(f"a histogram has 1 to 200 bins, but got {bins}; 24 is a good picture")
    import torch

    look = looked(thing, **where)
    low, high, count, masked = extent(look)
    if count == 0:
        raise Misfit("a histogram needs scores, but every one is masked; choose another head or batch row")
    high = high if high > low else low + 1.0
    counts = torch.zeros(bins, dtype=torch.long)
    total = squares = 0.0
    for scores in bands(look):
        seen = scores[scores.isfinite()]
        place = ((seen - low) / (high - low) * bins).long().clamp_(0, bins - 1)
        counts += torch.bincount(place, minlength=bins)
        total, squares = total + float(seen.sum()), squares + float(seen.square().sum())
    mean = total / count
    spread = math.sqrt(max(0.0, squares / count - mean * mean))
    edges = [low + (high - low) * number / bins for number in range(bins + 1)]
    digits = min(6, max(0, 1 - math.floor(math.log10((high - low) / bins))))
    panel = Bars(
        labels=tuple(written(edge, digits) for edge in edges[:-1]),
        values=tuple(float(one) for one in counts.tolist()),
        title="scores in each bin",
        digits=0,
        upright=True,
        across="score, from the label to the next →",
    )
    span = f"{grouped(count)} scores from {written(low, 3)} to {written(high, 3)}"
    notes = [f"{span}: mean {written(mean, 3)}, standard deviation {written(spread, 3)}."]
    notes += [f"{grouped(masked)} masked scores are left out."] if masked else []
    table = Table(("from", "to", "scores"), tuple(zip(edges[:-1], edges[1:], counts.tolist(), strict=True)))
    title = f"The scores of {look.title}"
    return Picture(view="histogram", title=title, panels=(panel,), source=look.source, notes=tuple(notes), table=table)


def bands(look: Look) -> Iterator["Tensor"]:
    """All scores, a few rows at a time."""
    at_once = max(1, BAND // max(1, len(look.keys)))
    for first in range(0, len(look.rows), at_once):
        yield look.scores(rows=slice(first, first + at_once))


def extent(look: Look) -> tuple[float, float, int, int]:
    """The lowest and highest score, how many there are, and how many are masked."""
    low, high, count, masked = math.inf, -math.inf, 0, 0
    for scores in bands(look):
        seen = scores[scores.isfinite()]
        masked += int((scores == -math.inf).sum())
        count += seen.numel()
        if seen.numel():
            low, high = min(low, float(seen.min())), max(high, float(seen.max()))
    return low, high, count, masked
