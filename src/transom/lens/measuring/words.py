"""Tokens joined to words: a word's columns summed, its rows made one by a rule that has a name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.lens.asked import inside
from transom.lens.measuring.row_bands import row_bands
from transom.lens.sight import Sight
from transom.names import Misfit

Groups = Sequence[Sequence[int]]
# How a token tells that a word begins with it, and what is taken off to read it: byte-level BPE, SentencePiece, plain.
BEGINNINGS = ("Ġ", "▁", " ", "Ċ", "\n")
CONTINUED = "##"  # WordPiece: how a token tells that the word goes on


def mean(rows: int) -> list[float]:
    """Every token of a word looks alike much."""
    return [1.0 / rows] * rows


def first(rows: int) -> list[float]:
    """A word looks as its first token does."""
    return [1.0, *[0.0] * (rows - 1)]


def last(rows: int) -> list[float]:
    """A word looks as its last token does, which in a decoder has seen all of it."""
    return [*[0.0] * (rows - 1), 1.0]


RULES: dict[str, Callable[[int], list[float]]] = {"mean": mean, "first": first, "last": last}


@dataclass(frozen=True, eq=False)
class Words:
    """The weights of one head between words; a row sums to what its tokens' rows do."""

    weights: Float[Tensor, "rows columns"]
    rows: list[str]
    keys: list[str]
    rule: str


def grouped(tokens: Sequence[str]) -> list[list[int]]:
    """The tokens of each word, in order: a word is what stands between two spaces; a special token stands alone.

    Told by the tokens themselves: Ġ, ▁ or a space begins a word, ## goes on with one.
    """
    marked = [token.startswith(BEGINNINGS) for token in tokens]
    continued = [token.startswith(CONTINUED) and token != CONTINUED for token in tokens]
    if not any(marked) and not any(continued):
        raise Misfit(
            f"tokens tell their words by Ġ, ▁, a space or ##, but none of {list(tokens)!r:.60} does; give groups,"
            " a list of places for each word"
        )
    by_wordpiece = any(continued) and not any(marked)
    groups: list[list[int]] = []
    alone = True  # whether the last group takes no more
    for place, token in enumerate(tokens):
        special = is_special(token)
        begins = not continued[place] if by_wordpiece else marked[place]
        if special or begins or alone:
            groups.append([place])
        else:
            groups[-1].append(place)
        alone = special
    return groups


def is_special(token: str) -> bool:
    """Whether a token stands for no text: <s>, </s>, [CLS], <|end|>."""
    return len(token) > 2 and (token[0], token[-1]) in (("<", ">"), ("[", "]"))


def spelled_out(tokens: Sequence[str], group: Sequence[int]) -> str:
    """A word as one reads it."""
    pieces = (tokens[place].removeprefix(CONTINUED) if place != group[0] else tokens[place] for place in group)
    text = "".join(pieces)
    for mark in BEGINNINGS:
        text = text.replace(mark, " ")
    return text.strip() or tokens[group[0]]


def by_words(
    sight: Sight,
    head: int,
    tokens: Sequence[str],
    sources: Sequence[str] | None = None,
    rule: str = "mean",
    batch: int = 0,
    groups: tuple[Groups, Groups] | None = None,
) -> Words:
    """One head's weights between words: the columns of a word are summed, its rows joined by the rule.

    tokens    of the rows, and of the columns too unless `sources` are given, as for cross-attention
    rule      of RULES: mean of the rows (as usual), or those of the first or the last token
    groups    the places of each word's tokens, of rows and of columns, where the tokens do not tell
    """
    if rule not in RULES:
        raise Misfit(f"rule must be one of {', '.join(RULES)}, but got {rule!r}; mean is the usual one")
    queries, keys = sight.problem.whole[2:]
    at = tokens if sources is None else sources
    check_count(tokens, queries, "queries")
    check_count(at, keys, "keys")
    of_rows, of_keys = groups if groups is not None else (grouped(tokens), grouped(at))
    check_groups(of_rows, queries, "queries")
    check_groups(of_keys, keys, "keys")
    shares = torch.zeros(queries, dtype=torch.float64)
    for group in of_rows:
        shares[list(group)] = torch.tensor(RULES[rule](len(group)), dtype=torch.float64)
    found = torch.zeros((len(of_rows), len(of_keys)), dtype=torch.float64)
    word_of_row, word_of_key = number_of(of_rows, queries), number_of(of_keys, keys)
    inside(head, "heads", sight.problem.whole[1])
    with torch.no_grad():
        for band, weights in row_bands(sight, batch, head):
            part = weights[0].double().cpu() * shares[band.rows, None]
            by_key = part.new_zeros((len(part), len(of_keys))).index_add_(1, word_of_key[band.columns], part)
            found.index_add_(0, word_of_row[band.rows], by_key)
    return Words(
        found.to(sight.lse.dtype),
        [spelled_out(tokens, group) for group in of_rows],
        [spelled_out(at, group) for group in of_keys],
        rule,
    )


def number_of(groups: Groups, size: int) -> Int[Tensor, " any"]:
    """For each token the number of its word."""
    found = torch.zeros(size, dtype=torch.long)
    for number, group in enumerate(groups):
        found[list(group)] = number
    return found


def check_count(tokens: Sequence[str], size: int, axis: str) -> None:
    if len(tokens) != size:
        raise Misfit(
            f"there should be a token for each of {axis}={size}, but {len(tokens)} came; give one string per token,"
            " and sources for the columns of cross-attention"
        )


def check_groups(groups: Groups, size: int, axis: str) -> None:
    """Every token is in one word, and in one only."""
    if sorted(place for group in groups for place in group) != list(range(size)) or not all(map(len, groups)):
        raise Misfit(
            f"groups should hold each of {axis}={size} once, but they do not; every token belongs to one"
            " word, and to no other"
        )
