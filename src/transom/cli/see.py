"""`transom see`: run a model on a text and show where it looks: the head, its map, its arrows and its measures."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from transom.cli.cli_io import AnyModel, AsJson, print_json, print_note, print_picture, print_text, shows_colours
from transom.names import Misfit, count_noun
from transom.show.colours import bold, dim
from transom.show.formatting import clip, display_width, make_visible, pad, short_label, wrap

if TYPE_CHECKING:
    from transom.cli.see_analysis import SeeRequest, SeeResult
    from transom.cli.see_steps import StepsRequest
    from transom.serve.offline_page import OfflinePage

MOST_ROWS = 14  # of a map that is printed by default
NARROWEST = 20
LABEL = 18  # columns of a row label of the map
CAUTION = "A weight is what the head read; the effect is what mattered."
UNITS = {
    "nats": "effect: how far the model's output moves without that arrow, in nats (KL, all positions together)",
    "share": "effect: by which share of their length the model's vectors move without that arrow",
}


LayerOption = Annotated[
    str | None,
    typer.Option(help="A layer: its number, its path, or a pattern with *; by default the one that matters most."),
]
HeadOption = Annotated[
    int | None, typer.Option(help="A head of that layer, from 0; by default the one that matters most.")
]
TargetOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="The target of an encoder–decoder; by default what it writes.")
]
GenerateOption = Annotated[
    int, typer.Option(min=0, metavar="N", help="Let a decoder continue the text, by N tokens at most.")
]
TraceOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Show a run that --save wrote, instead of a text.")
]
StepsOption = Annotated[bool, typer.Option("--steps", help="Every step of the head for one token, with its numbers.")]
TokenOption = Annotated[
    str | None,
    typer.Option(metavar="FROM", help="The token of --steps, by number or text; by default the strongest arrow's."),
]
ByOption = Annotated[
    Literal["influence", "weight"],
    typer.Option(help="Which arrows: those that matter most, or those with the largest weights."),
]
RefineOption = Annotated[
    int, typer.Option(min=0, metavar="N", help="Heads that are knocked out; 0 shows estimates alone, at once.")
]
CellOption = Annotated[str | None, typer.Option(metavar="FROM,AT", help="The arithmetic of one score and one weight.")]
PageOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Save the run as an interactive page that needs no server.")
]


def run(
    text: Annotated[str, typer.Argument(help="What the model reads.")] = "",
    model: AnyModel = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    target: TargetOption = None,
    generate: GenerateOption = 0,
    arrows: Annotated[int, typer.Option(min=1, help="How many arrows.")] = 8,
    by: ByOption = "influence",
    refine: RefineOption = 8,
    everything: Annotated[bool, typer.Option("--all", help="Every head at a glance, and the whole map.")] = False,
    trace: TraceOption = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the run with every head.")] = None,
    steps: StepsOption = False,
    token: TokenOption = None,
    cell: CellOption = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the picture as an HTML page.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the picture as an SVG figure.")] = None,
    page: PageOption = None,
    as_json: AsJson = False,
) -> None:
    """See where a model looks in a text: the head that matters most, its arrows that matter most, and their effects.

    Example: transom see "We are going home."

    One head of a layer: transom see "The cat sat." --layer encoder.blocks.1 --head 3

    An interactive page: transom see "The cat sat." --page look.html

    Every step of it: transom see "The cat sat." --steps --html steps.html
    """
    from transom.cli.see_analysis import SeeRequest
    from transom.cli.see_steps import StepsRequest

    if not text and trace is None:
        raise Misfit("there should be a text to look into, but there is none; give one, or --trace FILE")
    result = analyse_or_exit(SeeRequest(text, model, layer, head, target, generate, arrows, trace, by, refine))
    steps_request = StepsRequest(token, cell) if steps or token is not None or cell is not None else None
    save_run(result, save, page)
    save_picture(result, steps_request, [file for file in (html, svg) if file is not None])
    if as_json:
        print_json(result.to_dict() if steps_request is None else steps_request.to_dict(result))
        return
    width, colour = shutil.get_terminal_size((100, 24)).columns, shows_colours()
    lines = result_lines(result, width, colour, everything)
    for line in lines if steps_request is None else steps_request.lines(result, width, colour):
        print_picture(line)


def analyse_or_exit(request: "SeeRequest") -> "SeeResult":
    """The result; if a receipt fails, nothing is shown and the exit code is 1."""
    from transom.cli.see_analysis import analyse
    from transom.lens.trace import ReceiptFailed

    try:
        return analyse(request)
    except ReceiptFailed as error:
        print_note(str(error))
        raise typer.Exit(1) from None


def save_run(result: "SeeResult", save: Path | None, page: Path | None) -> None:
    """Save the run as a trace and as a page, if asked."""
    if save is not None:
        result.trace.save(save)
        print_text(f"the run is in {save}; see it again with transom see --trace {save}", stderr=True)
    if page is not None:
        path = build_offline_page(result).save(page)
        print_text(f"the run is in {path}, a page to open in a browser", stderr=True)


def save_picture(result: "SeeResult", steps_request: "StepsRequest | None", files: list[Path]) -> None:
    """Save the picture in each file: the head, or all its steps."""
    from transom.cli.see_steps import overview_picture

    if files:
        picture = overview_picture(result) if steps_request is None else steps_request.picture(result)
        for file in files:
            print_text(f"the picture is in {picture.save(file)}", stderr=True)


def build_offline_page(result: "SeeResult") -> "OfflinePage":
    """The run as an offline page, with the same head open."""
    from transom.serve.offline_answers import HeadIndex
    from transom.serve.offline_page import build_page
    from transom.serve.session import Session

    head = HeadIndex(result.trace.names.index(result.layer), result.head)
    if result.text_run is None:
        session = Session(trace=result.trace, name=result.model)
        return build_page(session, session.run("1"), head)
    session = Session(result.text_run.model)
    return build_page(session, session.add(result.trace, result.text_run.to_dict(), result.text_run), head)


def result_lines(result: "SeeResult", width: int, colour: bool, everything: bool) -> Iterator[str]:
    """The result as text, line by line, none wider than the terminal."""
    width = max(NARROWEST, width)
    strong, weak = (bold, dim) if colour else (str, str)
    yield from map(strong, wrap(headline(result), width))
    yield from map(weak, wrap(head_sentence(result), width))
    if everything:
        yield from drawn_lines(result, "heads", width, colour)
    labels = result.labels
    if everything or len(labels.reads) <= MOST_ROWS:
        rows = [row_label(result, row, LABEL) for row in range(len(labels.reads))]
        yield from drawn_lines(
            result, "matrix", width, colour, layer=result.layer, head=result.head, tokens=rows, at=labels.at
        )
    yield from arrow_lines(result, width, colour)
    yield ""
    for sentence in (measures_sentence(result), *notes(result)):
        yield from map(weak, wrap(sentence, width))


def headline(result: "SeeResult") -> str:
    """The text, the output, and the model."""
    text = f"“{make_visible(result.text)}”" if result.text else count_noun(len(result.trace.names), "attention")
    output = f" → “{make_visible(result.output.strip())}”" if result.output else ""
    return f"{text}{output}  ({make_visible(result.model)})"


def head_sentence(result: "SeeResult") -> str:
    """Which head this is, why it is shown, and its receipt."""
    receipt = result.sight.receipt()
    proof = "the receipt holds" if receipt.holds else f"receipt {receipt}"
    heads = count_noun(result.head_count, "head")
    if result.compared is not None and result.compared < result.head_count:
        which = "asked for" if result.has_layer else "from the target at the source"
        heads = f"the {count_noun(result.compared, 'head')} {which}"
    return f"{make_visible(result.layer)}, head {result.head}, of {heads}: {result.chosen}; {proof}"


def drawn_lines(result: "SeeResult", view: str, width: int, colour: bool, **options: object) -> Iterator[str]:
    """The panels of a view as text."""
    from transom.show import draw

    for panel in draw(view, result.trace, **options).panels:
        yield from ("", *panel.lines(width, colour))


def arrow_lines(result: "SeeResult", width: int, colour: bool) -> Iterator[str]:
    """A line for each arrow: weight, effect (or its estimate), from, at."""
    if not result.arrows:
        return
    strong, weak = (bold, dim) if colour else (str, str)
    room = max(4, (width - 20) // 2)
    starts = [row_label(result, arrow.query, room) for arrow in result.arrows]
    margin = max(map(display_width, starts))
    effects = [arrow.effect if has_effects(result) else arrow.estimate for arrow in result.arrows]
    yield ""
    yield strong(arrows_heading(result)[:width])
    for arrow, start, effect in zip(result.arrows, starts, effects, strict=True):
        number = "" if effect is None else f"  {format_effect(effect)}"
        at = short_label(result.labels.at[arrow.key], room)
        line = f"{arrow.weight:6.3f}{number}  {pad(start, margin)} → {at}"
        line += f"  {arrow.flag}" if arrow.flag and display_width(line) + len(arrow.flag) + 2 <= width else ""
        idle = arrow.effect is not None and arrow.flag.startswith("thick")
        yield weak(clip(line, width)) if idle else clip(line, width)


def has_effects(result: "SeeResult") -> bool:
    """Whether the arrows were knocked out."""
    return any(arrow.effect is not None for arrow in result.arrows)


def arrows_heading(result: "SeeResult") -> str:
    """The heading of the list of arrows: its columns, and which arrows these are."""
    column = "" if not result.unit else "   effect" if has_effects(result) else " estimate"
    count, one = len(result.arrows), len(result.arrows) == 1
    if result.by == "influence":
        which = "arrow that matters most" if one else f"{count} arrows that matter most"
    else:
        which = "strongest arrow" if one else f"{count} strongest arrows"
    return f"weight{column}  the {which}"


def row_label(result: "SeeResult", row: int, room: int) -> str:
    """The token that a row reads and, in brackets, the one it predicts."""
    labels = result.labels
    predicted = None if labels.predicts is None else labels.predicts[row]
    brackets = "" if predicted is None else f" ({make_visible(predicted)})"
    return clip(f"{make_visible(labels.reads[row])}{brackets}", room)


def format_effect(effect: float) -> str:
    """An effect in seven columns, to two digits; very small ones as a power of ten."""
    return (f"{effect:.0f}" if effect >= 9.95 or effect == 0.0 else f"{effect:#.2g}").rjust(7)


def measures_sentence(result: "SeeResult") -> str:
    """The measures of the head."""
    from transom.lens.metrics.head_measures import display_name

    measures = ", ".join(f"{display_name(name)} {value:.2f}" for name, value in result.measures.items())
    described = f"This head {result.description}. " if result.description else ""
    return described + (f"Its measures: {measures}." if measures else "")


def estimates_sentence(result: "SeeResult") -> str:
    """How far the estimates, which chose head and arrows, agree with the knock-outs."""
    from transom.lens.attribution.agreement import correlation_of

    rows = [*(result.ranking.rows if result.ranking is not None else ()), *result.arrows]
    pairs = [(row.estimate, row.effect) for row in rows if row.estimate is not None and row.effect is not None]
    if not pairs:
        known = any(row.estimate is not None for row in rows)
        return "These are estimates by backward passes; --refine 8 knocks out those with the largest." if known else ""
    agreed = correlation_of(pairs)
    number = "" if agreed is None else f", Pearson {agreed:.2f}"
    return f"Heads and arrows were chosen by estimate, then knocked out: {len(pairs)} estimates beside effects{number}."


def notes(result: "SeeResult") -> Iterator[str]:
    """How to read the text, and what is not in it."""
    from transom.lens.unseen_attention import unseen_note

    labels = result.labels
    if result.unit:
        yield f"{UNITS[result.unit]}. {CAUTION}"
        yield estimates_sentence(result)
    else:
        yield "Effects are not known here: the model's output cannot be compared, or only a saved run is open."
    if labels.predicts is not None:
        yield "In brackets: the token that comes next, which the row is to predict."
    if any(make_visible(token).startswith("·") for token in (*labels.reads, *labels.at)):
        yield "· before a token is a space, which belongs to it."
    if len(labels.reads) > MOST_ROWS:
        yield f"{len(labels.reads)} rows: --all draws the map."
    note = unseen_note(result.trace.unseen)
    if note:
        yield make_visible(note)
