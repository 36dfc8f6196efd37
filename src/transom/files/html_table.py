"""A table as HTML for a notebook and as text everywhere else; whatever is in it is shown as text, never as markup."""

import re
from collections.abc import Sequence
from html import escape

from transom.files.terminal import escape_controls

MOST_ROWS = 200
NUMBER = re.compile(r"[+−-]?\d[\d.,]*(?:e[+-]?\d+)?|–")
CELL = 'style="text-align:{side};padding:.2em .6em;white-space:nowrap;font-variant-numeric:tabular-nums"'


class DisplayedTable:
    """Something with `table_cells` and `__str__`: a notebook shows it as a table, a terminal as text."""

    def table_cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """The heads of the columns, and the cells of each row as they are printed."""
        raise NotImplementedError

    def table_notes(self) -> Sequence[str]:
        """What stands below the table."""
        return ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        heads, rows = self.table_cells()
        return render_html_table(heads, rows, self.table_notes())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def render_html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """At most 200 rows; numbers are aligned to the right. A note says how many are left out."""
    shown = rows[:MOST_ROWS]
    sides = ["right" if all(NUMBER.fullmatch(row[k]) for row in shown) else "left" for k in range(len(heads))]
    head = "".join(render_cell("th", text, side) for text, side in zip(heads, sides, strict=True))
    body = "".join(
        f"<tr>{''.join(render_cell('td', text, side) for text, side in zip(row, sides, strict=True))}</tr>"
        for row in shown
    )
    left_out = f"{len(rows) - len(shown):,} more rows are not shown" if len(rows) > len(shown) else ""
    below = "".join(f"<p>{to_text(note)}</p>" for note in [left_out, *notes] if note)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if heads else ""
    return f"<div>{table}{below}</div>"


def render_cell(tag: str, text: str, side: str) -> str:
    return f"<{tag} {CELL.format(side=side)}>{to_text(text)}</{tag}>"


def to_text(text: str) -> str:
    return escape(escape_controls(text))
