"""`draw`, the table of views by name, and how a Sight, a Trace or a lesson displays itself."""

import inspect
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from transom.files.strict_settings import suggest
from transom.files.terminal import escape_all_but_colours
from transom.names import Misfit
from transom.show.formatting import make_visible
from transom.show.picture import Picture
from transom.show.selected_head import select_head
from transom.show.views.architecture import architecture
from transom.show.views.arrows import arrows
from transom.show.views.context import context
from transom.show.views.curves import curves
from transom.show.views.entropy import entropy
from transom.show.views.fold import fold
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
    "fold": fold,
    "architecture": architecture,
}


def draw(view: str, thing: Any, **options: Any) -> Picture:
    """A view of a Sight, a Trace or a lesson; `VIEWS` lists them, and the docstring of each its options."""
    if view not in VIEWS:
        raise Misfit(f"there is no view {view!r}; {suggest(str(view), VIEWS)}")
    known = options_of(VIEWS[view])
    for name in options:
        if name not in known:
            raise Misfit(f"the view {view!r} has no option {name!r}; {suggest(name, known)}")
    return add_unseen(VIEWS[view](thing, **options), thing)


def add_unseen(picture: Picture, thing: Any) -> Picture:
    """The picture with a note on the attention of the run that could not be seen."""
    labels = getattr(thing, "run_labels", None) or (getattr(thing, "trace_labels", None) or (None, None))[1]
    if labels is None or not labels.unseen:
        return picture
    from transom.lens.unseen_attention import unseen_note

    note = unseen_note(labels.unseen)
    return replace(picture, notes=(*picture.notes, note)) if note else picture


def options_of(view: Callable[..., Picture]) -> list[str]:
    """The options of a view, with those of `select_head` if it passes them on."""
    parameters = inspect.signature(view).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        names += [name for name in inspect.signature(select_head).parameters if name != "thing"]
    return names


def draw_default(thing: Any, view: str | None = None, **options: Any) -> Picture:
    """A view of a thing; by default the view that suits it."""
    if view is not None:
        return draw(view, thing, **options)
    from transom.lens import AttentionView, Trace

    if isinstance(thing, Trace):
        return draw("heads", thing, **options)
    if isinstance(thing, AttentionView):
        return draw("entropy" if thing.full is None else "matrix", thing, **options)
    return draw(thing.picture, thing, **{**thing.draws, **options})


def bundle(thing: Any) -> dict[str, str]:
    """The default picture in every form that a notebook may show; if it cannot be drawn, the reason as text."""
    try:
        picture = draw_default(thing)
    except Misfit as error:
        return {"text/plain": f"{thing!r}\n{make_visible(str(error))}"}
    return {**picture._repr_mimebundle_(), "text/plain": repr(thing)}


def display(thing: Any, view: str | None = None, **options: Any) -> Any:
    """A picture inline in a notebook, otherwise as text on standard output, in colour on a terminal without NO_COLOR.

    By default a notebook shows the page of a Trace, and gets the view of it back; in a terminal the view "page" opens
    it.
    """
    in_notebook = "ipykernel" in sys.modules
    is_page = hasattr(thing, "page") and (view == "page" or (view is None and in_notebook and not options))
    if is_page:
        page = thing.page(**options)
        return page.show_in_notebook() if in_notebook else page.show()
    picture = draw_default(thing, view, **options)
    if in_notebook:
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        display(picture)
        return None
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    text = picture.text(width=shutil.get_terminal_size((100, 24)).columns, colour=colour)
    print(escape_all_but_colours(text), end="")
    return None
