"""The wrong entries of a claim as a small matrix: printed → right where they differ, a dot where they agree."""

from collections.abc import Iterator

import numpy as np

from transom.lessons.check_claims import Finding

WIDEST = 96  # characters of a line
MOST = 400  # entries; the JSON has all of them


def wrong_detail(finding: Finding) -> str:
    """How many entries are wrong, or the one that is."""
    if finding.verdict == "no slip":
        why = "this is right" if finding.first is None else "it is wrong for another reason"
        return f": marked as the slip {finding.claim.slip!r}, but {why}"
    if finding.first is None:
        return ""
    size, bounds = finding.computed.values.size, finding.claim.value is None
    place, claimed, right = finding.first
    if finding.computed.values.ndim and finding.verdict == "wrong":
        what = f"should be {claimed}, are" if bounds else "printed → right"
        return f": {len(finding.wrong)} of {size} entries, {what}"
    numbers = f"should be {claimed}, is {right}" if bounds else f"printed {claimed}, right {right}"
    return f": {place}: {numbers}" if place else f": {numbers}"


def entry_lines(finding: Finding) -> Iterator[str]:
    """Rows and columns with a wrong entry, in blocks of columns that fit a line; nothing for a single number."""
    wrong, computed = ~finding.matches, finding.computed
    if wrong.ndim == 0:
        return
    cells = entry_cells(finding)
    if wrong.ndim == 1:
        labels = computed.columns or computed.rows or ("",)
        rows, columns, cells, wrong = ("",), labels, [cells], wrong[None]
    else:
        rows, columns, cells = computed.rows, computed.columns, np.array(cells).reshape(wrong.shape).tolist()
    shown_rows = np.flatnonzero(wrong.any(axis=1)).tolist()
    shown_columns = np.flatnonzero(wrong.any(axis=0)).tolist()
    most_rows = max(1, MOST // len(shown_columns))
    table = {
        column: [columns[column], *(cells[row][column] for row in shown_rows[:most_rows])] for column in shown_columns
    }
    yield from block_lines(["", *(rows[row] for row in shown_rows[:most_rows])], table)
    if len(shown_rows) > most_rows:
        yield f"… and {len(shown_rows) - most_rows} more rows"


def entry_cells(finding: Finding) -> list[str]:
    """Each entry as text."""
    entries = zip(finding.matches.ravel(), finding.claimed_texts, finding.right_texts, strict=True)
    bounds = finding.claim.value is None
    return ["·" if matches else f"{right}" if bounds else f"{printed} → {right}" for matches, printed, right in entries]


def block_lines(labels: list[str], table: dict[int, list[str]]) -> Iterator[str]:
    """The columns of a table under their labels, as many side by side as fit."""
    left = max(map(len, labels))
    widths = {column: max(map(len, cells)) for column, cells in table.items()}
    while table:
        room, block = WIDEST - left, []
        for column in table:
            if block and room < widths[column] + 3:
                break
            room -= widths[column] + 3
            block.append(column)
        for line, label in enumerate(labels):
            cells = "   ".join(f"{table[column][line]:>{widths[column]}}" for column in block)
            yield f"{label:<{left}}   {cells}".rstrip() if left else cells.rstrip()
        table = {column: cells for column, cells in table.items() if column not in block}
