"""A model in a folder, used on plain text: translate, write on, classify."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transom.files.outside import checked, lines
from transom.files.strict import chosen
from transom.models import MODELS, Decoder, Encoder, EncoderDecoder, Model
from transom.models.folder import TOKENIZER, header_of
from transom.names import Misfit
from transom.run.checkpoint import steps
from transom.run.unfinished import STEPS, find_unfinished
from transom.text.batches import batches, padded
from transom.text.tokenizer import Tokenizer

BATCH_TOKENS = 2048  # of one step; texts of like length go together


@dataclass(frozen=True, eq=False)
class Ready:
    """A model with its tokenizer."""

    model: Model
    tokenizer: Tokenizer
    folder: Path


def ready(folder: Path, wanted: str) -> Ready:
    """The model in a folder, if it is of the wanted kind and has its tokenizer."""
    run = find_unfinished(folder)
    if run is not None:
        raise Misfit(
            f"{folder} should be the folder of a model, but {run} holds an unfinished run, of"
            f" {steps(run / STEPS)[-1]} updates so far; finish it with transom train, or judge it with transom evaluate"
        )
    kind = str(header_of(folder)["model"])
    chosen(f"{folder}: the model", kind, MODELS)
    if kind != wanted:
        purpose = {"encoder": "classify", "decoder": "generate", "encoder_decoder": "translate"}
        raise Misfit(
            f"{folder} should hold a model to {purpose[wanted]} with, but it holds one to {purpose[kind]} with;"
            f" use transom {purpose[kind]}, or name another folder"
        )
    file = folder / TOKENIZER
    if not file.exists():
        raise Misfit(f"{folder} should hold a {TOKENIZER}, but there is none; save the model with its tokenizer")
    # Half-precision files are widened: on a CPU float32 is quicker.
    model, tokenizer = MODELS[kind].from_pretrained(folder, dtype=torch.float32), Tokenizer.load(file)
    known = model.config.vocabulary  # pyright: ignore[reportAttributeAccessIssue]
    if tokenizer.size != known:
        raise Misfit(
            f"{folder} should hold a tokenizer of {known} tokens, as the model has, but {TOKENIZER} has"
            f" {tokenizer.size}; save the model with its own tokenizer"
        )
    return Ready(model, tokenizer, folder)


def encoded(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str], room: int = 0, blanks: bool = False
) -> list[list[int]]:
    """Texts as tokens, none longer than the model takes with `room` tokens kept free, nor empty unless `blanks`."""
    rows = tokenizer.encode_batch(list(texts))
    for number, (text, row) in enumerate(zip(texts, rows, strict=True), 1):
        if not blanks and not text.strip():
            raise Misfit(f"text {number} of {len(texts)} is empty, but there must be something to read; leave it out")
        check_length(model, row, number, len(texts), room)
    return rows


def check_length(model: Model, row: Sequence[int], number: int, count: int, room: int) -> None:
    if len(row) + room > model.config.longest:
        raise Misfit(
            f"text {number} of {count} has {len(row)} tokens, but the model takes {model.config.longest - room} at"
            " most; split it into shorter ones"
        )


def by_length(rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Which rows go together in one step."""
    return batches(np.array([len(row) for row in rows], dtype=np.int64), BATCH_TOKENS, 0, 0)


def translated(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    beams: int = 1,
    done: Callable[[int], None] | None = None,
    blanks: bool = False,
    **settings: Any,
) -> list[str]:
    """Each text translated; `done` is told how many more are. With `blanks` an empty text stays one."""
    rows = [[*row, tokenizer.end] for row in encoded(model, tokenizer, texts, 1, blanks)]
    found, full = [""] * len(rows), [place for place, text in enumerate(texts) if text.strip()]
    for numbers in by_length([rows[place] for place in full]):
        places = [full[number] for number in numbers]
        source = [rows[place] for place in places]
        longest = min(model.config.longest, 2 * max(map(len, source)) + 10)
        asked = {"num_beams": beams, "max_length": longest, **settings}
        written = model.generate(source, **asked)
        assert isinstance(written, Tensor)
        for place, row in zip(places, written.tolist(), strict=True):
            found[place] = tokenizer.decode(row)
        if done is not None:
            done(len(places))
    return found


@dataclass(frozen=True)
class Label:
    """What a text was found to be, and how sure the model is of each label."""

    label: str
    chances: dict[str, float]


def classified(model: Encoder, tokenizer: Tokenizer, texts: Sequence[str]) -> list[Label]:
    """The label of each text."""
    rows = encoded(model, tokenizer, texts)
    found: list[Label | None] = [None] * len(rows)
    labels = model.config.labels
    for places in by_length(rows):
        tokens = padded([rows[place] for place in places], tokenizer.padding)
        real = torch.arange(tokens.shape[1]) < torch.tensor([[len(rows[place])] for place in places])
        with torch.no_grad():
            chances = torch.softmax(model(tokens, real), dim=-1).tolist()
        for place, row in zip(places, chances, strict=True):
            told = dict(zip(labels, row, strict=True))
            found[place] = Label(max(told, key=lambda label: told[label]), told)
    return [label for label in found if label is not None]


def written_on(
    model: Decoder, tokenizer: Tokenizer, text: str, stream: Callable[[str], None] | None = None, **settings: Any
) -> str:
    """What the model writes after a text; `stream` is told each new piece as soon as it is whole letters."""
    # What a text begins after in training is the end of the one before it.
    row = tokenizer.encode(text) or [tokenizer.end]
    check_length(model, row, 1, 1, room=1)
    told = Pieces(tokenizer, stream)
    streamer = None if stream is None else told.token
    tokens = model.generate([row], streamer=streamer, tokenizer=tokenizer, **settings)
    assert isinstance(tokens, Tensor)
    said = tokenizer.decode(tokens[0].tolist()[len(row) :])
    told.show(said)
    return said


class Pieces:
    """New text as tokens come: a letter of several bytes is held back until all of them are there."""

    def __init__(self, tokenizer: Tokenizer, stream: Callable[[str], None] | None) -> None:
        self.tokenizer, self.stream = tokenizer, stream
        self.tokens: list[int] = []
        self.shown = ""

    def token(self, row: int, token: int) -> None:
        self.tokens.append(token)
        text = self.tokenizer.decode(self.tokens)
        if not text.endswith("�"):
            self.show(text)

    def show(self, text: str) -> None:
        """Tell what of a text was not told before."""
        if self.stream is not None and text.startswith(self.shown) and text != self.shown:
            self.stream(text[len(self.shown) :])
            self.shown = text


def texts_from(given: Sequence[str], file: Path | None, stdin: Iterator[str], blanks: bool = False) -> list[str]:
    """Texts from arguments, from the lines of a file, or from standard input; empty lines only with `blanks`."""
    if given and file is not None:
        raise Misfit("texts come as arguments or from --file, but both came; leave one out")
    if given:
        return list(given)
    if file is not None:
        found = [line for _, line in lines(checked(file))]
        if not any(map(str.strip, found)):
            raise Misfit(f"{file} should hold text, but there is none; check that it is the right file")
    else:
        found = [line.rstrip("\n") for line in stdin]
    return [line for line in found if blanks or line.strip()]
