"""The confusion matrix of a classifier as a picture: shares of each row in colours, with the counts."""

from collections.abc import Sequence

from transom.show.colours import fit_scale
from transom.show.panels.grid import Grid
from transom.show.picture import Picture, Source, Table


def draw_confusion(labels: Sequence[str], counts: Sequence[Sequence[int]], model: str = "") -> Picture:
    """Rows are the right labels, columns what was predicted; each cell is the share of its row."""
    shares = tuple(tuple(count / max(1, sum(row)) for count in row) for row in counts)
    rows = tuple(f"{label} ({sum(row)})" for label, row in zip(labels, counts, strict=True))
    grid = Grid(
        rows=rows,
        columns=tuple(labels),
        values=shares,
        heat=fit_scale([share for row in shares for share in row], "blues", top=1.0),
        down="right",
        across="predicted",
    )
    table = tuple(
        (right, predicted, count, share)
        for right, row, of_row in zip(labels, counts, shares, strict=True)
        for predicted, count, share in zip(labels, row, of_row, strict=True)
    )
    return Picture(
        view="confusion",
        title="Which labels are confused",
        panels=(grid,),
        source=Source(model=model),
        notes=("Each row is one right label, with the number of its texts; the shares of a row add up to 1.",),
        table=Table(("right", "predicted", "count", "share"), table),
    )
