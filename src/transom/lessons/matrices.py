"""A matrix in a lesson: given row by row, by a name, by a seed, or in a CSV file beside the lesson."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from transom.files.outside import Limits, lines
from transom.files.strict import nearest
from transom.lessons.steps import Matrix
from transom.lessons.table import LARGEST, Table, printed, shown
from transom.names import Misfit

LIMITS = Limits(line=2**16, document=2**20)
MOST = 2**22  # numbers of a matrix
NAMED = {"identity": np.eye, "zeros": lambda rows, columns: np.zeros((rows, columns))}
WAYS = 'give rows of numbers, "identity", { random = 1 } or { csv = "file.csv" }'


def matrix(table: Table, name: str, rows: int | None, columns: int | None) -> Matrix:
    """The matrix under a name; `rows` or `columns` is None where the matrix itself says how many."""
    value = table.settings[name]
    if rows is not None and columns is not None and rows * columns > MOST:
        raise table.wrong(name, f"{name} may have {MOST} numbers, but {rows} × {columns} are more; take a smaller one")
    if isinstance(value, str):
        found = named(table, name, value, rows, columns)
    elif isinstance(value, dict):
        found = made(table, name, rows, columns)
    else:
        found = given(table, name, value)
    for axis, wanted, came in zip(("rows", "columns"), (rows, columns), found.shape, strict=True):
        if wanted is not None and came != wanted:
            raise table.wrong(name, f"{name} must have {wanted} {axis}, but it has {came}; it is {spelled(found)}")
    return found


def vector(table: Table, name: str, width: int) -> Matrix:
    """One row of numbers."""
    value = table.settings[name]
    if isinstance(value, list) and value and not isinstance(value[0], list):
        found = given(table, name, [value])[0]
        if len(found) != width:
            raise table.wrong(name, f"{name} must have {width} numbers, but it has {len(found)}")
        return found
    return matrix(table, name, 1, width)[0]


def spelled(values: Matrix) -> str:
    return f"{values.shape[0]} × {values.shape[1]}"


def named(table: Table, name: str, word: str, rows: int | None, columns: int | None) -> Matrix:
    if word not in NAMED:
        raise table.wrong(name, f"{name} has no matrix {word!r}; {nearest(word, NAMED)} or {WAYS}")
    if rows is None or columns is None:
        raise table.wrong(name, f"{name} = {word!r} has no size here; {WAYS.replace('give ', 'give d_model, or ')}")
    if word == "identity" and rows != columns:
        raise table.wrong(name, f"{name} is {rows} × {columns} here, and only a square matrix has an identity; {WAYS}")
    return NAMED[word](rows, columns)


def made(table: Table, name: str, rows: int | None, columns: int | None) -> Matrix:
    """By a seed, or from a file."""
    inner = alone(table, name).known(("random", "spread", "csv"))
    if ("random" in inner) == ("csv" in inner):
        raise table.wrong(name, f"{name} must come from a seed or from a file; {WAYS}")
    if "csv" in inner:
        return from_csv(inner)
    seed = inner.whole("random", 0, 0, 2**31)
    spread = inner.real("spread", 1.0, 0.0, 1e6)
    if rows is None or columns is None:
        raise table.wrong(name, f"{name} has no size here; give d_model")
    return np.random.default_rng(seed).standard_normal((rows, columns)) * spread


def alone(table: Table, name: str) -> Table:
    """The table under a name from where it stands, not filled from below: a matrix is replaced whole."""
    while name not in table.own and table.below is not None:
        table = table.below
    return Table(table.own[name], (*table.path, name), table.source)


def given(table: Table, name: str, value: Any) -> Matrix:
    """Rows of numbers, all of one length and all finite."""
    if not isinstance(value, list) or not value or not all(isinstance(row, list) and row for row in value):
        raise table.wrong(name, f"{name} must be a matrix, but got {shown(value)}; {WAYS}")
    width = len(value[0])
    for place, row in enumerate(value, start=1):
        if len(row) != width:
            raise table.wrong(name, f"{name} has {width} numbers in row 1, but {len(row)} in row {place}")
        for one in row:
            if printed(one) is None:
                raise table.wrong(
                    name, f"{name} must hold finite numbers up to {LARGEST:g}, but row {place} holds {shown(one)}"
                )
    return np.array([[float(one) for one in row] for row in value], dtype=np.float64)


def from_csv(table: Table) -> Matrix:
    """Numbers with commas between, a row in each line, from a file in the folder of the lesson."""
    path = beside(table, "csv")
    rows: list[list[float]] = []
    for line, text in lines(path, LIMITS):
        if not text.strip():
            continue
        row = [number(path, line, cell) for cell in text.split(",")]
        if rows and len(row) != len(rows[0]):
            raise Misfit(f"{path}, line {line}: a row must have {len(rows[0])} numbers, but this has {len(row)}")
        rows.append(row)
        if len(rows) * len(row) > MOST:
            raise Misfit(
                f"{path}, line {line}: a matrix may have {MOST} numbers, but this has more; take a smaller one"
            )
    if not rows:
        raise Misfit(f"{path} should hold a matrix, but it is empty; write numbers with commas between")
    return np.array(rows, dtype=np.float64)


def number(path: Path, line: int, cell: str) -> float:
    try:
        found = printed(Decimal(cell.strip()))
    except ArithmeticError:
        found = None
    if found is None:
        raise Misfit(
            f"{path}, line {line}: a cell must be a finite number up to {LARGEST:g}, but it is {shown(cell.strip())}"
        )
    return float(found)


def beside(table: Table, name: str) -> Path:
    """The path of a file or folder that is in the folder of the lesson, and not a way out of it."""
    word = table.words(name, longest=500)
    folder = Path(table.source.name).resolve().parent
    try:
        path = (folder / word).resolve()
    except (OSError, ValueError) as error:
        raise table.wrong(name, f"{name} must be a path, but {shown(word)} is none ({error})") from error
    if not path.is_relative_to(folder) or path == folder:
        raise table.wrong(
            name, f"{name} must stay in the folder of the lesson, but {shown(word)} leaves it; copy it there"
        )
    return path
