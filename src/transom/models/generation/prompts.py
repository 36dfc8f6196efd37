"""The prompts of a `generate` call: rows of tokens, and which of these are padding.

Padding is recognised by the lengths of lists or by a mask, never by the token itself.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.models.generation.config import warn_caller
from transom.models.position_ids import check_real_mask
from transom.names import Misfit, format_shape

TokenRows = Int[Tensor, "batch token"] | Sequence[Any]  # a tensor, or lists that may differ in length
MaskRows = Tensor | Sequence[Any]
NO_PROMPT = "generate takes one or more prompts, but there is none; give one"


class Prompts(NamedTuple):
    """The prompts as one tensor, in the order of the call; shorter lists are filled up behind their ends."""

    tokens: Int[Tensor, "batch token"]
    lengths: list[int] | None = None  # of the lists, if they differ
    real: Bool[Tensor, "batch token"] | None = None  # True for tokens, False for padding; None if all are tokens

    def counts(self) -> list[int]:
        """The length of each row; padding in a tensor is part of it."""
        return [self.tokens.shape[1]] * len(self.tokens) if self.lengths is None else self.lengths


def parse_prompts(
    rows: TokenRows, real: Tensor | None, attention_mask: MaskRows | None, device: torch.device, name: str = "tokens"
) -> Prompts:
    """The prompts and their padding, which `real` or `attention_mask` may mark; `name` is for errors."""
    if real is not None and attention_mask is not None:
        raise Misfit("real and attention_mask both say what is padding; leave one of the two out")
    tokens, lengths = (rows, None) if isinstance(rows, Tensor) else join_lists(rows, device)
    if tokens.dim() != 2 or tokens.is_floating_point():
        raise Misfit(
            f"generate takes tokens as (batch, token), but they are {format_shape(tokens, 'token')} of {tokens.dtype};"
            " a single sequence goes in as tokens[None]"
        )
    if len(tokens) == 0:
        raise Misfit(NO_PROMPT)
    mask_name = "attention_mask" if attention_mask is not None else "source_real" if name == "source" else "real"
    if attention_mask is not None:
        real = to_bool_mask(attention_mask, lengths)
    check_real_mask(tokens, real, tokens_name=name, name=mask_name)
    check_no_gaps(real, mask_name)
    if lengths is not None:
        inside = torch.arange(tokens.shape[1], device=tokens.device) < tokens.new_tensor(lengths)[:, None]
        real = inside if real is None else real & inside
    return Prompts(tokens, lengths, None if real is None or bool(real.all()) else real)


def join_lists(rows: Sequence[Any], device: torch.device) -> tuple[Tensor, list[int] | None]:
    """Lists of tokens as one tensor, and their lengths if they differ."""
    lists = [row.tolist() if isinstance(row, Tensor) else row for row in rows]
    if not lists:
        raise Misfit(NO_PROMPT)
    for number, row in enumerate(lists):
        if not isinstance(row, list | tuple) or not all(type(token) is int for token in row):
            raise Misfit(
                f"generate takes a list of whole numbers for each prompt, but prompt {number} is {row!r:.50};"
                " a single sequence goes in as [tokens]"
            )
    if invalid := [token for row in lists for token in row if not 0 <= token < 2**31]:
        raise Misfit(f"tokens are whole numbers, 0 or more, but {invalid[0]} came; use the tokenizer of the model")
    lengths = [len(row) for row in lists]
    tokens = torch.tensor(fill_up(lists), dtype=torch.int64, device=device)
    return tokens, lengths if min(lengths) < max(lengths) else None


def fill_up(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Rows of one length: the shorter ones end with zeros, which are masked and appear in no result."""
    longest = max(map(len, rows), default=0)
    return [[*row, *[0] * (longest - len(row))] for row in rows]


def to_bool_mask(mask: MaskRows, lengths: list[int] | None) -> Tensor:
    """A mask of 1 and 0, or of True and False, as True and False; lists may differ in length."""
    if not isinstance(mask, Tensor):
        rows = [list(row) for row in mask]
        if lengths is not None and [len(row) for row in rows] != lengths:
            raise Misfit(
                f"attention_mask must have a number per token, {lengths} of them, but it has"
                f" {[len(row) for row in rows]}; leave it out if the lists hold no padding"
            )
        mask = torch.tensor(fill_up(rows))
    if mask.dtype == torch.bool:
        return mask
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise Misfit("attention_mask must hold 1 for tokens and 0 for padding, but other numbers came; give 1 and 0")
    return mask.bool()


def check_no_gaps(real: Bool[Tensor, "batch token"] | None, name: str) -> None:
    """Padding stands in front of a row's tokens or behind them, not between them."""
    if real is None or real.shape[1] < 2:
        return
    starts = torch.cat([real[:, :1], real[:, 1:] & ~real[:, :-1]], dim=1).sum(dim=1)
    if bool((starts > 1).any()):
        row = int((starts > 1).nonzero()[0])
        raise Misfit(
            f"{name} may mark padding in front of the tokens and behind them, but row {row} has some between its"
            " tokens; take it out of the row"
        )


def warn_of_padding(tokens: Int[Tensor, "batch token"], padding: int | None) -> None:
    """Warn that what looks like padding is read as tokens, as there is no mask."""
    if padding is None or tokens.numel() == 0:
        return
    edges = ((tokens[:, 0] == padding) | (tokens[:, -1] == padding)).nonzero()
    if len(edges):
        warn_caller(
            f"row {int(edges[0])} begins or ends with {padding}, the model's padding, and it is read as a token, as no"
            " attention_mask came; give one, or give lists of different lengths"
        )


def left_pad(prompts: Prompts) -> tuple[Tensor, Tensor | None]:
    """Tokens and `real` with all padding in front, so that new tokens follow the last token of each row."""
    tokens, real = prompts.tokens, prompts.real
    if tokens.shape[1] == 0:
        raise Misfit("each prompt needs a token, but they are empty; begin with the start token")
    if real is None:
        return tokens, None
    empty = ~real.any(dim=1)
    if bool(empty.any()):
        raise Misfit(f"each prompt needs a token, but row {int(empty.nonzero()[0])} has none; give it the start token")
    order = real.int().argsort(dim=1, stable=True)
    tokens, real = tokens.gather(1, order), real.gather(1, order)
    first = int(real.int().argmax(dim=1).min())
    tokens, real = tokens[:, first:], real[:, first:]
    return tokens, None if bool(real.all()) else real


def append_to_prompts(prompts: Prompts, new: Tensor, ends: list[int], padding: int) -> Tensor:
    """Each prompt exactly as it came, then its new tokens: the first `ends` of each row of `new`."""
    copies = len(new) // len(prompts.tokens)
    tokens = prompts.tokens.repeat_interleave(copies, dim=0) if copies > 1 else prompts.tokens
    if prompts.lengths is None:
        return torch.cat([tokens, new], dim=1)
    starts = [length for length in prompts.lengths for _ in range(copies)]
    longest = max(start + end for start, end in zip(starts, ends, strict=True))
    sequences = tokens.new_full((len(new), longest), padding)
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        sequences[row, :start], sequences[row, start : start + end] = tokens[row, :start], new[row, :end]
    return sequences
