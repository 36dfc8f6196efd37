"""`transom heads`: what every head of a model does, over any number of texts."""

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.given import many
from transom.cli.output import print_json, print_note, print_result, print_text
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.cli.any_model import AnyModel
    from transom.cli.head_files import Part, Sums
    from transom.run.parallel import World

PATIENCE = 7 * 24 * 3600.0  # seconds that a process waits at the end for those with longer texts
Paths = list[Path] | None


def run(
    files: Annotated[Paths, typer.Argument(metavar="FILES", help="More texts, or with --merge more sums.")] = None,
    text: Annotated[
        Paths, typer.Option("--text", metavar="FILES", help="Text files (or .gz), each one document.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER_OR_HF_ID", help="A model of Transom's or Hugging Face's; unless given, English to French."
        ),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line is a document.")] = False,
    measures: Annotated[
        list[str] | None, typer.Option("--measure", metavar="MEASURE", help="Only these; may be given often.")
    ] = None,
    longest: Annotated[int, typer.Option(min=1, help="Longer documents are cut into pieces of so many tokens.")] = 1024,
    out: Annotated[
        Path | None, typer.Option(help="Keep the sums in this file; the same command goes on from it.")
    ] = None,
    save_every: Annotated[float, typer.Option(min=0.0, help="Seconds between savings of --out.")] = 30.0,
    merge: Annotated[
        Paths, typer.Option("--merge", metavar="FILES", help="Join files that --out wrote, instead of measuring.")
    ] = None,
    sort: Annotated[str | None, typer.Option(metavar="MEASURE", help="The heads with the highest of it first.")] = None,
    most: Annotated[int | None, typer.Option(min=1, help="Only so many heads.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="The table as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Measure every head of a model over texts: entropy, sink, previous token, induction, and more.

    Example: transom heads --text book.txt --sort previous --most 5

    Stopped at any moment, the same command goes on from --out. On several processes: torchrun --nproc-per-node 2 -m
    transom heads --text FILES --out sums.json
    """
    if as_csv and as_json:
        raise Misfit("the table comes as --csv or as --json, but both came; leave one out")
    if merge:
        if text:
            raise Misfit("--merge joins what was measured, but --text came too; leave one of the two out")
        found = merged_files([*merge, *(files or [])], out)
    else:
        texts = [*(text or []), *(files or [])]
        found = stoppable(Asked(texts, model, lines, measures, longest, out, save_every, sort))
    if found is not None:
        show(found, sort, most, "csv" if as_csv else "json" if as_json else "text")


def stoppable(asked: "Asked") -> "Sums | None":
    """`measured_texts`, with a word for whoever stops it; a receipt that fails is a finding, and nothing is shown."""
    from transom.lens.trace import Disproved

    try:
        return measured_texts(asked)
    except Disproved as error:
        print_note(str(error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        way_on = "the same command goes on from it" if asked.out else "with --out it could go on from here"
        print_note(f"stopped; {way_on}")
        raise typer.Exit(130) from None


def merged_files(paths: list[Path], out: Path | None) -> "Sums":
    """The sums of all files; told on stderr where one is not finished."""
    from transom.cli.head_files import merged, read, write

    found = [(str(path), read(path)) for path in paths]
    for name, one in found:
        if not one.finished:
            so_far = many(one.count("documents"), "document")
            print_text(f"{name} is not finished: it holds {so_far} so far", stderr=True)
    whole = merged(found)
    if out is not None:
        write(out, whole)
    return whole


@dataclass(frozen=True)
class Asked:
    """What to measure, and how."""

    texts: list[Path]
    model: str | None
    lines: bool
    measures: list[str] | None
    longest: int
    out: Path | None
    save_every: float
    sort: str | None


def measured_texts(asked: Asked) -> "Sums | None":
    """The sums over the texts; None for a process that does not lead."""
    from transom.cli.any_model import opened
    from transom.files.strict import nearest
    from transom.lens.measuring.heads import checked
    from transom.lens.measuring.measures import HEADS
    from transom.run.parallel import joined, told

    measures = checked(asked.measures) if asked.measures else list(HEADS)
    if asked.sort is not None and asked.sort not in measures:  # said before the work, not after it
        raise Misfit(
            f"--sort takes a measure, but {asked.sort!r} is none of those taken; {nearest(asked.sort, measures)}"
        )
    processes = told(os.environ)[1]
    if processes > 1 and asked.out is None:
        raise Misfit(
            f"{processes} processes join their sums by way of a file, but none was named; give --out sums.json"
        )
    parts(asked, 0, 1)  # complains of texts that are not there before a model is loaded
    model = opened(asked.model)
    if processes == 1:
        return alone(asked, model, measures)
    with joined(seconds=PATIENCE) as world:
        return together(asked, model, measures, world)


def alone(asked: Asked, model: "AnyModel", measures: list[str]) -> "Sums":
    from transom.cli.head_stream import Saving, progress, stream

    sums = begun(asked, model, measures, asked.out, 0, 1)
    if sums.finished:
        return sums
    with progress(True) as say:
        return stream(model, sums, Saving(asked.out, asked.save_every), say)


def together(asked: Asked, model: "AnyModel", measures: list[str], world: "World") -> "Sums | None":
    """This process's share of the documents; the one that leads waits for the others, and joins what all wrote."""
    from transom.cli.head_files import merged, read, write
    from transom.cli.head_stream import Saving, progress, stream

    assert asked.out is not None
    own = [asked.out.with_name(f"{asked.out.name}.{rank}-of-{world.size}") for rank in range(world.size)]
    if asked.out.exists():
        whole = read(asked.out)
        if [one.part for one in whole.done] != [parts(asked, rank, world.size) for rank in range(world.size)]:
            raise Misfit(f"{asked.out} holds other sums than these; name another file with --out, or remove it")
        return whole if world.leads else None
    sums = begun(asked, model, measures, own[world.rank], world.rank, world.size)
    if not sums.finished:
        with progress(world.leads) as say:
            stream(model, sums, Saving(own[world.rank], asked.save_every), say)
    world.wait("the end of the texts", PATIENCE)
    if not world.leads:
        return None
    whole = merged([(str(path), read(path)) for path in own])
    write(asked.out, whole)
    for path in own:
        path.unlink()
    return whole


def parts(asked: Asked, rank: int, processes: int) -> "Part":
    """What is to be measured by one process; complains of texts that are not there."""
    from transom.cli.head_files import Part
    from transom.files.outside import checked

    if not asked.texts:
        raise Misfit("there should be texts to measure on, but none came; give --text and a file")
    sizes = [checked(path).stat().st_size for path in asked.texts]
    return Part([str(path) for path in asked.texts], sizes, asked.lines, asked.longest, rank, processes)


def begun(asked: Asked, model: "AnyModel", measures: list[str], path: Path | None, rank: int, processes: int) -> "Sums":
    """What a file holds already of this work, or nothing yet."""
    from transom.cli.head_files import Done, Sums, going_on
    from transom.cli.head_stream import digest_of
    from transom.lens.measuring.head_sums import HeadSums

    wanted = Sums(model.name, digest_of(model), [Done(parts(asked, rank, processes))], HeadSums(measures))
    sums = wanted if path is None else going_on(path, wanted)
    if sums.done[0].documents:
        state = "done" if sums.finished else "going on"
        print_text(f"{path} holds {many(sums.done[0].documents, 'document')}: {state}", stderr=True)
    return sums


def show(sums: "Sums", sort: str | None, most: int | None, form: str) -> None:
    """The table on standard output."""
    from transom.lens.measuring.head_table import HeadTable

    table = HeadTable.of(sums.heads)
    if sort is not None:
        table = table.sorted(sort)
    if most is not None:
        table = HeadTable(table.measures, table.rows[:most], table.missing)
    if form == "csv":
        print_result(table.csv(), end="")
        return
    counts = {what: sums.count(what) for what in ("documents", "pieces", "tokens")}
    if form == "json":
        print_json({"model": sums.model, **counts, **json.loads(table.json())})
        return
    told = f"{sums.model}: {many(counts['documents'], 'document')}, {many(counts['tokens'], 'token')}"
    print_text(f"{told}, {many(len(HeadTable.of(sums.heads)), 'head')}\n{table.text(room())}")


def room() -> int | None:
    """The width of the terminal, where there is one or COLUMNS says it; None for files and pipes."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if known else None
