"""The one place where commands print: text for people, pictures, results and JSON, each made safe for a terminal."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from transom.files.terminal import escape_all_but_colours, escape_controls, to_safe_json

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn
    from rich.text import Text


def print_text(text: str = "", *, stderr: bool = False, end: str = "\n") -> None:
    """A text for people; safe also where a pager or a log shows it later."""
    print(escape_controls(text), end=end, file=sys.stderr if stderr else sys.stdout, flush=stderr)


def print_note(note: str) -> None:
    """A line on stderr, if there is something to say."""
    if note:
        print_text(f"transom: {' '.join(note.split())}", stderr=True)


def print_picture(text: str) -> None:
    """A line of a picture, with Transom's own colours."""
    print(escape_all_but_colours(text))


def print_result(text: str, end: str = "\n") -> None:
    """What a model wrote, or another result: safe on a terminal; for a program behind a pipe, as it is."""
    print(escape_controls(text) if sys.stdout.isatty() else text, end=end, flush=not end)


def print_json(data: Any, indent: int | None = 2) -> None:
    """One JSON document: the data as it is, and safe on a terminal all the same."""
    print(to_safe_json(data, indent))


def print_styled(line: "Text") -> None:
    """A line with the styles of rich, which are left out if anything in it had to be escaped."""
    from rich.console import Console
    from rich.text import Text

    safe = escape_controls(line.plain)
    Console(highlight=False).print(line if safe == line.plain else Text(safe), soft_wrap=True)


def shows_colours() -> bool:
    """Whether standard output is a terminal that shows colours and has not been told not to."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def make_progress(*columns: "ProgressColumn") -> "Progress":
    """A bar on stderr that leaves nothing behind; what it says must be Transom's own words and numbers."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def safe_warnings() -> Iterator[None]:
    """Warnings in this block are printed like all else: they may quote what a file holds."""

    def show_warning(message: Any, kind: type[Warning], file: str, line: int, *more: Any) -> None:
        print_note(str(message) if kind is UserWarning else f"{kind.__name__}: {message}")

    before: Any = warnings.showwarning
    warnings.showwarning = show_warning
    try:
        yield
    finally:
        warnings.showwarning = before


def make_tolerant(*streams: Any) -> None:
    """A terminal that lacks a sign shows ? instead of an error."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
