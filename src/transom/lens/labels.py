"""The words beside an attention: what each row reads and predicts, and what each column is."""

from dataclasses import dataclass

from transom.lens.beside import Tokens
from transom.lens.glance import Glance
from transom.lens.grids import Grid
from transom.lens.sight import Sight
from transom.names import Misfit

# How the paths of attentions are spelled that look from a target at a source.
CROSS = ("cross", "encoder_attn", "encdecattention", "multihead_attn", "src_attn", "enc_dec", "encoder_attention")
DECODER = "decoder"


@dataclass(frozen=True)
class Labels:
    """For each row the token it reads, and the one it predicts where rows are predictions; for each column its token.

    `predicts` is None for an attention that predicts nothing; its last word is None where what comes is not known.
    """

    reads: list[str]
    predicts: list[str | None] | None
    at: list[str]


def labels(
    name: str, sight: Sight, tokens: Tokens | None, targets: Tokens | None, grid: Grid | None, batch: int
) -> Labels:
    """The words of one attention; numbers where none were given."""
    queries, keys = whole(sight)[2:]
    if grid is not None and grid.covers(name, keys) and queries == keys:
        return Labels(grid.labels(), None, grid.labels())
    crossing, on_target = is_cross(name), targets is not None and in_decoder(name)
    first = 0 if sight.stretch is None else sight.stretch.first
    columns = of_sequence(targets if on_target and not crossing else tokens, batch)
    at = words(name, columns, first, keys, "keys")
    if crossing:
        rows, start = of_sequence(targets, batch), 0
    else:
        rows, start = columns, max(0, first + keys - queries)
    reads = words(name, rows, start, queries, "queries")
    if rows is None or not (crossing or looks_back(sight)):
        return Labels(reads, None, at)
    following: list[str | None] = [*rows[start + 1 : start + 1 + queries]]
    return Labels(reads, following + [None] * (queries - len(following)), at)


def whole(sight: Sight) -> tuple[int, int, int, int]:
    return sight.whole if isinstance(sight, Glance) else sight.problem.whole


def is_cross(name: str) -> bool:
    """Whether an attention looks from a target at a source, by its name."""
    path = name.lower()
    return any(word in path for word in CROSS)


def in_decoder(name: str) -> bool:
    """Whether an attention belongs to a decoder beside an encoder, by its name."""
    return any(DECODER in part for part in name.lower().split(".")) or is_cross(name)


def of_sequence(tokens: Tokens | None, batch: int) -> list[str] | None:
    """The words of one sequence of the batch."""
    if tokens is None:
        return None
    if not -len(tokens) <= batch < len(tokens):
        raise Misfit(f"tokens were given for {len(tokens)} sequences, so {batch} is none of them; count from 0")
    return tokens[batch]


def words(name: str, tokens: list[str] | None, first: int, count: int, axis: str) -> list[str]:
    """So many words from the first on."""
    if tokens is None:
        return [str(number) for number in range(first, first + count)]
    if len(tokens) < first + count:
        raise Misfit(
            f"{name!r} has {axis}={first + count}, but there are {len(tokens)} words for them; give tokens (and"
            " targets, for what a decoder reads) with one word per token"
        )
    return tokens[first : first + count]


def looks_back(sight: Sight) -> bool:
    """Whether no row looks ahead, so that each predicts what comes next."""
    if isinstance(sight, Glance):
        return False
    queries, keys = sight.problem.whole[2:]
    ahead = sight.weights(rows=0, keys=slice(max(0, keys - queries) + 1, None)) if queries else sight.lse
    return not bool(ahead.any())
