"""`transom see --steps`: every step of one head with its numbers, one token at a time, down to one cell."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from transom.lessons import Steps
    from transom.show import Picture

CELL = ("scores", "scaled", "capped", "biased", "masked", "weights")  # the steps that have a number for each FROM, AT


def steps_seen(trace: Any, layer: str, head: int) -> "Steps":
    """Every step of a head, labelled by what its rows read and its columns are."""
    from transom.lessons import steps_of

    labels = trace.labels(layer)
    return steps_of(trace[layer], 0, head, labels.reads, labels.at)


def row_picture(trace: Any, layer: str, head: int, row: int, model: str = "") -> "Picture":
    """One token's steps: what is printed in a terminal."""
    from transom.show import draw

    return draw("steps", trace, layer=layer, head=head, row=row, columns=6, model=model)


def whole_picture(trace: Any, layer: str, head: int, row: int | None, model: str = "") -> "Picture":
    """Every step as matrices whose cells open: what goes into a file; of a long text, from the row asked for on."""
    from transom.show import draw

    count = len(trace.labels(layer).reads)
    first = 0 if row is None or count <= 12 else min(row, count - 12)
    rows = range(first, min(first + 12, count))
    return draw("steps", trace, layer=layer, head=head, rows=list(rows), tokens_shown=24, model=model)


def write_pictures(picture: "Picture", files: list[Path | None]) -> Iterator[str]:
    """The picture into each file that was named; gives a line for each."""
    for file in files:
        if file is not None:
            yield f"the picture is in {picture.save(file)}"


def place(asked: str, tokens: tuple[str, ...], what: str) -> int:
    """A token by its number or by its text; a text that stands there twice must be asked for by number."""
    if asked.lstrip("-").isdigit():
        if not -len(tokens) <= int(asked) < len(tokens):
            raise Misfit(f"{what} {asked} is none of the {len(tokens)} tokens; count from 0 to {len(tokens) - 1}")
        return int(asked) % len(tokens)
    alike = [number for number, token in enumerate(tokens) if asked in (token, token.strip())]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise Misfit(
            f"{what} {asked!r} stands there {len(alike)} times; give its number, one of {', '.join(map(str, alike))}"
        )
    from transom.files.strict import nearest

    raise Misfit(
        f"{what} {asked!r} is none of the tokens; {nearest(asked, dict.fromkeys(one.strip() for one in tokens))}"
    )


def cell_of(asked: str, steps: "Steps") -> tuple[int, int]:
    """FROM,AT as row and column."""
    start, comma, at = asked.partition(",")
    if not comma or not start.strip() or not at.strip():
        raise Misfit(f"--cell takes FROM,AT, two tokens by number or text, but got {asked!r}; try --cell 0,0")
    return place(start.strip(), steps.tokens, "FROM"), place(at.strip(), steps.at_tokens, "AT")


def cell_lines(steps: "Steps", row: int, column: int, width: int) -> Iterator[str]:
    """The arithmetic of one cell, written out: each step that has a number for it."""
    from transom.show.visible import visible, wrapped

    yield f"from “{visible(steps.tokens[row])}” (row {row}) at “{visible(steps.at_tokens[column])}” (column {column})"
    for step in steps:
        if step.name in CELL:
            yield ""
            yield from wrapped(f"{step.name}: {step.title}   {step.equation}", width, "  ")
            yield from (f"  {line}" for line in wrapped(shown(step.cell(row, column).written()), width - 2, "  "))


def shown(arithmetic: str) -> str:
    """Arithmetic with whatever its labels hold made visible."""
    from transom.show.visible import visible

    return " ".join(visible(word) for word in arithmetic.split(" ") if word)


def told(steps: "Steps", row: int | None, cell: tuple[int, int] | None) -> dict[str, Any]:
    """The same as plain data."""
    found: dict[str, Any] = {"tokens": list(steps.tokens), "at": list(steps.at_tokens)}
    if cell is not None:
        found |= {"from_row": cell[0], "at_column": cell[1]}
        found["cell"] = {step.name: step.cell(*cell).plain() for step in steps if step.name in CELL}
        return found
    found["steps"] = [step.plain() for step in steps]
    return found if row is None else {**found, "row": row}
