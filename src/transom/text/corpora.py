"""Texts to learn from, streamed out of plain text, TSV, JSONL and parallel files, or a .gz of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import zip_longest
from pathlib import Path

from transom.files.documents import Malformed, decode_json
from transom.files.outside import BYTE_ORDER_MARK, LIMITS, Limits, checked, decoded, lines, whole
from transom.files.strict import nearest
from transom.names import Misfit
from transom.text.examples import Example, Labelled, Line, Pair, Some

Numbered = Iterator[tuple[int, Sequence[str]]]  # line number and the strings of one example


def read_lines(path: Path | str, limits: Limits = LIMITS) -> Iterator[Line]:
    """Each line of a text; blank ones are left out."""
    path = checked(path)
    return examples(path, ((number, (line,)) for number, line in lines(path, limits)), Line)


def read_document(path: Path | str, limits: Limits = LIMITS) -> Iterator[Line]:
    """A whole file as one text, with its line ends as they are."""
    path = checked(path)

    def rows() -> Numbered:
        yield 1, (decoded(path, whole(path, limits).removeprefix(BYTE_ORDER_MARK)),)

    return examples(path, rows(), Line)


def read_labelled(path: Path | str, skip_blank: bool = False, limits: Limits = LIMITS) -> Iterator[Labelled]:
    """Lines that start with their label: everything up to the first space or tab."""
    path = checked(path)

    def rows() -> Numbered:
        for number, line in lines(path, limits):
            label, _, text = line.replace("\t", " ", 1).partition(" ")
            yield number, (text, label)

    return examples(path, rows(), Labelled, skip_blank)


def read_tsv(
    path: Path | str,
    columns: Sequence[int] | Sequence[str],
    example: type[Some],
    skip_blank: bool = False,
    limits: Limits = LIMITS,
) -> Iterator[Some]:
    """Chosen columns of lines divided by tabs, by number from 0, or by name if the first line has names.

    Quotation marks mean nothing special: a text cannot hold a tab or a line end.
    """
    path = checked(path)
    check_chosen(columns, example, "columns")

    def rows() -> Numbered:
        numbered = ((number, line.split("\t")) for number, line in lines(path, limits))
        first, head = next(numbered, (1, [""]))
        places = [place(path, column, head) for column in columns]
        if not isinstance(columns[0], str) and head != [""]:
            yield first, [head[place] for place in places]
        for number, row in numbered:
            if row != [""] and len(row) != len(head):
                raise Misfit(
                    f"{path}, line {number}: expected {len(head)} columns as in line 1, but there are {len(row)};"
                    " mend the line"
                )
            yield number, [row[place] for place in places] if row != [""] else [""]

    return examples(path, rows(), example, skip_blank)


def place(path: Path, column: int | str, head: Sequence[str]) -> int:
    """Where a column stands, by the first line."""
    if isinstance(column, str):
        if column not in head:
            raise Misfit(f"{path}, line 1: there is no column {column!r}; {nearest(column, head)}")
        return head.index(column)
    if not 0 <= column < len(head):
        raise Misfit(
            f"{path}, line 1: column {column} was chosen, but there are {len(head)};"
            f" count from 0, and check that tabs divide them"
        )
    return column


def read_jsonl(
    path: Path | str,
    keys: Sequence[str],
    example: type[Some],
    skip_blank: bool = False,
    limits: Limits = LIMITS,
) -> Iterator[Some]:
    """Chosen fields of lines that are a JSON object each; `translation.fr` is the field fr of the object translation.

    A field holds a string, or a whole number, which is taken as its digits.
    """
    path = checked(path)
    check_chosen(keys, example, "keys")

    def rows() -> Numbered:
        for number, line in lines(path, limits):
            if line.strip():
                found = parsed(path, number, line, limits)
                yield number, [string(path, number, found, key) for key in keys]

    return examples(path, rows(), example, skip_blank)


def parsed(path: Path, number: int, line: str, limits: Limits) -> dict[str, object]:
    try:
        found = decode_json(line, most=limits.line)
    except Malformed as error:
        raise Misfit(f"{path}, line {number}: expected JSON, but {error}; mend the line") from error
    if not isinstance(found, dict):
        raise Misfit(f"{path}, line {number}: expected a JSON object, but it is a {type(found).__name__}; write {{…}}")
    return found


def string(path: Path, number: int, found: dict[str, object], key: str) -> str:
    """The text under a key, or under a path of keys with dots between them."""
    value: object = found
    for step in [key] if key in found else key.split("."):
        if not isinstance(value, dict) or step not in value:
            raise Misfit(f"{path}, line {number}: there is no field {key!r}; {nearest(key, map(str, found))}")
        value = value[step]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise Misfit(
            f"{path}, line {number}: field {key!r} must be a string, but it is a {type(value).__name__}; mend the line"
        )
    return value


def read_parallel(
    source: Path | str, target: Path | str, skip_blank: bool = False, limits: Limits = LIMITS
) -> Iterator[Pair]:
    """Two files of which each line of one belongs to the same line of the other."""
    paths = checked(source), checked(target)

    def rows() -> Numbered:
        both = zip_longest(lines(paths[0], limits), lines(paths[1], limits))
        for number, (here, there) in enumerate(both, start=1):
            if here is None or there is None:
                ended, longer = paths if here is None else paths[::-1]
                raise Misfit(
                    f"{longer}, line {number}: expected the same number of lines in {ended}, but it ends before;"
                    " take the two that belong together"
                )
            yield number, (here[1], there[1])

    return examples(f"{paths[0]} and {paths[1]}", rows(), Pair, skip_blank)


def check_chosen(chosen: Sequence[object], example: type[Example], what: str) -> None:
    """One column or field is chosen for each part of an example."""
    wanted = [field.name for field in fields(example)]
    if isinstance(chosen, str) or len(chosen) != len(wanted) or len({type(one) for one in chosen}) > 1:
        raise Misfit(
            f"a {example.__name__} is made of {' and '.join(wanted)}, but {what}={chosen!r} came;"
            f" choose {len(wanted)}, all by number or all by name"
        )


def examples(where: Path | str, rows: Numbered, example: type[Some], skip_blank: bool = False) -> Iterator[Some]:
    """An example from each row, once it is seen to hold something; rows with nothing at all are left out."""
    came = False
    for number, strings in rows:
        if all(map(str.strip, strings)):
            came = True
            yield example(*strings)
        elif not skip_blank and any(map(str.strip, strings)):
            names = [field.name for field, text in zip(fields(example), strings, strict=True) if not text.strip()]
            raise Misfit(
                f"{where}, line {number}: every {example.__name__} needs its {names[0]}, but it is blank;"
                " mend the line, or leave such lines out with skip_blank=True"
            )
    if not came:
        raise Misfit(f"{where} should hold text, but there is none; check that it is the right file")


FORMATS: dict[str, Callable[..., Iterator[Line] | Iterator[Pair] | Iterator[Labelled]]] = {
    "lines": read_lines,
    "document": read_document,
    "labelled": read_labelled,
    "tsv": read_tsv,
    "jsonl": read_jsonl,
    "parallel": read_parallel,
}
