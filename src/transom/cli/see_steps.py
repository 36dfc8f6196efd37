"""`transom see --steps`: every step of one head with its numbers, one token at a time, down to one cell."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from transom.cli.seen import Seen
    from transom.lessons import Steps
    from transom.show import Picture

CELL = ("scores", "scaled", "capped", "biased", "masked", "weights")  # the steps that have a number for each FROM, AT
ROWS = 12  # of a matrix on a page
NARROWEST = 40
NO_MODEL = "The steps go from Q to the weighted sum: a run from a file has no model, so no X and no parameters."


@dataclass(frozen=True)
class StepsAsked:
    """Which token, and which cell, as the command was told."""

    token: str | None = None
    cell: str | None = None

    def row(self, seen: "Seen") -> int:
        """The token to follow: the one asked for, or that of the strongest arrow."""
        if self.token is not None:
            with pointing(seen, f"--token {self.token}", self.token):
                return place(self.token, seen.labels.reads, "--token")
        return seen.arrows[0].query if seen.arrows else 0

    def told(self, seen: "Seen") -> dict[str, Any]:
        """The same as plain data."""
        steps, receipt = steps_of_head(seen), seen.sight.receipt()
        found: dict[str, Any] = {"model": seen.model, "layer": seen.layer, "head": seen.head, "chosen": seen.chosen}
        found["receipt"] = {"holds": receipt.holds, "said": str(receipt)}
        found |= {"note": seen.note or None, "reads": list(steps.tokens), "at": list(steps.at_tokens)}
        if self.cell is None:
            return {
                **found,
                "row": self.row(seen),
                "steps": [step.plain() for step in steps],
                "notes": list(steps.notes),
            }
        row, column = cell_of(self.cell, steps, seen)
        cells = {step.name: step.cell(row, column).plain() for step in steps if step.name in CELL}
        return {**found, "row": row, "column": column, "cell": cells}


def steps_of_head(seen: "Seen") -> "Steps":
    """Every step of the head, labelled by what its rows read and its columns are."""
    from transom.lessons import steps_of

    return steps_of(seen.sight, 0, seen.head, seen.labels.reads, seen.labels.at, origin=origin_of(seen))


def origin_of(seen: "Seen") -> Any:
    """What the head was made from and into; a run from a file has only Q, K and V."""
    from transom.lens.asking.origin import Origin, origin

    if seen.ran is None:
        return Origin(notes=(NO_MODEL,))
    model, fed, _ = seen.ran
    return origin(model.model, lambda: model.run(fed), seen.layer, seen.sight, seen.head)


def stepped(seen: "Seen", asked: StepsAsked, width: int, colour: bool) -> Iterator[str]:
    """One token's steps, or one cell's arithmetic, line by line."""
    from transom.show import draw

    width = max(NARROWEST, width)
    if asked.cell is not None:
        yield from cell_lines(seen, asked.cell, width)
        return
    row = asked.row(seen)
    where = {"layer": seen.layer, "head": seen.head, "model": seen.model}
    yield from (
        draw("steps", seen.trace, row=row, columns=6, origin=origin_of(seen), **where).text(width, colour).splitlines()
    )
    yield ""
    at = seen.arrows[0].key if seen.arrows else 0
    yield f"The arithmetic of one number: --cell {row},{at}. Every token: --html steps.html"


def cell_lines(seen: "Seen", asked: str, width: int) -> Iterator[str]:
    """The arithmetic of one cell, written out: each step that has a number for it."""
    from transom.show.visible import visible, wrapped

    steps = steps_of_head(seen)
    row, column = cell_of(asked, steps, seen)
    start, at = visible(steps.tokens[row]), visible(steps.at_tokens[column])
    yield from wrapped(
        f"{visible(seen.layer)}, head {seen.head}: from “{start}” (row {row}) at “{at}” (column {column})", width
    )
    for step in steps:
        if step.name in CELL:
            yield ""
            yield from wrapped(f"{step.name}: {step.title}   {step.equation}", width, "  ")
            arithmetic = " ".join(visible(word) for word in step.cell(row, column).written().split(" ") if word)
            yield from (f"  {line}" for line in wrapped(arithmetic, width - 2, "  "))


def write_pictures(seen: "Seen", asked: StepsAsked | None, files: list[Path | None]) -> Iterator[str]:
    """The picture into each file that was named; gives a line for each."""
    wanted = [file for file in files if file is not None]
    picture = (overview(seen) if asked is None else all_steps(seen, asked)) if wanted else None
    for file in wanted:
        assert picture is not None
        yield f"the picture is in {picture.save(file)}"


def overview(seen: "Seen") -> "Picture":
    """The head's map, and its arrows with what they are worth, in one picture."""
    from msgspec.structs import replace

    from transom.show import draw

    where = {"layer": seen.layer, "head": seen.head, "model": seen.model}
    known = {(one.query, one.key): one.effect for one in seen.arrows if one.effect is not None}
    arrows = draw("arrows", seen.trace, effect=known or None, **where)
    matrix = draw("matrix", seen.trace, **where)
    notes = tuple(dict.fromkeys((*matrix.notes, *arrows.notes)))
    return replace(arrows, title=matrix.title, panels=(*matrix.panels, *arrows.panels), notes=notes)


def all_steps(seen: "Seen", asked: StepsAsked) -> "Picture":
    """Every step as matrices whose cells open; of a long text, a few rows from the one asked for on."""
    from transom.show import draw

    count = len(seen.labels.reads)
    first = 0 if count <= ROWS else min(asked.row(seen), count - ROWS)
    rows = list(range(first, min(first + ROWS, count)))
    where = {"layer": seen.layer, "head": seen.head, "model": seen.model}
    return draw("steps", seen.trace, rows=rows, tokens_shown=2 * ROWS, origin=origin_of(seen), **where)


def place(asked: str, tokens: list[str] | tuple[str, ...], what: str) -> int:
    """A token by its number or by its text; a text that stands there twice must be asked for by number."""
    if asked.lstrip("-").isdigit():
        if not -len(tokens) <= int(asked) < len(tokens):
            raise Misfit(f"{what} {asked} is none of the {len(tokens)} tokens; count from 0 to {len(tokens) - 1}")
        return int(asked) % len(tokens)
    alike = [number for number, token in enumerate(tokens) if asked in (token, token.strip())]
    if len(alike) == 1:
        return alike[0]
    if alike:
        numbers = ", ".join(map(str, alike))
        raise Misfit(f"{what} {asked!r} stands there {len(alike)} times; give its number, one of {numbers}")
    from transom.files.strict import nearest

    raise Misfit(
        f"{what} {asked!r} is none of the tokens; {nearest(asked, dict.fromkeys(one.strip() for one in tokens))}"
    )


def within(asked: str, tokens: list[str]) -> bool:
    """Whether a token is there, by its number or by its text."""
    if asked.lstrip("-").isdigit():
        return -len(tokens) <= int(asked) < len(tokens)
    return any(asked in (token, token.strip()) for token in tokens)


@contextmanager
def pointing(seen: "Seen", what: str, start: str, at: str = "0") -> Iterator[None]:
    """Where tokens are not in this attention, but in another, say in which: one of a layer of that number first."""
    from transom.lens.labels import in_decoder, is_cross

    def numbers(name: str) -> list[str]:
        return [part for part in name.split(".") if part.isdigit()]

    def told(name: str) -> str:
        side = "from the target at the source" if is_cross(name) else "the target" if in_decoder(name) else "the source"
        return f"{name} ({side})" if seen.trace.targets is not None else name

    try:
        yield
    except Misfit:
        labels = {name: seen.trace.labels(name) for name in seen.trace.names}
        names = [name for name, its in labels.items() if within(start, its.reads) and within(at, its.at)]
        if not names or seen.layer in names:
            raise
        other = min(names, key=lambda name: numbers(name) != numbers(seen.layer))
        raise Misfit(f"{what} is not in {told(seen.layer)}, but in {told(other)}; give --layer {other}") from None


def cell_of(asked: str, steps: "Steps", seen: "Seen") -> tuple[int, int]:
    """FROM,AT as row and column."""
    start, comma, at = asked.partition(",")
    if not comma or not start.strip() or not at.strip():
        raise Misfit(f"--cell takes FROM,AT, two tokens by number or text, but got {asked!r}; try --cell 0,0")
    with pointing(seen, f"--cell {asked}", start.strip(), at.strip()):
        return place(start.strip(), steps.tokens, "FROM"), place(at.strip(), steps.at_tokens, "AT")
