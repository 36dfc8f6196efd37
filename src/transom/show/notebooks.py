"""What a notebook or a terminal shows of a Sight, a Trace or a lesson when nobody says how."""

import os
import shutil
import sys
from typing import Any

from transom.files.terminal import escape_all_but_colours
from transom.names import Misfit
from transom.show.drawing import draw
from transom.show.picture import Picture
from transom.show.visible import visible


def pictured(thing: Any, view: str | None = None, **options: Any) -> Picture:
    """A view of a thing; unless one is named, the view that fits it."""
    if view is not None:
        return draw(view, thing, **options)
    from transom.lens import Glance, Sight, Trace

    if isinstance(thing, Trace):
        return draw("heads", thing, **options)
    if isinstance(thing, Sight):
        return draw("entropy" if isinstance(thing, Glance) else "matrix", thing, **options)
    return draw(thing.picture, thing, **{**thing.draws, **options})


def bundle(thing: Any) -> dict[str, str]:
    """For a notebook: its picture in every form; what cannot be drawn says why, beside what it is."""
    try:
        picture = pictured(thing)
    except Misfit as error:
        return {"text/plain": f"{thing!r}\n{visible(str(error))}"}
    return {**picture._repr_mimebundle_(), "text/plain": repr(thing)}


def shown(thing: Any, view: str | None = None, **options: Any) -> None:
    """Inline in a notebook, else as text on standard output: in colour on a terminal that has not said NO_COLOR.

    Of a Trace, unless a view is named, a notebook shows the page; a terminal opens it where the view is called "page".
    """
    notebook = "ipykernel" in sys.modules
    paged = hasattr(thing, "page") and view in ({None, "page"} if notebook and not options else {"page"})
    if paged and not notebook:
        thing.page(**options).show()
        return
    picture = thing.page(**options) if paged else pictured(thing, view, **options)
    if notebook:
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        display(picture)
        return
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    text = picture.text(width=shutil.get_terminal_size((100, 24)).columns, colour=colour)
    print(escape_all_but_colours(text), end="")
