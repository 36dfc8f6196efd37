"""Training texts, streamed from plain text, TSV, JSONL and parallel files, or a .gz of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from transom.files.strict_settings import parse_json_object, suggest
from transom.files.untrusted_files import (
    BYTE_ORDER_MARK,
    LIMITS,
    Limits,
    decode_utf8,
    read_bytes,
    read_numbered_lines,
    require_file,
)
from transom.names import Misfit


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
NumberedRows = Iterator[tuple[int, Sequence[str]]]  # line number, and the strings of one example


def read_lines(path: Path | str, limits: Limits = LIMITS) -> Iterator[Line]:
    """Each line of a text; blank ones are left out."""
    path = require_file(path)
    return build_examples(path, ((number, (line,)) for number, line in read_numbered_lines(path, limits)), Line)


def read_document(path: Path | str, limits: Limits = LIMITS) -> Iterator[Line]:
    """The whole file as one text, line ends included."""
    path = require_file(path)

    def rows() -> NumberedRows:
        yield 1, (decode_utf8(path, read_bytes(path, limits).removeprefix(BYTE_ORDER_MARK)),)

    return build_examples(path, rows(), Line)


def read_labelled(path: Path | str, skip_blank: bool = False, limits: Limits = LIMITS) -> Iterator[Labelled]:
    """Lines that start with their label: everything up to the first space or tab."""
    path = require_file(path)

    def rows() -> NumberedRows:
        for number, line in read_numbered_lines(path, limits):
            label, _, text = line.replace("\t", " ", 1).partition(" ")
            yield number, (text, label)

    return build_examples(path, rows(), Labelled, skip_blank)


def read_tsv(
    path: Path | str,
    columns: Sequence[int] | Sequence[str],
    example: type[Example],
    skip_blank: bool = False,
    limits: Limits = LIMITS,
) -> Iterator[Example]:
    """Chosen columns of tab-separated lines: by number from 0, or by name if the first line has names.

    Quotation marks have no special meaning: a text cannot hold a tab or a line end.
    """
    path = require_file(path)
    check_chosen(columns, example, "columns")

    def rows() -> NumberedRows:
        lines = ((number, line.split("\t")) for number, line in read_numbered_lines(path, limits))
        first, header = next(lines, (1, [""]))
        indices = [column_index(path, column, header) for column in columns]
        if not isinstance(columns[0], str) and header != [""]:
            yield first, [header[index] for index in indices]
        for number, row in lines:
            if row != [""] and len(row) != len(header):
                expected = f"expected {len(header)} columns as in line 1"
                raise Misfit(f"{path}, line {number}: {expected}, but there are {len(row)}; correct the line")
            yield number, [row[index] for index in indices] if row != [""] else [""]

    return build_examples(path, rows(), example, skip_blank)


def column_index(path: Path, column: int | str, header: Sequence[str]) -> int:
    """The number of a column, checked against the first line."""
    if isinstance(column, str):
        if column not in header:
            raise Misfit(f"{path}, line 1: there is no column {column!r}; {suggest(column, header)}")
        return header.index(column)
    if not 0 <= column < len(header):
        raise Misfit(f"{path}, line 1: there is no column {column} of {len(header)}; count from 0, and check the tabs")
    return column


def read_jsonl(
    path: Path | str,
    keys: Sequence[str],
    example: type[Example],
    skip_blank: bool = False,
    limits: Limits = LIMITS,
) -> Iterator[Example]:
    """Chosen fields of one JSON object per line; `translation.fr` is the field fr of the object translation.

    A field holds a string, or a whole number, which becomes its digits.
    """
    path = require_file(path)
    check_chosen(keys, example, "keys")

    def rows() -> NumberedRows:
        for number, line in read_numbered_lines(path, limits):
            if line.strip():
                where = f"{path}, line {number}"
                content = parse_json_object(line.encode(), where, limits.line)
                yield number, [field_text(where, content, key) for key in keys]

    return build_examples(path, rows(), example, skip_blank)


def field_text(where: str, content: dict[str, object], key: str) -> str:
    """The text under a key, or under a path of keys with dots between them."""
    value: object = content
    for step in [key] if key in content else key.split("."):
        if not isinstance(value, dict) or step not in value:
            raise Misfit(f"{where}: there is no field {key!r}; {suggest(key, content)}")
        value = value[step]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise Misfit(f"{where}: field {key!r} must be a string, but it is a {type(value).__name__}; correct the line")
    return value


def read_parallel(
    source: Path | str, target: Path | str, skip_blank: bool = False, limits: Limits = LIMITS
) -> Iterator[Pair]:
    """Two files, line by line."""
    paths = require_file(source), require_file(target)

    def rows() -> NumberedRows:
        sides = (read_numbered_lines(path, limits) for path in paths)
        for number, (source_line, target_line) in enumerate(zip_longest(*sides), start=1):
            if source_line is None or target_line is None:
                shorter, longer = paths if source_line is None else paths[::-1]
                raise Misfit(
                    f"{longer}, line {number}: expected the same number of lines in {shorter}, but it is shorter;"
                    " use two files that belong together"
                )
            yield number, (source_line[1], target_line[1])

    return build_examples(f"{paths[0]} and {paths[1]}", rows(), Pair, skip_blank)


def check_chosen(chosen: Sequence[object], example: type[Line | Pair | Labelled], parameter: str) -> None:
    """There is one column or key for each field of an example."""
    names = [field.name for field in fields(example)]
    if isinstance(chosen, str) or len(chosen) != len(names) or len({type(choice) for choice in chosen}) > 1:
        raise Misfit(
            f"a {example.__name__} is made of {' and '.join(names)}, but got {parameter}={chosen!r};"
            f" choose {len(names)}, all by number or all by name"
        )


def build_examples(
    where: Path | str, rows: NumberedRows, example: type[Example], skip_blank: bool = False
) -> Iterator[Example]:
    """An example from each row; rows that are entirely blank are left out."""
    empty = True
    for number, strings in rows:
        if all(map(str.strip, strings)):
            empty = False
            yield example(*strings)
        elif not skip_blank and any(map(str.strip, strings)):
            blank = [field.name for field, text in zip(fields(example), strings, strict=True) if not text.strip()]
            raise Misfit(
                f"{where}, line {number}: every {example.__name__} needs its {blank[0]}, but it is blank;"
                " correct the line, or leave such lines out with skip_blank=True"
            )
    if empty:
        raise Misfit(f"{where} should hold text, but there is none; check that it is the right file")


FORMATS: dict[str, Callable[..., Iterator[Line] | Iterator[Pair] | Iterator[Labelled]]] = {
    "lines": read_lines,
    "document": read_document,
    "labelled": read_labelled,
    "tsv": read_tsv,
    "jsonl": read_jsonl,
    "parallel": read_parallel,
}
