"""Training texts, streamed from plain text, tables, JSON lines and parallel files, or a .gz of each."""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from transom.files.strict_settings import json_kind, parse_json_object, suggest
from transom.files.untrusted_files import (
    BYTE_ORDER_MARK,
    LIMITS,
    Limits,
    decode_utf8,
    read_bytes,
    read_raw_lines,
    require_file,
)
from transom.names import Misfit
from transom.text.examples import (
    Example,
    Labelled,
    Line,
    NumberedRows,
    Pair,
    build_examples,
    check_chosen,
    decode_line,
    parse_lines,
)
from transom.text.table_files import read_csv, read_parquet, read_tsv


def read_lines(path: Path | str, limits: Limits = LIMITS) -> Iterator[Line]:
    """Each line of a text; blank ones are left out."""
    path = require_file(path)
    return build_examples(path, parse_lines(path, limits, lambda number, line: (line,)), Line)


def read_document(path: Path | str, limits: Limits = LIMITS) -> Iterator[Line]:
    """The whole file as one text, line ends included."""
    path = require_file(path)

    def rows() -> NumberedRows:
        yield 1, (decode_utf8(path, read_bytes(path, limits).removeprefix(BYTE_ORDER_MARK)),)

    return build_examples(path, rows(), Line)


def read_labelled(path: Path | str, skip_blank: bool = False, limits: Limits = LIMITS) -> Iterator[Labelled]:
    """Lines that start with their label: everything up to the first space or tab."""
    path = require_file(path)

    def parse(number: int, line: str) -> Sequence[str]:
        label, _, text = line.replace("\t", " ", 1).partition(" ")
        return text, label

    return build_examples(path, parse_lines(path, limits, parse), Labelled, skip_blank)


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

    def parse(number: int, line: str) -> Sequence[str] | None:
        if not line.strip():
            return None
        where = f"{path}, line {number}"
        content = parse_json_object(line.encode(), where, limits.line)
        return [field_text(where, content, key) for key in keys]

    return build_examples(path, parse_lines(path, limits, parse), example, skip_blank)


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
        raise Misfit(f"{where}: field {key!r} must be a string, but it is {json_kind(value)}; correct the line")
    return value


def read_parallel(
    source: Path | str, target: Path | str, skip_blank: bool = False, limits: Limits = LIMITS
) -> Iterator[Pair]:
    """Two files, line by line."""
    paths = require_file(source), require_file(target)

    def rows() -> NumberedRows:
        sides = zip_longest(*(read_raw_lines(path, limits) for path in paths))
        source_line: tuple[int, bytes] | None
        target_line: tuple[int, bytes] | None
        for number, (source_line, target_line) in enumerate(sides, start=1):
            if source_line is None or target_line is None:
                shorter, longer = paths if source_line is None else paths[::-1]
                raise Misfit(
                    f"{longer}, line {number}: expected the same number of lines in {shorter}, but it is shorter;"
                    " use two files that belong together"
                )
            try:
                yield number, (decode_line(paths[0], *source_line), decode_line(paths[1], *target_line))
            except Misfit as error:
                yield number, error

    return build_examples(f"{paths[0]} and {paths[1]}", rows(), Pair, skip_blank)


FORMATS: dict[str, Callable[..., Iterator[Line] | Iterator[Pair] | Iterator[Labelled]]] = {
    "lines": read_lines,
    "document": read_document,
    "labelled": read_labelled,
    "tsv": read_tsv,
    "csv": read_csv,
    "parquet": read_parquet,
    "jsonl": read_jsonl,
    "parallel": read_parallel,
}
