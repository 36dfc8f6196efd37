"""What every command reads and prints: texts from the terminal or a pipe, output that is safe on a terminal, JSON."""

import codecs
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from transom.files.terminal import PLAIN, escape_all_but_colours, escape_controls, replace_by_plain, to_safe_json
from transom.files.untrusted_files import read_numbered_lines, require_file
from transom.names import Misfit

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn
    from rich.text import Text

Texts = Annotated[list[str] | None, typer.Argument(help="One or more texts; by default the lines of standard input.")]
File = Annotated[Path | None, typer.Option("--file", help="Read the texts from the lines of this file (or .gz).")]
NamedModel = Annotated[
    str, typer.Option("--model", metavar="FOLDER_OR_HF_ID", help="A Transom or Hugging Face model, or a GGUF file.")
]
AnyModel = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER_OR_HF_ID",
        help="A Transom or Hugging Face model, or a GGUF file; by default the translator from English to French.",
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; can be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of plain lines.")]
MOST_UNKNOWN = 8  # unknown words that are listed


class HasVocabulary(Protocol):
    """A tokenizer, or a model with one."""

    def unknown_words(self, text: str) -> list[str]: ...


def print_text(text: str = "", *, stderr: bool = False, end: str = "\n") -> None:
    """Print text for people; it is safe in a pager or a log too."""
    print(escape_controls(text), end=end, file=sys.stderr if stderr else sys.stdout, flush=stderr)


def print_note(note: str) -> None:
    """Print one line on stderr, unless the note is empty."""
    if note:
        print_text(f"transom: {' '.join(note.split())}", stderr=True)


def print_picture(text: str) -> None:
    """Print a line of a picture, with Transom's own colours."""
    print(escape_all_but_colours(text))


def print_result(text: str, end: str = "\n") -> None:
    """Print the output of a model or another result: escaped on a terminal, unchanged in a pipe."""
    print(escape_controls(text) if sys.stdout.isatty() else text, end=end, flush=not end)


def print_json(data: Any, indent: int | None = 2) -> None:
    """Print one JSON document that is safe on a terminal."""
    print(to_safe_json(data, indent))


def print_styled(line: "Text") -> None:
    """Print a line with the styles of rich; without them if anything in it had to be escaped."""
    from rich.console import Console
    from rich.text import Text

    escaped = escape_controls(line.plain)
    Console(highlight=False).print(line if escaped == line.plain else Text(escaped), soft_wrap=True)


def print_rows(rows: list[dict[str, Any]], as_json: bool, format_row: Callable[[dict[str, Any]], str]) -> None:
    """Print results as one JSON document, or one line each."""
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print_result(format_row(row))


def shows_colours() -> bool:
    """Whether standard output is a terminal with colours, and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def safe_warnings() -> Iterator[None]:
    """Print warnings in this block as notes: they may quote the content of a file."""

    def show_warning(message: Any, kind: type[Warning], *args: Any) -> None:
        print_note(str(message) if kind is UserWarning else f"{kind.__name__}: {message}")

    original: Any = warnings.showwarning
    warnings.showwarning = show_warning
    try:
        yield
    finally:
        warnings.showwarning = original


def make_tolerant(*streams: Any) -> None:
    """Let a terminal that lacks a character show a plain one instead of raising an error."""
    codecs.register_error(PLAIN, replace_by_plain)
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=PLAIN)


def read_texts(args: list[str] | None, file: Path | None, blanks: bool = False) -> list[str]:
    """Texts from arguments, the lines of a file, or standard input: at least one; empty lines only with `blanks`."""
    if args and file is not None:
        raise Misfit("texts come as arguments or from --file, but got both; leave one out")
    if args:
        return args
    if file is None:
        lines = [line.rstrip("\n") for line in sys.stdin]
    else:
        lines = [line for _, line in read_numbered_lines(require_file(file))]
    if not any(map(str.strip, lines)):
        if file is not None:
            raise Misfit(f"{file} should hold text, but there is none; check that it is the right file")
        raise Misfit("there should be a text to work on, but there is none; give one, or --file, or lines on stdin")
    return [line for line in lines if blanks or line.strip()]


def warn_unknown_words(vocabulary: HasVocabulary, texts: list[str]) -> None:
    """List on stderr the words that the model cannot read, each once, and only some of very many."""
    words = list(dict.fromkeys(word for text in texts for word in vocabulary.unknown_words(text)))
    if words:
        listed = ", ".join(f"“{word}”" for word in words[:MOST_UNKNOWN])
        more = f" and {len(words) - MOST_UNKNOWN:,} more" if len(words) > MOST_UNKNOWN else ""
        print_note(f"the model does not know {listed}{more}; it reads <unk> instead")


def make_progress(*columns: "ProgressColumn") -> "Progress":
    """A progress bar on stderr that disappears at the end; its text is not escaped, so it must be Transom's own."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def progress_bar(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """A progress bar for long work on a terminal; yields the function that advances it by a number of steps."""
    if total < 2 or not sys.stderr.isatty():
        yield lambda steps: None
        return
    with make_progress() as bar:
        row = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(row, steps)


@contextmanager
def conversion_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal; yields a function that takes how much is done, and how much there is."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    with make_progress() as bar:
        row = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(row, completed=done, total=total)
