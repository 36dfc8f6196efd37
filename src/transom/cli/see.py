"""`transom see`: a text through a model, and where it looks."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.given import AsJson
from transom.cli.output import print_json, print_note, print_picture, print_text, shows_colours

if TYPE_CHECKING:
    from transom.cli.see_steps import StepsAsked
    from transom.cli.seen import Asked, Seen
    from transom.serve.taken import Page


def run(
    text: Annotated[str, typer.Argument(help="What the model reads.")] = "",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER_OR_HF_ID", help="A model of Transom's or Hugging Face's; unless given, English to French."
        ),
    ] = None,
    layer: Annotated[
        str | None, typer.Option(help="A layer: its number, its path, or a pattern with *; else the most telling.")
    ] = None,
    head: Annotated[int | None, typer.Option(help="A head of that layer, from 0; else the most telling.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What an encoder–decoder is to write; else what it writes.")
    ] = None,
    generate: Annotated[int, typer.Option(min=0, metavar="N", help="Let a decoder write on, N tokens at most.")] = 0,
    arrows: Annotated[int, typer.Option(min=1, help="How many of the strongest arrows.")] = 8,
    everything: Annotated[bool, typer.Option("--all", help="Every head at a glance, and the whole map.")] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Look at a run that --save wrote, instead of a text.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the run: every head of it.")] = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="Every step of the head for one token, with its numbers.")
    ] = False,
    token: Annotated[
        str | None, typer.Option(metavar="FROM", help="The token of --steps, by number or text; else the most telling.")
    ] = None,
    cell: Annotated[
        str | None, typer.Option(metavar="FROM,AT", help="The arithmetic of one score and weight, written out.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The picture as a page, which needs no network.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="The picture as a figure.")] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The run as a page to look around in, which needs no server.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """See where a model looks in a text: the head that matters most, its strongest arrows and what they are worth.

    Example: transom see "We are going home."

    One head of a layer: transom see "The cat sat." --layer encoder.blocks.1 --head 3

    To look around in it: transom see "The cat sat." --page look.html

    Every step of it: transom see "The cat sat." --steps --html steps.html
    """
    from transom.cli.see_steps import StepsAsked
    from transom.cli.seen import Asked
    from transom.names import Misfit

    if not text and trace is None:
        raise Misfit("there should be a text to look into, but none came; give one, or --trace FILE")
    way = StepsAsked(token, cell) if steps or token is not None or cell is not None else None
    asked = Asked(text, model, layer, head, target, generate, arrows, trace)
    show(looked(asked, save, page), way, [html, svg], as_json, everything)


def looked(asked: "Asked", save: Path | None, page: Path | None) -> "Seen":
    """What is seen, kept in files where that is asked; a receipt that fails is a finding, and nothing is shown."""
    from transom.cli.seen import seen
    from transom.lens.trace import Disproved

    try:
        found = seen(asked)
    except Disproved as error:
        print_note(str(error))
        raise typer.Exit(1) from None
    if save is not None:
        found.trace.save(save)
        print_text(f"the run is in {save}; see it again with transom see --trace {save}", stderr=True)
    if page is not None:
        print_text(f"the run is in {taken(found).save(page)}, to look around in with a browser", stderr=True)
    return found


def taken(found: "Seen") -> "Page":
    """The run as a page to take away, with the head open that was found."""
    from transom.serve.record import Head
    from transom.serve.running import said_of
    from transom.serve.studio import Studio
    from transom.serve.taken import page

    head = Head(found.trace.names.index(found.layer), found.head)
    if found.ran is None:
        studio = Studio(trace=found.trace, name=found.model)
        return page(studio, studio.run("1"), head)
    model, fed, new = found.ran
    studio = Studio(model)
    return page(studio, studio.add(found.trace, said_of(model, found.text, fed, new), model, fed), head)


def show(found: "Seen", way: "StepsAsked | None", files: list[Path | None], as_json: bool, everything: bool) -> None:
    """The pictures into their files, and the rest on standard output."""
    from transom.cli.see_steps import stepped, write_pictures
    from transom.cli.seen_text import lines

    for line in write_pictures(found, way, files):
        print_text(line, stderr=True)
    if as_json:
        print_json(found.told() if way is None else way.told(found))
        return
    width, colour = shutil.get_terminal_size((100, 24)).columns, shows_colours()
    for line in lines(found, width, colour, everything) if way is None else stepped(found, way, width, colour):
        print_picture(line)
