"""What the running commands share: texts in, results out, a model by its folder."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from transom.cli.output import make_progress, print_json, print_note, print_result

Texts = Annotated[list[str] | None, typer.Argument(help="One or more texts; without any, lines of standard input.")]
File = Annotated[Path | None, typer.Option("--file", help="Take the lines of this file (or .gz) as texts.")]
Folder = Annotated[Path, typer.Option("--model", metavar="FOLDER", help="The folder of a model.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of plain lines.")]
MOST_UNKNOWN = 8  # words that are named


def texts(given: list[str] | None, file: Path | None, blanks: bool = False) -> list[str]:
    """The texts a command is asked about: at least one; with `blanks`, empty lines among them stay."""
    from transom.names import Misfit
    from transom.run.texts import texts_from

    found = texts_from(given or [], file, iter(sys.stdin), blanks)
    if not found or (not given and not any(map(str.strip, found))):
        raise Misfit("there should be a text to work on, but none came; give one, or --file, or lines on stdin")
    return found


def printed(rows: list[dict[str, Any]], as_json: bool, line: Callable[[dict[str, Any]], str]) -> None:
    """Results on standard output: one JSON document, or a line each."""
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print_result(line(row))


def tell_unknown(words: list[str]) -> None:
    """A word on stderr about what the model cannot read, each once, and not all of very many."""
    found = list(dict.fromkeys(words))
    if found:
        shown = ", ".join(f"“{word}”" for word in found[:MOST_UNKNOWN])
        more = f" and {len(found) - MOST_UNKNOWN:,} more" if len(found) > MOST_UNKNOWN else ""
        print_note(f"the model does not know {shown}{more}; it reads <unk> instead")


def unknown_in(texts: list[str], tokenizer: Any) -> list[str]:
    return [word for text in texts for word in tokenizer.unknown_words(text)]


def many(count: int, what: str) -> str:
    """`1 token`, `2,000 tokens`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@contextmanager
def counting(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr for long work on a terminal; nothing for a single text, or elsewhere."""
    if total < 2 or not sys.stderr.isatty():
        yield lambda more: None
        return
    with make_progress() as bar:
        row = bar.add_task(what, total=total)
        yield lambda more: bar.advance(row, more)
