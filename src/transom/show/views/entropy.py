"""How widely each head attends: its entropy, layer by layer."""

import math
from typing import Any

from transom.show.colours import fit_scale
from transom.show.panels.charts import Bars
from transom.show.panels.grid import Grid
from transom.show.picture import Picture, Source, Table
from transom.show.selected_head import attentions_of, mean_of_heads, receipts_summary, select_head


def entropy(
    thing: Any, *, batch: int = 0, layer: str | int | None = None, model: str = "", colours: str = "blues"
) -> Picture:
    """The mean entropy of each head, in nats: 0 means one key alone, log n means n keys alike.

    Of a Sight (or one layer of a Trace) as bars, of a whole Trace as a grid of layers and heads.
    """
    attentions = attentions_of(thing)
    if layer is None and len(attentions) > 1:
        return draw_layers(attentions, batch, model, colours)
    selected = select_head(thing, layer=layer, batch=batch, model=model)
    entropies = selected.sight.entropy()[selected.batch].double()
    means = entropies.mean(dim=1).tolist()
    lowest, highest = entropies.amin(dim=1).tolist(), entropies.amax(dim=1).tolist()
    labels = tuple(f"head {head}" for head in range(len(means)))
    return Picture(
        view="entropy",
        title=f"How spread out {selected.layer or 'each head'} looks",
        panels=(Bars(labels=labels, values=tuple(means), title="mean entropy", unit="nats", digits=3),),
        source=Source(model=model, layer=selected.layer, receipt=selected.source.receipt),
        notes=(explain_entropy(len(selected.keys)),),
        table=Table(
            ("head", "mean", "lowest", "highest"),
            tuple(zip(range(len(means)), means, lowest, highest, strict=True)),
        ),
    )


def draw_layers(attentions: list[tuple[str, Any]], batch: int, model: str, colours: str) -> Picture:
    receipts = receipts_summary(attentions)
    means = [mean_of_heads(sight, "entropy", batch) for _, sight in attentions]
    heads = max(map(len, means))
    names = tuple(name for name, _ in attentions)
    panel = Grid(
        rows=names,
        columns=tuple(str(head) for head in range(heads)),
        values=tuple(tuple([*row, *[None] * (heads - len(row))]) for row in means),
        heat=fit_scale([mean for row in means for mean in row], colours),
        down="layer",
        across="head",
    )
    rows = tuple((name, head, mean) for name, row in zip(names, means, strict=True) for head, mean in enumerate(row))
    return Picture(
        view="entropy",
        title="How spread out each head looks: mean entropy",
        panels=(panel,),
        source=Source(model=model, receipt=receipts),
        notes=(explain_entropy(max(sight.shape[3] for _, sight in attentions)),),
        table=Table(("layer", "head", "mean entropy"), rows),
    )


def explain_entropy(keys: int) -> str:
    return f"Mean over all rows, in nats: 0 means one key alone, {math.log(max(1, keys)):.2f} all {keys} keys alike."
