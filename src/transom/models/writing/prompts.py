"""What `generate` is given to go on from: rows of tokens, and which of these are padding.

Padding is known from the lengths of lists or from a mask, never from what a token is.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.models.places import check_real
from transom.names import Misfit, spelled

Given = Int[Tensor, "batch token"] | Sequence[Any]  # a tensor, or lists of their own lengths
MaskGiven = Tensor | Sequence[Any]


class Prompts(NamedTuple):
    """Rows as they came, behind each other; a list's shorter rows are filled up behind their ends."""

    tokens: Int[Tensor, "batch token"]
    lengths: list[int] | None = None  # of a list's rows as they came, where they differ
    real: Bool[Tensor, "batch token"] | None = None  # True for tokens, False for padding; None where all are tokens

    def counts(self) -> list[int]:
        """How many places each row takes up: padding in a tensor is part of it."""
        return [self.tokens.shape[1]] * len(self.tokens) if self.lengths is None else self.lengths


def read_prompts(
    given: Given, real: Tensor | None, attention_mask: MaskGiven | None, device: torch.device, words: str = "tokens"
) -> Prompts:
    """The prompts and their padding, by `real` or by a mask of 1 and 0, of which there may be one."""
    if real is not None and attention_mask is not None:
        raise Misfit("real and attention_mask both say what is padding; leave one of the two out")
    tokens, lengths = (given, None) if isinstance(given, Tensor) else from_lists(given, device)
    if tokens.dim() != 2 or tokens.is_floating_point():
        raise Misfit(
            f"generate takes tokens as (batch, token), but they are {spelled(tokens, 'token')} of {tokens.dtype};"
            " a single sequence goes in as tokens[None]"
        )
    name = "attention_mask" if attention_mask is not None else f"{'source_' * (words == 'source')}real"
    if attention_mask is not None:
        real = from_mask(attention_mask, lengths)
    check_real(tokens, real, words=f"{words} {name}")
    check_holes(real, name)
    inside = behind(lengths, tokens)
    real = real if inside is None else inside if real is None else real & inside
    return Prompts(tokens, lengths, None if real is None or bool(real.all()) else real)


def from_lists(given: Sequence[Any], device: torch.device) -> tuple[Tensor, list[int] | None]:
    """Rows of numbers as one tensor, and how long each is where they differ."""
    rows = [row.tolist() if isinstance(row, Tensor) else row for row in given]
    if not rows:
        raise Misfit("generate takes a list of tokens for each prompt, but there is none; give one or more")
    for place, row in enumerate(rows):
        if not isinstance(row, list | tuple) or not all(type(token) is int for token in row):
            raise Misfit(
                f"generate takes a list of whole numbers for each prompt, but prompt {place} is {row!r:.50};"
                " a single sequence goes in as [tokens]"
            )
    if odd := [token for row in rows for token in row if not 0 <= token < 2**31]:
        raise Misfit(f"tokens are whole numbers from 0 on, but {odd[0]} came; use the tokenizer of the model")
    lengths, longest = [len(row) for row in rows], max(map(len, rows))
    # What fills up is masked, and stands in no result.
    tokens = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.int64, device=device)
    return tokens.view(len(rows), longest), lengths if min(lengths) < longest else None


def from_mask(given: MaskGiven, lengths: list[int] | None) -> Tensor:
    """A mask of 1 and 0, or of True and False, as True and False; a list's rows may have lengths of their own."""
    if not isinstance(given, Tensor):
        rows = [list(row) for row in given]
        if lengths is not None and [len(row) for row in rows] != lengths:
            raise Misfit(
                f"attention_mask must have a number per token, {lengths} of them, but it has"
                f" {[len(row) for row in rows]}; leave it out where the lists hold no padding"
            )
        longest = max(map(len, rows), default=0)
        given = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    if given.dtype == torch.bool:
        return given
    if not bool(((given == 0) | (given == 1)).all()):
        raise Misfit("attention_mask must hold 1 for tokens and 0 for padding, but other numbers came; give 1 and 0")
    return given.bool()


def check_holes(real: Bool[Tensor, "batch token"] | None, name: str) -> None:
    """Padding stands in front of a row's tokens or behind them, not among them."""
    if real is None or real.shape[1] < 2:
        return
    begins = torch.cat([real[:, :1], real[:, 1:] & ~real[:, :-1]], dim=1).sum(dim=1)
    if bool((begins > 1).any()):
        row = int((begins > 1).nonzero()[0])
        raise Misfit(
            f"{name} may tell of padding in front of the tokens and behind them, but row {row} has some between its"
            " tokens; take it out of the row"
        )


def behind(lengths: list[int] | None, tokens: Tensor) -> Tensor | None:
    """True up to the end of each row of a list."""
    if lengths is None:
        return None
    ends = torch.tensor(lengths, device=tokens.device)
    return torch.arange(tokens.shape[1], device=tokens.device) < ends[:, None]


def flush_right(prompts: Prompts) -> tuple[Tensor, Tensor | None]:
    """The tokens with all padding in front, wherever it stood: what is written follows the last token of each row."""
    tokens, real = prompts.tokens, prompts.real
    if real is None:
        return tokens, None
    if not bool(real.any(dim=1).all()):
        row = int((~real.any(dim=1)).nonzero()[0])
        raise Misfit(f"each prompt needs a token, but row {row} has none; give it the start token")
    order = real.int().argsort(dim=1, stable=True)
    tokens, real = tokens.gather(1, order), real.gather(1, order)
    first = int(real.int().argmax(dim=1).min())
    tokens, real = tokens[:, first:], real[:, first:]
    return tokens, None if bool(real.all()) else real


def continued_rows(prompts: Prompts, new: Tensor, ends: list[int], padding: int) -> Tensor:
    """Each prompt exactly as it came, then what was written after it: `ends` tokens of each row of `new`."""
    times = len(new) // len(prompts.tokens) if len(prompts.tokens) else 1
    tokens = prompts.tokens.repeat_interleave(times, dim=0) if times > 1 else prompts.tokens
    if prompts.lengths is None:
        return torch.cat([tokens, new], dim=1)
    starts = [length for length in prompts.lengths for _ in range(times)]
    longest = max(start + end for start, end in zip(starts, ends, strict=True))
    found = tokens.new_full((len(new), longest), padding)
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        found[row, :start], found[row, start : start + end] = tokens[row, :start], new[row, :end]
    return found
