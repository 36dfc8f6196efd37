"""A lesson whose TOML is malformed in some claim or case: the others, with those tables left out."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from transom.files.documents import MalformedDocument, decode_toml

TABLE = re.compile(r"^[ \t]*\[\[(case|claim|step)\]\]", re.MULTILINE)
AT_LINE = re.compile(r"\(at line (\d+)")


class MalformedTable(NamedTuple):
    """A [[claim]], [[case]] or [[step]] that is no TOML: its kind, its line from 1, and what is wrong with it."""

    kind: str
    line: int
    complaint: str


def shift_line(complaint: str, lines: int) -> str:
    """An error of the TOML parser, with its line moved on by so many."""
    return AT_LINE.sub(lambda match: f"(at line {int(match[1]) + lines}", complaint)


def drop_malformed_tables(text: str, parse_float: Callable[[str], Any]) -> tuple[str, list[MalformedTable]]:
    """The text with each malformed table as empty lines, and those tables."""
    starts = [match.start() for match in TABLE.finditer(text)]
    pieces, dropped = [text[: starts[0]] if starts else text], list[MalformedTable]()
    for start, end in pairwise([*starts, len(text)]):
        piece = text[start:end]
        try:
            decode_toml(piece, parse_float=parse_float)
        except MalformedDocument as error:
            before = text.count("\n", 0, start)
            kind = TABLE.match(piece)
            assert kind is not None
            dropped.append(MalformedTable(kind[1], before + 1, shift_line(str(error), before)))
            piece = "\n" * piece.count("\n")
        pieces.append(piece)
    return "".join(pieces), dropped
