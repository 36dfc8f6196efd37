"""One token's attention as bars; of several tokens, summed."""

from collections.abc import Sequence
from typing import Any

from transom.names import Misfit
from transom.show.look import counted, looked
from transom.show.numbers import grouped, percent
from transom.show.panels import Bars
from transom.show.picture import Picture, Table
from transom.show.sinks import sinks
from transom.show.visible import visible


def rows(
    thing: Any,
    *,
    rows: Sequence[int] | int = -1,
    most: int = 32,
    hide: Sequence[int] | int = (),
    renormalise: bool = False,
    **where: Any,
) -> Picture:
    """Where one token looks, as bars; `rows` of several tokens are summed. Unless said, the last token.

    most   the keys that get most, at most so many, in the order of the text; the figure says what they cover
    """
    look = looked(thing, **where)
    asked = sorted({counted(row, "queries", len(look.rows)) for row in ([rows] if isinstance(rows, int) else rows)})
    if not asked or most < 1:
        raise Misfit(
            f"at least one row and one bar are drawn, but got rows={list(asked)}, most={most}; rows=-1 is the last"
        )
    sink = sinks(look, hide, renormalise)
    kept = sink.kept(len(look.keys))
    weights = sink.without(look.weights(rows=asked)).sum(dim=0).tolist()
    strongest = sorted(sorted(range(len(kept)), key=lambda place: -weights[place])[:most])
    names = ", ".join(f"“{visible(look.rows[row])}”" for row in asked[:4])
    names += f" and {len(asked) - 4} more" if len(asked) > 4 else ""
    panel = Bars(
        labels=tuple(look.keys[kept[place]] for place in strongest),
        values=tuple(weights[place] for place in strongest),
        title="weight" if len(asked) == 1 else f"weights of {len(asked)} tokens, summed",
        digits=3,
        top=1.0 if len(asked) == 1 else None,
    )
    notes = sink.notes(look)
    if len(strongest) < len(kept):
        share = sum(weights[place] for place in strongest) / (sum(weights) or 1.0)
        notes.append(f"{len(strongest)} of {grouped(len(kept))} keys are drawn; they got {percent(share)} of it.")
    table = Table(("at", "key", "weight"), tuple((look.keys[kept[one]], kept[one], weights[one]) for one in strongest))
    return Picture(
        view="rows",
        title=f"Where {names} {'looks' if len(asked) == 1 else 'look'}: {look.title}",
        panels=(panel,),
        source=look.source,
        notes=tuple(notes),
        table=table,
    )
