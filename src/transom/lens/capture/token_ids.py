"""The tokens that a watched model reads: the ids that come in, spelled by a tokenizer."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from transom.lens.trace import Trace
from transom.names import Misfit

Ids = list[list[int]]  # of each sequence
NAMES = {"tokens": ("input_ids", 0), "targets": ("decoder_input_ids", 1)}  # by keyword, or by place


@contextmanager
def read_tokens(model: nn.Module, trace: Trace, tokenizer: Any) -> Iterator[None]:
    """While the block runs, note the ids that the model is called with; at its end the trace has the tokens."""
    if tokenizer is None:
        yield
        return
    if trace.tokens is not None:
        raise Misfit("tokens came and a tokenizer too, but one of them is enough; leave tokens out")
    find_speller(tokenizer)
    seen: dict[str, Ids] = {}

    def note_ids(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for side, (name, place) in NAMES.items():
            ids = kwargs.get(name, args[place] if len(args) > place else None)
            if is_ids(ids):
                seen[side] = join_ids(seen.get(side), torch.atleast_2d(ids).tolist())

    hook = model.register_forward_pre_hook(note_ids, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
    if "tokens" not in seen:
        warnings.warn("no input ids came by, so the tokens are not known; give tokens= instead", stacklevel=4)
    for side, ids in seen.items():
        setattr(trace, side, [spell_tokens(tokenizer, row) for row in ids])


def is_ids(value: Any) -> bool:
    """Whether an argument is token ids: whole numbers, of one sequence or of a batch."""
    if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.dtype == torch.bool:
        return False
    return value.ndim in (1, 2) and value.numel() > 0


def join_ids(before: Ids | None, now: Ids) -> Ids:
    """The ids of a longer run: a later call goes on by one token (with a cache), or begins with all of them again."""
    if before is None or len(before) != len(now):
        return now
    if all(new[: len(old)] == old for old, new in zip(before, now, strict=True)):
        return now
    if all(len(row) == 1 for row in now):
        return [[*old, *new] for old, new in zip(before, now, strict=True)]
    warnings.warn("the model ran on two texts; the tokens are those of the first", stacklevel=3)
    return before


def find_speller(tokenizer: Any) -> Any:
    """The function that turns ids into tokens: Hugging Face's, Transom's, or that of the package tokenizers."""
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return lambda ids: hugging_face_tokens(tokenizer, ids)
    if hasattr(tokenizer, "pieces"):
        return tokenizer.pieces
    if hasattr(tokenizer, "id_to_token"):
        return lambda ids: [str(tokenizer.id_to_token(number)) for number in ids]
    raise Misfit(
        f"tokenizer must turn ids into tokens, but {type(tokenizer).__name__} has neither convert_ids_to_tokens nor"
        " pieces nor id_to_token; give tokens= instead"
    )


def spell_tokens(tokenizer: Any, ids: list[int]) -> list[str]:
    """Each token as text: a space where the vocabulary writes Ġ or ▁."""
    return [token.replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n") for token in find_speller(tokenizer)(ids)]


def hugging_face_tokens(tokenizer: Any, ids: list[int]) -> list[str]:
    """Special tokens stay; of others, the bytes that make whole letters are letters."""
    special = set(tokenizer.all_special_ids)
    tokens = tokenizer.convert_ids_to_tokens(ids)
    texts = [token if "▁" in token else tokenizer.convert_tokens_to_string([token]) for token in tokens]
    spelled = zip(ids, tokens, texts, strict=True)
    return [token if number in special or "\ufffd" in text or not text else text for number, token, text in spelled]
