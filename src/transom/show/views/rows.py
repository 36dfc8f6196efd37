"""The attention of one token as bars, or the sum over several tokens."""

from collections.abc import Sequence
from typing import Any

from transom.files.strict_settings import check_at_least
from transom.names import Misfit
from transom.show.formatting import format_percent, join_some, make_visible
from transom.show.panels.charts import Bars
from transom.show.picture import Picture, Table
from transom.show.selected_head import hide_keys, select_head


def rows(
    thing: Any,
    *,
    rows: Sequence[int] | int = -1,
    most: int = 32,
    hide: Sequence[int] | int = (),
    renormalise: bool = False,
    **selection: Any,
) -> Picture:
    """Where one token looks, as bars; the weights of several `rows` are summed. The default is the last token.

    most   the keys that get most, at most so many, in the order of the text; the figure says what they cover
    """
    selected = select_head(thing, **selection)
    queries = sorted(set(selected.row_indices(rows)))
    check_at_least(1, most=most)
    if not queries:
        raise Misfit("at least one row is needed, but got rows=[]; rows=-1 is the last")
    hidden = hide_keys(selected, hide, renormalise)
    weights = dict(
        zip(hidden.visible, hidden.drop_hidden(selected.weights(rows=queries)).sum(dim=0).tolist(), strict=True)
    )
    strongest = sorted(sorted(weights, key=lambda key: -weights[key])[:most])
    names = join_some([f"“{make_visible(selected.rows[row])}”" for row in queries])
    panel = Bars(
        labels=tuple(selected.keys[key] for key in strongest),
        values=tuple(weights[key] for key in strongest),
        title="weight" if len(queries) == 1 else f"weights of {len(queries)} tokens, summed",
        digits=3,
        top=1.0 if len(queries) == 1 else None,
    )
    notes = hidden.notes(selected)
    if len(strongest) < len(weights):
        share = format_percent(sum(weights[key] for key in strongest) / (sum(weights.values()) or 1.0))
        notes.append(f"{len(strongest)} of {len(weights):,} keys are drawn; they got {share} of the attention.")
    return Picture(
        view="rows",
        title=f"Where {names} {'looks' if len(queries) == 1 else 'look'}: {selected.title}",
        panels=(panel,),
        source=selected.source,
        notes=tuple(notes),
        table=Table(("at", "key", "weight"), tuple((selected.keys[key], key, weights[key]) for key in strongest)),
    )
