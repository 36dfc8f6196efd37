"""`transom see --steps`: every step of one head with its numbers, for one token, down to one cell."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transom.files.strict_settings import suggest
from transom.names import Misfit
from transom.show.formatting import make_visible, wrap

if TYPE_CHECKING:
    from transom.cli.see_analysis import SeeResult
    from transom.lens.capture.head_origin import HeadOrigin
    from transom.lessons import Steps
    from transom.show import Picture

CELL_STEPS = ("scores", "scaled", "capped", "biased", "masked", "weights")  # with a number for each FROM, AT
ROWS = 12  # of a matrix on a page
NARROWEST = 40
NO_MODEL = "The steps go from Q to the weighted sum: a saved run has no model, so no X and no parameters."


@dataclass(frozen=True)
class StepsRequest:
    """Which token, and which cell, as the options name them."""

    token: str | None = None
    cell: str | None = None

    def row(self, result: "SeeResult") -> int:
        """The row of the token: the one asked for, or that of the strongest arrow."""
        if self.token is not None:
            with hint_other_attention(result, f"--token {self.token}", self.token):
                return find_token(self.token, result.labels.reads, "--token")
        return result.arrows[0].query if result.arrows else 0

    def to_dict(self, result: "SeeResult") -> dict[str, Any]:
        """The steps, or one cell of them, as plain data."""
        steps, receipt = steps_of_head(result), result.sight.receipt()
        about = {
            "model": result.model,
            "layer": result.layer,
            "head": result.head,
            "chosen": result.chosen,
            "receipt": {"holds": receipt.holds, "said": str(receipt)},
            "note": result.note or None,
            "reads": list(steps.tokens),
            "at": list(steps.at_tokens),
        }
        if self.cell is None:
            row, step_dicts = self.row(result), [step.to_dict() for step in steps]
            return {**about, "row": row, "steps": step_dicts, "notes": list(steps.notes)}
        row, column = parse_cell(self.cell, steps, result)
        cells = {step.name: step.cell(row, column).to_dict() for step in steps if step.name in CELL_STEPS}
        return {**about, "row": row, "column": column, "cell": cells}

    def lines(self, result: "SeeResult", width: int, colour: bool) -> Iterator[str]:
        """The steps of one token, or the arithmetic of one cell, line by line."""
        width = max(NARROWEST, width)
        if self.cell is not None:
            yield from cell_lines(result, self.cell, width)
            return
        row = self.row(result)
        yield from (
            draw_head("steps", result, row=row, columns=6, origin=head_origin(result)).text(width, colour).splitlines()
        )
        yield ""
        at = result.arrows[0].key if result.arrows else 0
        yield f"The arithmetic of one number: --cell {row},{at}. Every token: --html steps.html"

    def picture(self, result: "SeeResult") -> "Picture":
        """Every step as matrices whose cells open; for a long text, some rows from the chosen one on."""
        count = len(result.labels.reads)
        first = 0 if count <= ROWS else min(self.row(result), count - ROWS)
        rows = list(range(first, min(first + ROWS, count)))
        return draw_head("steps", result, rows=rows, tokens_shown=2 * ROWS, origin=head_origin(result))


def draw_head(view: str, result: "SeeResult", **options: Any) -> "Picture":
    """A view of the head."""
    from transom.show import draw

    return draw(view, result.trace, layer=result.layer, head=result.head, model=result.model, **options)


def overview_picture(result: "SeeResult") -> "Picture":
    """The map of the head, and its arrows with their effects, in one picture."""
    from msgspec.structs import replace

    effects = {(arrow.query, arrow.key): arrow.effect for arrow in result.arrows if arrow.effect is not None}
    arrows = draw_head("arrows", result, effect=effects or None)
    matrix = draw_head("matrix", result)
    notes = tuple(dict.fromkeys((*matrix.notes, *arrows.notes)))
    return replace(arrows, title=matrix.title, panels=(*matrix.panels, *arrows.panels), notes=notes)


def steps_of_head(result: "SeeResult") -> "Steps":
    """Every step of the head, with the tokens of its rows and columns."""
    from transom.lessons import steps_of

    labels = result.labels
    return steps_of(result.sight, 0, result.head, labels.reads, labels.at, origin=head_origin(result))


def head_origin(result: "SeeResult") -> "HeadOrigin":
    """The input and the parameters of the head; a saved run has only Q, K and V."""
    from transom.lens.capture.head_origin import HeadOrigin

    if result.text_run is None:
        return HeadOrigin(notes=(NO_MODEL,))
    return result.text_run.find_origin(result.layer, result.sight, result.head)


def cell_lines(result: "SeeResult", cell: str, width: int) -> Iterator[str]:
    """The arithmetic of one cell in each step that has a number for it."""
    steps = steps_of_head(result)
    row, column = parse_cell(cell, steps, result)
    start, at = make_visible(steps.tokens[row]), make_visible(steps.at_tokens[column])
    head = f"{make_visible(result.layer)}, head {result.head}"
    yield from wrap(f"{head}: from “{start}” (row {row}) at “{at}” (column {column})", width)
    for step in steps:
        if step.name in CELL_STEPS:
            yield ""
            yield from wrap(f"{step.name}: {step.title}   {step.equation}", width, "  ")
            arithmetic = " ".join(make_visible(word) for word in step.cell(row, column).to_text().split(" ") if word)
            yield from (f"  {line}" for line in wrap(arithmetic, width - 2, "  "))


def parse_cell(cell: str, steps: "Steps", result: "SeeResult") -> tuple[int, int]:
    """FROM,AT as row and column."""
    start, _, at = (part.strip() for part in cell.partition(","))
    if not start or not at:
        raise Misfit(f"--cell takes FROM,AT, two tokens by number or text, but got {cell!r}; try --cell 0,0")
    with hint_other_attention(result, f"--cell {cell}", start, at):
        return find_token(start, steps.tokens, "FROM"), find_token(at, steps.at_tokens, "AT")


def find_token(wanted: str, tokens: Sequence[str], option: str) -> int:
    """The index of a token that is named by its number or its text; a text that occurs twice needs the number."""
    indices = matching_tokens(wanted, tokens)
    if len(indices) == 1:
        return indices[0]
    if indices:
        numbers = ", ".join(map(str, indices))
        raise Misfit(f"{option} {wanted!r} occurs {len(indices)} times; give its number, one of {numbers}")
    if is_number(wanted):
        raise Misfit(f"{option} {wanted} is none of the {len(tokens)} tokens; count from 0 to {len(tokens) - 1}")
    known = dict.fromkeys(token.strip() for token in tokens)
    raise Misfit(f"{option} {wanted!r} is none of the tokens; {suggest(wanted, known)}")


def matching_tokens(wanted: str, tokens: Sequence[str]) -> list[int]:
    """The indices of the tokens with that number or that text."""
    if is_number(wanted):
        return [int(wanted) % len(tokens)] if -len(tokens) <= int(wanted) < len(tokens) else []
    return [index for index, token in enumerate(tokens) if wanted in (token, token.strip())]


def is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


@contextmanager
def hint_other_attention(result: "SeeResult", option: str, start: str, at: str = "0") -> Iterator[None]:
    """If tokens are not in this attention but in another, name it; one of a layer with the same number first."""
    from transom.lens.attention.labels import in_decoder, is_cross

    def layer_numbers(name: str) -> list[str]:
        return [part for part in name.split(".") if part.isdigit()]

    def layer_text(name: str) -> str:
        side = "from the target at the source" if is_cross(name) else "the target" if in_decoder(name) else "the source"
        return f"{name} ({side})" if result.trace.targets is not None else name

    try:
        yield
    except Misfit:
        labels = {name: result.trace.labels(name) for name in result.trace.names}
        names = [
            name for name, its in labels.items() if matching_tokens(start, its.reads) and matching_tokens(at, its.at)
        ]
        if not names or result.layer in names:
            raise
        other = min(names, key=lambda name: layer_numbers(name) != layer_numbers(result.layer))
        raise Misfit(
            f"{option} is not in {layer_text(result.layer)}, but in {layer_text(other)}; give --layer {other}"
        ) from None
