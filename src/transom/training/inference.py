"""A trained model used on plain text: translate, continue, classify."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from transom.files.model_paths import is_gguf
from transom.files.strict_settings import check_choice
from transom.files.tokenizer_files import TOKENIZER
from transom.models import MODELS, Decoder, Encoder, EncoderDecoder, Model, from_hugging_face, from_pretrained
from transom.models.folder import read_config_header
from transom.models.gguf.header import read_header
from transom.models.gguf.load import from_gguf
from transom.models.hugging_face.convert import OnTensor
from transom.models.hugging_face.sources import is_hugging_face_folder
from transom.names import Misfit
from transom.text.batches import batches, pad_rows
from transom.text.gguf_tokenizer import load_gguf_tokenizer
from transom.text.tokenizer import Tokenizer
from transom.training.checkpoint import STEPS, find_unfinished, list_steps

TASKS = {"encoder": "classify", "decoder": "generate", "encoder_decoder": "translate"}  # the command of each kind
BATCH_TOKENS = 2048  # texts of similar length are batched


class LoadedModel(NamedTuple):
    """A model with its tokenizer."""

    model: Model
    tokenizer: Tokenizer


def load_for_task(folder: Path, expected: str | None = None) -> LoadedModel:
    """The model in a folder, of the expected kind (by default any), with its tokenizer.

    folder   of Transom's, or of Hugging Face's, or a GGUF file: then its model becomes one of Transom's
    """
    if is_gguf(folder):
        return load_gguf(folder, expected)
    check_is_finished(folder)
    is_theirs = is_hugging_face_folder(folder)
    if not is_theirs:
        check_kind(folder, str(read_config_header(folder)["model"]), expected)
    file = folder / TOKENIZER
    if not file.exists():
        raise Misfit(f"{folder} should hold a {TOKENIZER}, but there is none; save the model with its tokenizer")
    # Half-precision files are widened, because float32 is faster on a CPU.
    model = from_hugging_face(folder) if is_theirs else from_pretrained(folder, dtype=torch.float32)
    check_kind(folder, model.kind, expected)
    return LoadedModel(model, match_tokenizer(model, Tokenizer.load(file), folder))


def load_gguf(path: Path, expected: str | None = None, on_tensor: OnTensor | None = None) -> LoadedModel:
    """The model in a GGUF file, with the tokenizer that its metadata describe."""
    header = read_header(path)
    tokenizer = load_gguf_tokenizer(header.metadata, path)
    model = from_gguf(path, on_tensor=on_tensor, header=header)
    check_kind(path, model.kind, expected)
    return LoadedModel(model, match_tokenizer(model, tokenizer, path))


def check_kind(folder: Path, kind: str, expected: str | None) -> None:
    check_choice(f"{folder}: the model", kind, MODELS)
    if expected is not None and kind != expected:
        raise Misfit(
            f"{folder} should hold a model to {TASKS[expected]} with, but it holds one to {TASKS[kind]} with;"
            f" use transom {TASKS[kind]}, or name another folder"
        )


def match_tokenizer(model: Model, tokenizer: Tokenizer, where: Path) -> Tokenizer:
    """The tokenizer, with as many tokens as the model; one of another library may have fewer."""
    vocabulary = model.config.vocabulary
    if tokenizer.size > vocabulary or (tokenizer.is_own and tokenizer.size != vocabulary):
        raise Misfit(
            f"{where} should hold a tokenizer of {vocabulary} tokens, as the model has, but {TOKENIZER} has"
            f" {tokenizer.size}; save the model with its own tokenizer"
        )
    tokenizer.fill_up(vocabulary)
    return tokenizer


def check_is_finished(folder: Path) -> None:
    """Raise an error if there is no model in a folder yet, but an unfinished run."""
    run = find_unfinished(folder)
    if run is not None:
        raise Misfit(
            f"{folder} should be the folder of a model, but {run} holds an unfinished run, of"
            f" {list_steps(run / STEPS)[-1]} updates so far; finish it with transom train, or evaluate it with"
            " transom evaluate"
        )


def encode_texts(model: Model, tokenizer: Tokenizer, texts: Sequence[str], blanks: bool = False) -> list[list[int]]:
    """Texts as tokens, with special ones around them: each fits the model, and none is empty unless `blanks`."""
    wrapping = tokenizer.wrapping(model.kind)
    rows = tokenizer.encode_batch(list(texts))
    for number, (text, row) in enumerate(zip(texts, rows, strict=True), 1):
        if not blanks and not text.strip():
            raise Misfit(f"text {number} of {len(texts)} is empty, but there must be something to read; leave it out")
        check_row_length(model, row, number, len(texts), wrapping.room)
    return [wrapping.wrap(row) for row in rows]


def check_row_length(model: Model, row: Sequence[int], number: int, count: int, room: int) -> None:
    if len(row) + room > model.config.longest:
        raise Misfit(
            f"text {number} of {count} has {len(row)} tokens, but the model takes {model.config.longest - room} at"
            " most; split it into shorter ones"
        )


def batch_by_length(rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Batches of row numbers."""
    return batches(np.array([len(row) for row in rows], dtype=np.int64), BATCH_TOKENS, 0, 0)


def translate(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    beams: int = 1,
    on_batch: Callable[[int], object] | None = None,
    blanks: bool = False,
    **settings: Any,
) -> list[str]:
    """Each text translated; `on_batch` gets the size of each finished batch. With `blanks` empty texts stay empty."""
    rows = encode_texts(model, tokenizer, texts, blanks)
    translations, not_blank = [""] * len(rows), [i for i, text in enumerate(texts) if text.strip()]
    for batch in batch_by_length([rows[i] for i in not_blank]):
        indices = [not_blank[i] for i in batch]
        source = [rows[i] for i in indices]
        limit = {} if "max_new_tokens" in settings else {"max_length": longest_translation(model, source)}
        output = model.generate(source, **{"num_beams": beams, **limit, **settings})
        assert isinstance(output, Tensor)
        for i, row in zip(indices, output.tolist(), strict=True):
            translations[i] = tokenizer.decode(row)
        if on_batch is not None:
            on_batch(len(indices))
    return translations


def longest_translation(model: Model, source: Sequence[Sequence[int]]) -> int:
    """The most tokens of a translation: twice those of the longest source, and some more."""
    return min(model.config.longest, 2 * max(map(len, source)) + 10)


@dataclass(frozen=True)
class Classification:
    """The label of a text, and the probability of each label."""

    label: str
    chances: dict[str, float]


def classify(model: Encoder, tokenizer: Tokenizer, texts: Sequence[str]) -> list[Classification]:
    """The label of each text."""
    rows = encode_texts(model, tokenizer, texts)
    results: dict[int, Classification] = {}
    for batch in batch_by_length(rows):
        tokens = pad_rows([rows[i] for i in batch], tokenizer.special_tokens.padding or 0)
        real = torch.arange(tokens.shape[1]) < torch.tensor([[len(rows[i])] for i in batch])
        with torch.no_grad():
            probabilities = torch.softmax(model(tokens, real), dim=-1).tolist()
        for i, row in zip(batch, probabilities, strict=True):
            chances = dict(zip(model.config.labels, row, strict=True))
            results[i] = Classification(max(chances, key=lambda label: chances[label]), chances)
    return [results[i] for i in range(len(rows))]


def continue_text(
    model: Decoder, tokenizer: Tokenizer, text: str, stream: Callable[[str], object] | None = None, **settings: Any
) -> str:
    """The model's continuation of a text; `stream` gets each new piece as soon as its characters are complete."""
    # In training a text starts after the end token of the one before it.
    row = tokenizer.wrapping(model.kind).wrap(tokenizer.encode(text)) or [tokenizer.end]
    check_row_length(model, row, 1, 1, room=1)
    decode = partial(decode_continuation, tokenizer.decode, text, row)
    streamer = TextStreamer(decode, stream)
    on_token = None if stream is None else streamer.on_token
    tokens = model.generate([row], streamer=on_token, tokenizer=tokenizer, **settings)
    assert isinstance(tokens, Tensor)
    continuation = decode(tokens[0].tolist()[len(row) :])
    streamer.send(continuation)
    return continuation


def decode_continuation(
    decode: Callable[[list[int]], str], prompt: str, prompt_ids: Sequence[int], ids: Sequence[int]
) -> str:
    """The text of new tokens, as it follows a prompt: a space between the two belongs to it.

    Alone, they would be decoded as the beginning of a text, where many tokenizers leave out a space.
    """
    before, whole = decode(list(prompt_ids)), decode([*prompt_ids, *ids])
    if not whole.startswith(before):  # the new tokens change how the prompt is written, such as its last punctuation
        return decode(list(ids))
    is_space_given = prompt[-1:].isspace() and not before[-1:].isspace()  # a space that no token stands for
    return whole[len(before) :].removeprefix(" " if is_space_given else "")


class TextStreamer:
    """The text of tokens as they come; a character of several bytes is held back until it is complete.

    decode   turns all tokens so far into text, such as `decode_continuation` after a prompt
    stream   called with each new piece; all of them together are `sent`
    """

    def __init__(self, decode: Callable[[list[int]], str], stream: Callable[[str], object] | None = None) -> None:
        self.decode, self.stream = decode, stream
        self.tokens: list[int] = []
        self.sent = ""

    def on_token(self, row: int, token: int) -> None:
        self.tokens.append(token)
        text = self.decode(self.tokens)
        if not text.endswith("�"):
            self.send(text)

    def send(self, text: str) -> None:
        """Send the part of a text that was not sent before.

        A tokenizer that joins what it had written apart ("do n't" to "don't") changes text that is sent already: what
        follows as many characters goes on.
        """
        piece = text[len(self.sent) :]
        self.sent = text if text.startswith(self.sent) else self.sent + piece
        if piece and self.stream is not None:
            self.stream(piece)
