"""Examples from tables: columns of TSV, CSV and Parquet files."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transom.files.strict_settings import suggest
from transom.files.untrusted_files import LIMITS, Limits, read_raw_lines, require_file
from transom.names import Misfit
from transom.text.examples import Example, NumberedRows, build_examples, check_chosen, decode_line, parse_lines

PARQUET_ROWS = 1024  # that are decoded at once


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
    cells = parse_lines(path, limits, lambda number, line: line.split("\t"))
    return build_examples(path, choose_columns(path, cells, columns, "tabs"), example, skip_blank)


def read_csv(
    path: Path | str,
    columns: Sequence[int] | Sequence[str],
    example: type[Example],
    skip_blank: bool = False,
    limits: Limits = LIMITS,
) -> Iterator[Example]:
    """The same for comma-separated values; a cell in double quotes may hold commas, line ends and doubled quotes."""
    path = require_file(path)
    check_chosen(columns, example, "columns")
    return build_examples(path, choose_columns(path, csv_rows(path, limits), columns, "commas"), example, skip_blank)


def choose_columns(
    path: Path, rows: NumberedRows, columns: Sequence[int] | Sequence[str], separators: str
) -> NumberedRows:
    """The chosen cells of each row; every row has as many cells as the first."""
    first, header = next(rows, (1, [""]))
    if isinstance(header, Misfit):
        raise header
    indices = [column_index(path, column, header, separators) for column in columns]
    if not isinstance(columns[0], str) and header != [""]:
        yield first, [header[index] for index in indices]
    for number, row in rows:
        if isinstance(row, Misfit) or row in ([""], []):
            yield number, row
        elif len(row) != len(header):
            expected = f"expected {len(header)} columns as in line 1"
            yield number, Misfit(f"{path}, line {number}: {expected}, but there are {len(row)}; correct the line")
        else:
            yield number, [row[index] for index in indices]


def column_index(path: Path, column: int | str, header: Sequence[str], separators: str) -> int:
    """The number of a column, checked against the first line."""
    if isinstance(column, str):
        if column not in header:
            raise Misfit(f"{path}, line 1: there is no column {column!r}; {suggest(column, header)}")
        return list(header).index(column)
    if not 0 <= column < len(header):
        raise Misfit(
            f"{path}, line 1: there is no column {column} of {len(header)}; count from 0, and check the {separators}"
        )
    return column


class DecodedLines:
    """The lines of a file with their ends, as text; one that is no UTF-8 raises an error, and the next one follows."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path, self.lines, self.number = path, read_raw_lines(path, limits), 0

    def __iter__(self) -> "DecodedLines":
        return self

    def __next__(self) -> str:
        self.number, line = next(self.lines)
        return decode_line(self.path, self.number, line) + "\n"


def csv_rows(path: Path, limits: Limits) -> NumberedRows:
    """The cells of each record, with the number of its first line; a blank line is the row [""]."""
    lines = DecodedLines(path, limits)
    reader = csv.reader(lines, strict=True)
    while True:
        number = lines.number + 1
        try:
            yield number, next(reader) or [""]
        except StopIteration:
            return
        except csv.Error as error:
            yield (
                number,
                Misfit(f"{path}, line {number}: expected comma-separated values, but {error}; correct the quotes"),
            )
        except Misfit as error:
            if lines.number < number:  # nothing was read: the file itself cannot be read on
                raise
            yield number, error


def read_parquet(
    path: Path | str,
    columns: Sequence[str],
    example: type[Example],
    skip_blank: bool = False,
    limits: Limits = LIMITS,
) -> Iterator[Example]:
    """Chosen columns of a Parquet file, by name: strings, or whole numbers, which become their digits."""
    path = require_file(path)
    check_chosen(columns, example, "columns")
    return build_examples(path, parquet_rows(path, columns, limits), example, skip_blank)


def parquet_rows(path: Path, columns: Sequence[str], limits: Limits) -> NumberedRows:
    """The chosen cells of each row; the number of a row counts from 1."""
    file = open_parquet(path, columns)
    number = 0
    try:
        for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=list(columns)):
            for row in batch.to_pylist():
                number += 1
                yield number, cell_texts(f"{path}, line {number}", [row[name] for name in columns], columns, limits)
    except (OSError, ValueError) as error:  # pyarrow's errors are kinds of these
        if isinstance(error, Misfit):
            raise
        raise Misfit(
            f"{path} should be a Parquet file, but it cannot be read on ({one_line(error)}); take another copy"
        ) from error


def open_parquet(path: Path, columns: Sequence[str]) -> Any:
    """The file opened by pyarrow, with all the columns asked for."""
    try:
        import pyarrow.parquet  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise Misfit("Parquet is read by pyarrow, which is not installed; pip install 'transom[parquet]'") from error
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise Misfit(
            f"{path} should be a Parquet file, but it is not ({one_line(error)}); name another file"
        ) from error
    for column in columns:
        if column not in file.schema_arrow.names:
            names = file.schema_arrow.names
            raise Misfit(f"{path}: there is no column {column!r}; {suggest(str(column), names)}")
    return file


def one_line(error: Exception) -> str:
    """An error of pyarrow's, which may have several lines."""
    return " ".join(str(error).split())


def cell_texts(where: str, cells: list[object], columns: Sequence[str], limits: Limits) -> list[str] | Misfit:
    """The cells of a row as texts."""
    texts = [str(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell for cell in cells]
    texts = ["" if text is None else text for text in texts]
    for column, text in zip(columns, texts, strict=True):
        if not isinstance(text, str):
            kind = type(text).__name__
            return Misfit(f"{where}: column {column!r} must hold strings, but there is a {kind}; correct the row")
        if len(text) > limits.line:
            return Misfit(
                f"{where}: a cell may have {limits.line} characters, but column {column!r} has more; break it up"
            )
    return [str(text) for text in texts]
