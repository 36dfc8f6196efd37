"""Training examples, built from the rows of a file; all bad rows are reported together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from transom.files.untrusted_files import Limits, decode_utf8, read_raw_lines
from transom.names import Misfit

MOST_BAD = 20  # bad lines that are listed together; then reading stops


@dataclass(frozen=True, slots=True)
class Line:
    """A text, for a language model."""

    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and its translation."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and the class it belongs to."""

    text: str
    label: str


Example = TypeVar("Example", Line, Pair, Labelled)
# Line number, and the strings of one example, or what is wrong with the line.
NumberedRows = Iterator[tuple[int, Sequence[str] | Misfit]]


class BadLines:
    """The errors of a file, collected to be listed together in one message."""

    def __init__(self, where: Path | str) -> None:
        self.where, self.messages = str(where), list[str]()

    def add(self, error: Misfit) -> None:
        self.messages.append(str(error))
        if len(self.messages) == MOST_BAD:
            self.raise_error(" (reading stopped here; there may be more)")

    def raise_error(self, rest: str = "") -> None:
        """Raise one Misfit for all errors, if there are any."""
        first, *others = self.messages or [""]
        if others:
            listed = (message.removeprefix(f"{self.where}, ") for message in others)
            raise Misfit(f"{' · '.join([first, *listed])} · {len(self.messages)} bad lines{rest}")
        if first:
            raise Misfit(first)


def parse_lines(path: Path, limits: Limits, parse: Callable[[int, str], Sequence[str] | None]) -> NumberedRows:
    """Each line of a file, parsed; one that is no UTF-8, or that `parse` refuses, comes as a Misfit.

    parse   gets number and text of a line; None leaves it out
    """
    for number, line in read_raw_lines(path, limits):
        try:
            row = parse(number, decode_line(path, number, line))
        except Misfit as error:
            row = error
        if row is not None:
            yield number, row


def decode_line(path: Path, number: int, line: bytes) -> str:
    """A line without its end, as text."""
    return decode_utf8(path, line.removesuffix(b"\n").removesuffix(b"\r"), number)


def build_examples(
    where: Path | str, rows: NumberedRows, example: type[Example], skip_blank: bool = False
) -> Iterator[Example]:
    """An example from each row; rows that are entirely blank are left out.

    The errors of all rows are raised together, after the last row or the twentieth error.
    """
    empty, bad = True, BadLines(where)
    for number, strings in rows:
        if isinstance(strings, Misfit):
            bad.add(strings)
        elif all(map(str.strip, strings)):
            empty = False
            yield example(*strings)
        elif not skip_blank and any(map(str.strip, strings)):
            blank = [field.name for field, text in zip(fields(example), strings, strict=True) if not text.strip()]
            bad.add(
                Misfit(
                    f"{where}, line {number}: every {example.__name__} needs its {blank[0]}, but it is blank;"
                    " correct the line, or leave such lines out with skip_blank=True"
                )
            )
    bad.raise_error()
    if empty:
        raise Misfit(f"{where} should hold text, but there is none; check that it is the right file")


def check_chosen(chosen: Sequence[object], example: type[Line | Pair | Labelled], parameter: str) -> None:
    """There is one column or key for each field of an example."""
    names = [field.name for field in fields(example)]
    if isinstance(chosen, str) or len(chosen) != len(names) or len({type(choice) for choice in chosen}) > 1:
        raise Misfit(
            f"a {example.__name__} is made of {' and '.join(names)}, but got {parameter}={chosen!r};"
            f" choose {len(names)}, all by number or all by name"
        )
