"""Any number of documents through a model, its heads measured piece by piece: what is kept are sums."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from transom.cli.any_model import AnyModel
from transom.cli.given import many
from transom.cli.head_files import Done, Sums, write
from transom.cli.output import make_progress, print_text

if TYPE_CHECKING:
    from transom.lens.measuring.head_sums import HeadSums

SPOKEN = 10.0  # seconds between lines of progress where there is no terminal


@dataclass(frozen=True)
class Saving:
    """Where sums are kept, if anywhere, and after how many seconds they are written again."""

    path: Path | None
    seconds: float


def digest_of(model: AnyModel) -> str:
    """What tells a model's parameters from others': names, shapes and some numbers of each."""
    import hashlib

    import torch

    found = hashlib.sha256()
    for name, parameter in model.model.named_parameters():
        some = parameter.detach().flatten()[:64].to("cpu", torch.float32)
        found.update(f"{name} {tuple(parameter.shape)} ".encode() + some.numpy().tobytes())
    return found.hexdigest()


def documents(texts: list[Path], lines: bool) -> Iterator[str]:
    """Each text file as one document, or each line of them."""
    from transom.text.corpora import read_document, read_lines

    for path in texts:
        for line in (read_lines if lines else read_document)(path):
            yield line.text


def stream(model: AnyModel, sums: Sums, saving: Saving, say: Callable[[Done], None]) -> Sums:
    """Measure the documents that are this process's and not yet done; gives the sums with them."""
    part, before, saved = sums.done[0].part, sums.done[0].documents, time.monotonic()
    try:
        for number, text in enumerate(documents([Path(text) for text in part.texts], part.lines)):
            if number % part.processes != part.rank or number // part.processes < before:
                continue
            sums = with_document(model, text, sums)
            say(sums.done[0])
            if time.monotonic() - saved >= saving.seconds:
                save(saving, sums)
                saved = time.monotonic()
    except KeyboardInterrupt:
        save(saving, sums)
        raise
    sums = replace(sums, done=[replace(sums.done[0], finished=True)])
    save(saving, sums)
    return sums


def save(saving: Saving, sums: Sums) -> None:
    if saving.path is not None:
        write(saving.path, sums)


def with_document(model: AnyModel, text: str, sums: Sums) -> Sums:
    """New sums, with all pieces of one document."""
    from transom.lens.measuring.head_sums import joined

    done, parts, tokens = sums.done[0], [sums.heads], 0
    for ids in model.pieces(text, done.part.longest):
        parts.append(measured_piece(model, ids, sums.heads.measures, proved=done.pieces > 0))
        tokens += len(ids)
    come = replace(done, documents=done.documents + 1, pieces=done.pieces + len(parts) - 1, tokens=done.tokens + tokens)
    return replace(sums, done=[come], heads=joined(parts))


def measured_piece(model: AnyModel, ids: list[int], measures: list[str], proved: bool) -> "HeadSums":
    """The sums of one piece; the receipts are checked unless those of an earlier piece were."""
    from transom.lens.measuring.heads import measured
    from transom.lens.watch import watch

    fed = model.fed(ids)
    with watch(model.model) as trace:
        model.run(fed)
    if not proved:
        trace.proven()
    return measured(trace, measures, tokens=fed.ids, targets=fed.target_ids or None)


@contextmanager
def progress(wanted: bool) -> Iterator[Callable[[Done], None]]:
    """How far the work has come, on stderr: a line that moves on a terminal, one every so often elsewhere."""
    if not wanted:
        yield lambda done: None
    elif sys.stderr.isatty():
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with make_progress(*columns) as bar:
            row = bar.add_task("measuring", total=None)
            yield lambda done: bar.update(row, description=told(done))
    else:
        yield Lines()


class Lines:
    """A line every so many seconds."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, done: Done) -> None:
        if time.monotonic() - self.last >= SPOKEN:
            self.last = time.monotonic()
            print_text(told(done), stderr=True)


def told(done: Done) -> str:
    return f"{many(done.documents, 'document')}, {many(done.tokens, 'token')}"
