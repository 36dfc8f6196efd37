"""The weights of a head between words: the columns of a word's tokens summed, its rows merged by a rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.lens.attention.record import head_row_blocks
from transom.lens.attention.sight import Sight
from transom.names import Misfit, check_index

Groups = Sequence[Sequence[int]]
# How a token shows that it begins a word (byte-level BPE, SentencePiece, plain); left out when a word is read.
BEGINNINGS = ("Ġ", "▁", " ", "Ċ", "\n")
CONTINUED = "##"  # WordPiece: how a token shows that it continues a word
# How much the row of each of a word's tokens counts.
RULES: dict[str, Callable[[int], list[float]]] = {
    "mean": lambda count: [1.0 / count] * count,
    "first": lambda count: [1.0] + [0.0] * (count - 1),
    "last": lambda count: [0.0] * (count - 1) + [1.0],  # in a decoder it has seen the whole word
}


@dataclass(frozen=True, eq=False)
class WordWeights:
    """The weights of one head between words; a row sums to what its tokens' rows sum to."""

    weights: Float[Tensor, "rows columns"]
    rows: list[str]
    keys: list[str]
    rule: str


def group_words(tokens: Sequence[str]) -> list[list[int]]:
    """The positions of each word's tokens, in order; a special token is a word of its own.

    The tokens show it themselves: Ġ, ▁ or a space begins a word, ## continues one.
    """
    begins = [token.startswith(BEGINNINGS) for token in tokens]
    continues = [token.startswith(CONTINUED) and token != CONTINUED for token in tokens]
    if not any(begins) and not any(continues):
        raise Misfit(
            f"tokens show their words by Ġ, ▁, a space or ##, but none of {list(tokens)!r:.60} does; give groups,"
            " a list of positions for each word"
        )
    if not any(begins):  # WordPiece marks only the tokens that do not begin a word
        begins = [not continued for continued in continues]
    groups: list[list[int]] = []
    closed = True  # whether the last group takes no more tokens
    for position, token in enumerate(tokens):
        special = is_special(token)
        if special or begins[position] or closed:
            groups.append([position])
        else:
            groups[-1].append(position)
        closed = special
    return groups


def is_special(token: str) -> bool:
    """Whether a token stands for no text: <s>, </s>, [CLS], <|end|>."""
    return len(token) > 2 and (token[0], token[-1]) in (("<", ">"), ("[", "]"))


def join_tokens(tokens: Sequence[str], group: Sequence[int]) -> str:
    """A word as people read it."""
    first, *others = (tokens[position] for position in group)
    text = first + "".join(token.removeprefix(CONTINUED) for token in others)
    for mark in BEGINNINGS:
        text = text.replace(mark, " ")
    return text.strip() or first


def by_words(
    sight: Sight,
    head: int,
    tokens: Sequence[str],
    sources: Sequence[str] | None = None,
    rule: str = "mean",
    batch: int = 0,
    groups: tuple[Groups, Groups] | None = None,
) -> WordWeights:
    """One head's weights between words: the columns of a word are summed, its rows merged by the rule.

    tokens    of the rows, and of the columns too unless `sources` are given, as for cross-attention
    rule      of RULES: the mean of the rows (the default), or the row of the first or the last token
    groups    the positions of each word's tokens, of rows and of columns, if the tokens do not show them
    """
    if rule not in RULES:
        raise Misfit(f"rule must be one of {', '.join(RULES)}, but got {rule!r}; mean is the usual one")
    queries, keys = sight.shape[2:]
    sources = tokens if sources is None else sources
    check_token_count(tokens, queries, "queries")
    check_token_count(sources, keys, "keys")
    row_groups, key_groups = groups if groups is not None else (group_words(tokens), group_words(sources))
    row_words, key_words = word_numbers(row_groups, queries, "queries"), word_numbers(key_groups, keys, "keys")
    shares = torch.zeros(queries, dtype=torch.float64)
    for group in row_groups:
        shares[list(group)] = torch.tensor(RULES[rule](len(group)), dtype=torch.float64)
    weights = torch.zeros((len(row_groups), len(key_groups)), dtype=torch.float64)
    for block in head_row_blocks(sight, batch, check_index(head, "heads", sight.shape[1])):
        rows = sight.region_weights(block)[0, 0].double().cpu() * shares[block.rows, None]
        by_key = rows.new_zeros((len(rows), len(key_groups))).index_add_(1, key_words[block.columns], rows)
        weights.index_add_(0, row_words[block.rows], by_key)
    return WordWeights(
        weights.to(sight.lse.dtype),
        [join_tokens(tokens, group) for group in row_groups],
        [join_tokens(sources, group) for group in key_groups],
        rule,
    )


def word_numbers(groups: Groups, size: int, axis: str) -> Int[Tensor, " any"]:
    """For each token the number of its word, if every token is in exactly one word."""
    if sorted(position for group in groups for position in group) != list(range(size)) or not all(map(len, groups)):
        raise Misfit(
            f"groups should hold each of {axis}={size} once, but they do not; every token belongs to one"
            " word, and to no other"
        )
    numbers = torch.zeros(size, dtype=torch.long)
    for number, group in enumerate(groups):
        numbers[list(group)] = number
    return numbers


def check_token_count(tokens: Sequence[str], size: int, axis: str) -> None:
    if len(tokens) != size:
        raise Misfit(
            f"there should be a token for each of {axis}={size}, but {len(tokens)} came; give one string per token,"
            " and sources for the columns of cross-attention"
        )
