"""The table of views, and the one door to them."""

import inspect
from collections.abc import Callable
from typing import Any

from transom.files.strict import nearest
from transom.names import Misfit
from transom.show.look import looked
from transom.show.picture import Picture
from transom.show.views.arrows import arrows
from transom.show.views.context import context
from transom.show.views.curves import curves
from transom.show.views.entropy import entropy
from transom.show.views.heads import heads
from transom.show.views.histogram import histogram
from transom.show.views.matrix import matrix
from transom.show.views.rows import rows
from transom.show.views.sequence import sequence
from transom.show.views.steps import steps
from transom.show.views.vectors import vectors

VIEWS: dict[str, Callable[..., Picture]] = {
    "steps": steps,
    "sequence": sequence,
    "arrows": arrows,
    "matrix": matrix,
    "heads": heads,
    "rows": rows,
    "context": context,
    "histogram": histogram,
    "entropy": entropy,
    "curves": curves,
    "vectors": vectors,
}


def draw(view: str, thing: Any, **options: Any) -> Picture:
    """A view of a Sight, a Trace or a lesson; `VIEWS` lists them, and each says which options it takes."""
    if view not in VIEWS:
        raise Misfit(f"there is no view {view!r}; {nearest(str(view), VIEWS)}")
    known = options_of(VIEWS[view])
    for name in options:
        if name not in known:
            raise Misfit(f"the view {view!r} has no option {name!r}; {nearest(name, known)}")
    return VIEWS[view](thing, **options)


def options_of(view: Callable[..., Picture]) -> list[str]:
    """What a view can be told: its own options, and those that say which head of what to draw."""
    own = [one for one in inspect.signature(view).parameters.values() if one.kind is one.KEYWORD_ONLY]
    where = [name for name in inspect.signature(looked).parameters if name != "thing"]
    takes_where = any(one.kind is one.VAR_KEYWORD for one in inspect.signature(view).parameters.values())
    return [*(one.name for one in own), *(where if takes_where else [])]
