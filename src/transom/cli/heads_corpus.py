"""Head measures over a corpus: sums per part, saved to files, resumed after an interruption."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from transom.cli.cli_io import make_progress, print_text
from transom.files.atomic_files import write_file
from transom.files.documents import decode_json
from transom.files.untrusted_files import Limits, read_bytes
from transom.names import Misfit, count_noun
from transom.runner.text_model import TextModel
from transom.show.formatting import join_some

if TYPE_CHECKING:
    from transom.lens.metrics.head_sums import HeadSums
    from transom.runner.text_model import EncodedText

FORMAT = 1
LARGEST = 2**28  # bytes of a file that is read; the sums of a thousand heads take a few hundred thousand
INFLUENCE = "influence"  # the column that needs the model, and so is none of HEADS
KNOCKED_OUT = 8  # heads, to see how far their estimates can be trusted
UNKNOWN = "gradients do not lead to its output"
REPORT_SECONDS = 10.0  # between lines of progress if there is no terminal


class CorpusPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Texts to measure: files with their sizes, how they are split, and which process measures which documents."""

    texts: list[str]
    sizes: list[int]
    lines: bool
    longest: int
    rank: int = 0
    processes: int = 1


class PartProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of a part is measured."""

    part: CorpusPart
    documents: int = 0
    pieces: int = 0
    tokens: int = 0
    finished: bool = False

    def __str__(self) -> str:
        return f"{count_noun(self.documents, 'document')}, {count_noun(self.tokens, 'token')}"


class HeadSumsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model, what was measured of it, and the sums; `digest` identifies the model's parameters."""

    model: str
    digest: str
    done: list[PartProgress]
    heads: Any
    format: int = FORMAT

    @property
    def is_finished(self) -> bool:
        return all(progress.finished for progress in self.done)

    @property
    def parts(self) -> list[CorpusPart]:
        return [progress.part for progress in self.done]

    def count(self, what: str) -> int:
        return sum(getattr(progress, what) for progress in self.done)


def load_sums(path: Path) -> HeadSumsFile:
    """Read sums from a file; a damaged or invented one is an error."""
    from transom.lens.metrics.head_sums import HeadSums

    content = read_bytes(path, Limits(document=LARGEST), "name a file that transom heads wrote")
    try:
        sums = decode_json(content, HeadSumsFile, max_bytes=LARGEST)
        sums = replace(sums, heads=msgspec.convert(sums.heads, HeadSums))
        sums.heads.check()
    except (msgspec.ValidationError, Misfit) as error:
        raise Misfit(
            f"{path} should hold the sums of transom heads, but it cannot be read ({error}); name another file"
        ) from error
    if sums.format != FORMAT:
        raise Misfit(f"{path} has format {sums.format}, but this Transom reads format {FORMAT}; measure it again")
    return sums


def save_sums(path: Path, sums: HeadSumsFile) -> None:
    """Write sums to a file, completely or not at all."""
    write_file(path, msgspec.json.format(msgspec.json.encode(sums), indent=1) + b"\n")


def resume_sums(path: Path, start: HeadSumsFile) -> HeadSumsFile:
    """The sums that a file already holds of the same work, or the start if there is no file."""
    if not path.exists():
        return start
    sums = load_sums(path)
    if (sums.digest, sums.parts, sums.heads.measures) != (start.digest, start.parts, start.heads.measures):
        texts = join_some(list(dict.fromkeys(text for part in sums.parts for text in part.texts)), 2)
        raise Misfit(
            f"{path} holds sums of {sums.model} over {count_noun(sums.count('documents'), 'document')} of {texts},"
            " which is different work; name another file with --out, or remove it"
        )
    return sums


def join_sums(files: list[tuple[str, HeadSumsFile]]) -> HeadSumsFile:
    """Add up sums of the same model over different texts, exactly; each with the name of its file."""
    from transom.lens.metrics.head_sums import HeadSums

    first_name, first = files[0]
    names: dict[bytes, str] = {}  # of the file that holds a part
    for name, sums in files:
        if sums.digest != first.digest:
            raise Misfit(
                f"{first_name} is of {first.model} and {name} of {sums.model}, or of other parameters; join sums of"
                " one model"
            )
        for part in map(msgspec.json.encode, sums.parts):
            if part in names:
                raise Misfit(f"{name} and {names[part]} are of the same texts, which would count twice; leave one out")
            names[part] = name
    done = [progress for _, sums in files for progress in sums.done]
    return HeadSumsFile(first.model, first.digest, done, HeadSums.merge_all(sums.heads for _, sums in files))


def parameter_digest(model: TextModel) -> str:
    """A hash of the names, shapes and first numbers of all parameters."""
    import hashlib

    import torch

    digest = hashlib.sha256()
    for name, parameter in model.model.named_parameters():
        first_numbers = parameter.detach().flatten()[:64].to("cpu", torch.float32)
        digest.update(f"{name} {tuple(parameter.shape)} ".encode() + first_numbers.numpy().tobytes())
    return digest.hexdigest()


def documents(part: CorpusPart) -> Iterator[str]:
    """Each text file as one document, or each line of them."""
    from transom.text.corpora import read_document, read_lines

    for text in part.texts:
        for line in (read_lines if part.lines else read_document)(Path(text)):
            yield line.text


def agreement_line(model: TextModel, part: CorpusPart) -> str:
    """How far the estimates of the strongest heads agree with knock-outs, in the first text that can tell."""
    from transom.lens.attribution.text_influence import text_agreement

    for ids in (ids for text in documents(part) for ids in model.encode_pieces(text, part.longest)[:1]):
        encoded = model.prepare_inputs(ids)
        following = (encoded.target_ids or encoded.ids)[1:]
        if following:
            pearson = text_agreement(model.model, encoded.inputs, following, KNOCKED_OUT)
            number = "no correlation, as one side does not vary" if pearson is None else f"Pearson {pearson:.2f}"
            return (
                f"estimates beside knock-outs of the {KNOCKED_OUT} heads with the largest, in the first text: {number}"
            )
    return "no text has a token after another, so no estimate was compared with a knock-out"


class Autosave:
    """Saves sums to a file, if there is one, every so many seconds."""

    def __init__(self, path: Path | None, seconds: float) -> None:
        self.path, self.seconds, self.saved_at = path, seconds, time.monotonic()

    def save(self, sums: HeadSumsFile) -> None:
        if self.path is not None:
            save_sums(self.path, sums)
        self.saved_at = time.monotonic()

    def save_if_due(self, sums: HeadSumsFile) -> None:
        if time.monotonic() - self.saved_at >= self.seconds:
            self.save(sums)


def measure_documents(
    model: TextModel, sums: HeadSumsFile, autosave: Autosave, report: Callable[[PartProgress], None]
) -> HeadSumsFile:
    """Measure the documents of this process that are not yet done, and add them to the sums."""
    part, done = sums.done[0].part, sums.done[0].documents
    try:
        for number, text in enumerate(documents(part)):
            if number % part.processes != part.rank or number // part.processes < done:
                continue
            sums = add_document(model, text, sums)
            report(sums.done[0])
            autosave.save_if_due(sums)
    except KeyboardInterrupt:
        autosave.save(sums)
        raise
    sums = replace(sums, done=[replace(sums.done[0], finished=True)])
    autosave.save(sums)
    return sums


def add_document(model: TextModel, text: str, sums: HeadSumsFile) -> HeadSumsFile:
    """New sums, with all pieces of one document."""
    from transom.lens.metrics.head_sums import HeadSums

    done, new = sums.done[0], []
    pieces = model.encode_pieces(text, done.part.longest)
    for ids in pieces:
        new.append(measure_piece(model, ids, sums.heads.measures, is_proven=done.pieces > 0))
    done = replace(
        done,
        documents=done.documents + 1,
        pieces=done.pieces + len(pieces),
        tokens=done.tokens + sum(map(len, pieces)),
    )
    return replace(sums, done=[done], heads=HeadSums.merge_all([sums.heads, *new]))


def measure_piece(model: TextModel, ids: list[int], measures: list[str], is_proven: bool) -> "HeadSums":
    """The sums of one piece; the receipts are checked unless those of an earlier piece were."""
    from transom.lens.capture.evidence import require_attention
    from transom.lens.capture.watch import watch
    from transom.lens.metrics.heads import measure_sums

    encoded, by_row = model.prepare_inputs(ids), [measure for measure in measures if measure != INFLUENCE]
    with watch(model.model, unseen="allow") as trace:
        model.run(encoded)
    require_attention(trace)
    if not is_proven:
        trace.proven()
    sums = measure_sums(trace, by_row, tokens=encoded.ids, targets=encoded.target_ids or None)
    if INFLUENCE in measures:
        sums.measures = measures
        add_influence(sums, model, encoded)
    return sums


def add_influence(sums: "HeadSums", model: TextModel, encoded: "EncodedText") -> None:
    """Add what the log-probability of a piece would lose without each head, to be divided by its tokens."""
    from transom.lens.attribution.text_influence import text_influence

    following = (encoded.target_ids or encoded.ids)[1:]
    found = text_influence(model.model, encoded.inputs, following) if following else {}
    for name, layer in sums.layers.items():
        if name in found:
            layer.add(INFLUENCE, found[name], [len(following)] * layer.heads, name)
        else:
            layer.missing[INFLUENCE] = UNKNOWN if following else "nothing follows its only token"


@contextmanager
def report_progress(is_shown: bool) -> Iterator[Callable[[PartProgress], None]]:
    """Yields a function that shows progress on stderr: one moving line on a terminal, else a line now and then."""
    if not is_shown:
        yield lambda progress: None
    elif sys.stderr.isatty():
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        with make_progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as bar:
            row = bar.add_task("measuring", total=None)
            yield lambda progress: bar.update(row, description=str(progress))
    else:
        last = time.monotonic()

        def report(progress: PartProgress) -> None:
            nonlocal last
            if time.monotonic() - last >= REPORT_SECONDS:
                last = time.monotonic()
                print_text(str(progress), stderr=True)

        yield report
