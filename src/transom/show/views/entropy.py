"""How spread out each head looks: its entropy, layer by layer."""

import math
from typing import Any

from transom.show.look import attentions_of, looked, receipts_of, whole
from transom.show.panels import Bars, Grid, heat
from transom.show.picture import Picture, Source, Table


def entropy(
    thing: Any, *, batch: int = 0, layer: str | int | None = None, model: str = "", colours: str = "blues"
) -> Picture:
    """The mean entropy of each head, in nats: 0 looks at one key alone, log n at n keys alike.

    Of a Sight (or one layer of a Trace) as bars, of a whole Trace as a grid of layers and heads.
    """
    seen = attentions_of(thing)
    if layer is None and len(seen) > 1:
        return of_many(seen, batch, model, colours)
    look = looked(thing, layer=layer, batch=batch, model=model)
    found = look.sight.entropy()[look.batch].double()
    means, lows, highs = found.mean(dim=1).tolist(), found.amin(dim=1).tolist(), found.amax(dim=1).tolist()
    labels = tuple(f"head {head}" for head in range(len(means)))
    panel = Bars(labels=labels, values=tuple(means), title="mean entropy", unit="nats", digits=3)
    source = Source(model=model, layer=look.layer, receipt=look.source.receipt)
    return Picture(
        view="entropy",
        title=f"How spread out {look.layer or 'each head'} looks",
        panels=(panel,),
        source=source,
        notes=(meaning(len(look.keys)),),
        table=Table(
            ("head", "mean", "lowest", "highest"), tuple(zip(range(len(means)), means, lows, highs, strict=True))
        ),
    )


def of_many(seen: list[tuple[str, Any]], batch: int, model: str, colours: str) -> Picture:
    names, means = [], []
    longest = 0
    proved = receipts_of(seen)
    for name, sight in seen:
        names.append(name)
        means.append(sight.entropy()[batch].double().mean(dim=1).tolist())
        longest = max(longest, whole(sight)[3])
    heads = max(map(len, means))
    values = tuple(tuple(row[head] if head < len(row) else None for head in range(heads)) for row in means)
    flat = [value for row in values for value in row]
    columns = tuple(str(head) for head in range(heads))
    panel = Grid(
        rows=tuple(names), columns=columns, values=values, heat=heat(flat, colours), down="layer", across="head"
    )
    rows = tuple((name, head, mean) for name, row in zip(names, means, strict=True) for head, mean in enumerate(row))
    return Picture(
        view="entropy",
        title="How spread out each head looks: mean entropy",
        panels=(panel,),
        source=Source(model=model, receipt=proved),
        notes=(meaning(longest),),
        table=Table(("layer", "head", "mean entropy"), rows),
    )


def meaning(keys: int) -> str:
    return f"In nats, over all rows: 0 looks at one key alone, {math.log(max(1, keys)):.2f} at all {keys} keys alike."
