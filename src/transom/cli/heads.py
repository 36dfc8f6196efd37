"""`transom heads`: measure every head of a model over any number of texts."""

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli import STOPPED
from transom.cli.cli_io import AnyModel, print_json, print_note, print_result, print_text
from transom.cli.heads_corpus import (
    INFLUENCE,
    Autosave,
    CorpusPart,
    HeadSumsFile,
    PartProgress,
    agreement_line,
    join_sums,
    load_sums,
    measure_documents,
    parameter_digest,
    report_progress,
    resume_sums,
    save_sums,
)
from transom.files.strict_settings import suggest
from transom.files.untrusted_files import require_file
from transom.names import Misfit, count_noun

if TYPE_CHECKING:
    from transom.runner.text_model import TextModel
    from transom.training.distributed import World

PATIENCE = 7 * 24 * 3600.0  # seconds that a process waits for others with longer texts
Paths = list[Path] | None


@dataclass(frozen=True)
class HeadsRequest:
    """The options of the command."""

    texts: list[Path]
    model: str | None
    lines: bool
    measures: list[str] | None
    longest: int
    out: Path | None
    save_every: float
    sort: str | None
    influence: bool = False

    def part(self, rank: int = 0, processes: int = 1) -> CorpusPart:
        """The share of the texts that one process measures; an error if there is no text."""
        if not self.texts:
            raise Misfit("there should be texts to measure, but there are none; give --text and a file")
        sizes = [require_file(path).stat().st_size for path in self.texts]
        return CorpusPart([str(path) for path in self.texts], sizes, self.lines, self.longest, rank, processes)


def run(
    files: Annotated[Paths, typer.Argument(metavar="FILES", help="More texts, or with --merge more sums.")] = None,
    text: Annotated[
        Paths, typer.Option("--text", metavar="FILES", help="Text files (or .gz), each one document.")
    ] = None,
    model: AnyModel = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line is a document.")] = False,
    measures: Annotated[
        list[str] | None, typer.Option("--measure", metavar="MEASURE", help="Only this measure; can be repeated.")
    ] = None,
    influence: Annotated[
        bool, typer.Option("--influence", help="Also what the text would lose without each head, by a backward pass.")
    ] = False,
    longest: Annotated[
        int, typer.Option(min=1, help="Longer documents are split into pieces of so many tokens.")
    ] = 1024,
    out: Annotated[Path | None, typer.Option(help="Save the sums in this file; the same command resumes it.")] = None,
    save_every: Annotated[float, typer.Option(min=0.0, help="Seconds between two saves of --out.")] = 30.0,
    merge: Annotated[
        Paths, typer.Option("--merge", metavar="FILES", help="Join files that --out wrote, instead of measuring.")
    ] = None,
    sort: Annotated[str | None, typer.Option(metavar="MEASURE", help="Sort by this measure, highest first.")] = None,
    most: Annotated[int | None, typer.Option(min=1, help="Only so many heads.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="The table as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Measure every head of a model over texts: entropy, sink, previous token, induction, and more.

    Example: transom heads --text book.txt --sort previous --most 5

    What each head is worth to the text: transom heads --text book.txt --influence --sort influence --most 5

    If it is stopped, the same command resumes from --out. On several processes: torchrun --nproc-per-node 2 -m transom
    heads --text FILES --out sums.json
    """
    if as_csv and as_json:
        raise Misfit("the table comes as --csv or as --json, but got both; leave one out")
    if merge:
        if text:
            raise Misfit("--merge joins what was measured, but got --text too; leave one of the two out")
        sums = merge_files([*merge, *(files or [])], out)
    else:
        texts = [*(text or []), *(files or [])]
        options = (longest, out, save_every, sort, influence)
        sums = measure_or_exit(HeadsRequest(texts, model, lines, measures, *options))
    if sums is not None:
        print_table(sums, sort, most, "csv" if as_csv else "json" if as_json else "text")


def measure_or_exit(request: HeadsRequest) -> HeadSumsFile | None:
    """The sums; a stop prints how to resume, and a failed receipt prints nothing else."""
    from transom.lens.trace import ReceiptFailed

    try:
        return measure_texts(request)
    except ReceiptFailed as error:
        print_note(str(error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        hint = "the same command resumes it" if request.out else "with --out it could be resumed"
        print_note(f"stopped; {hint}")
        raise typer.Exit(STOPPED) from None


def merge_files(paths: list[Path], out: Path | None) -> HeadSumsFile:
    """The sums of all files together; a note says which are not finished."""
    files = [(str(path), load_sums(path)) for path in paths]
    for name, sums in files:
        if not sums.is_finished:
            documents = count_noun(sums.count("documents"), "document")
            print_text(f"{name} is not finished: it holds {documents} so far", stderr=True)
    joined = join_sums(files)
    if out is not None:
        save_sums(out, joined)
    return joined


def measure_texts(request: HeadsRequest) -> HeadSumsFile | None:
    """The sums over the texts; None for a process that does not lead."""
    from transom.lens.metrics.head_measures import HEADS
    from transom.lens.metrics.heads import check_measures
    from transom.runner import load_text_model
    from transom.training.distributed import join_world, read_torchrun_env

    measures = check_measures(request.measures) if request.measures else list(HEADS)
    measures += [INFLUENCE] if request.influence else []
    if request.sort is not None and request.sort not in measures:  # an error before the work, not after it
        raise Misfit(f"--sort takes one of the measures, but got {request.sort!r}; {suggest(request.sort, measures)}")
    processes = read_torchrun_env(os.environ)[1]
    if processes > 1 and request.out is None:
        raise Misfit(f"{processes} processes join their sums through a file, but there is none; give --out sums.json")
    request.part()  # missing texts are an error before a model is loaded
    model = load_text_model(request.model)
    if request.influence and model.kind == "encoder":
        raise Misfit(f"--influence is on the tokens that a model writes, but {model.name} is an encoder; leave it out")
    with join_world(seconds=PATIENCE) as world:
        if processes == 1:
            return measure_part(request, model, measures, request.out, world)
        return measure_and_join(request, model, measures, world)


def measure_and_join(
    request: HeadsRequest, model: "TextModel", measures: list[str], world: "World"
) -> HeadSumsFile | None:
    """This process's share of the documents; the one that leads waits for the others and joins all shares."""
    out, ranks = request.out, range(world.size)
    assert out is not None
    if out.exists():
        joined = load_sums(out)
        if joined.parts != [request.part(rank, world.size) for rank in ranks]:
            raise Misfit(f"{out} holds sums of different work; name another file with --out, or remove it")
        return joined if world.leads else None
    paths = [out.with_name(f"{out.name}.{rank}-of-{world.size}") for rank in ranks]
    measure_part(request, model, measures, paths[world.rank], world)
    world.wait("the end of the texts", PATIENCE)
    if not world.leads:
        return None
    joined = join_sums([(str(path), load_sums(path)) for path in paths])
    save_sums(out, joined)
    for path in paths:
        path.unlink()
    return joined


def measure_part(
    request: HeadsRequest, model: "TextModel", measures: list[str], path: Path | None, world: "World"
) -> HeadSumsFile:
    """The sums of this process's documents, resumed from a file if there is one."""
    from transom.lens.metrics.head_sums import HeadSums

    progress = PartProgress(request.part(world.rank, world.size))
    start = HeadSumsFile(model.name, parameter_digest(model), [progress], HeadSums(measures))
    sums = start if path is None else resume_sums(path, start)
    if sums.count("documents"):
        state = "finished" if sums.is_finished else "resuming"
        print_text(f"{path} holds {count_noun(sums.count('documents'), 'document')}: {state}", stderr=True)
    if sums.is_finished:
        return sums
    with report_progress(world.leads) as report:
        sums = measure_documents(model, sums, Autosave(path, request.save_every), report)
    if request.influence and world.leads:
        print_text(agreement_line(model, progress.part), stderr=True)
    return sums


def print_table(sums: HeadSumsFile, sort: str | None, most: int | None, form: str) -> None:
    """The table on standard output."""
    from transom.lens.metrics.head_table import HeadTable

    table = HeadTable.from_sums(sums.heads)
    heads = count_noun(len(table), "head")
    if sort is not None:
        table = table.sorted(sort)
    if most is not None:
        table = HeadTable(table.measures, table.rows[:most], table.missing, table.unseen)
    if form == "csv":
        print_result(table.csv(), end="")
        return
    counts = {name: sums.count(name) for name in ("documents", "pieces", "tokens")}
    if form == "json":
        print_json({"model": sums.model, **counts, **json.loads(table.json())})
        return
    texts = f"{count_noun(counts['documents'], 'document')}, {count_noun(counts['tokens'], 'token')}"
    print_text(f"{sums.model}: {texts}, {heads}\n{table.text(terminal_width())}")


def terminal_width() -> int | None:
    """The width of the terminal, or COLUMNS; None for files and pipes."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if known else None
