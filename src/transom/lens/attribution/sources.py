"""Which passages made a number: their attention, the estimate, and the run in which no one could read them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.lens.ablation.edge import Edge
from transom.lens.attention.labels import in_decoder, is_cross
from transom.lens.attribution.explained_run import ExplainedRun, Progress
from transom.lens.attribution.influence_table import InfluenceTable, SourceInfluence
from transom.lens.attribution.key_sets import KeySet, set_members
from transom.lens.attribution.passages import SPLITTERS, split_passages
from transom.names import Misfit, check_index

Spans = Sequence[KeySet] | Mapping[str, KeySet] | str


class PassageSums(NamedTuple):
    """What all attentions say of each passage: the weight of one row, the estimates, and which rows outside read it."""

    mass: Float[Tensor, " any"]
    estimates: Float[Tensor, " any"]
    readers: Bool[Tensor, "any keys"]

    @classmethod
    def zeros(cls, passages: int, keys: int) -> "PassageSums":
        mass, estimates = torch.zeros(2, passages, dtype=torch.float64)
        return cls(mass, estimates, torch.zeros(passages, keys, dtype=torch.bool))


def rank_sources(
    found: ExplainedRun, spans: Spans, query: int, refine: int | None, progress: Progress | None
) -> InfluenceTable[SourceInfluence]:
    """The table of passages, the largest true change first, then the largest estimate."""
    names = source_attentions(list(found.attentions))
    keys = found.attentions[names[0]].sight.shape[3]
    named = name_spans(found, spans)
    members = set_members(list(named.values()), keys, torch.device("cpu"))
    sums = PassageSums.zeros(len(members), keys)
    for name in names:
        check_same_keys(name, found.attentions[name].sight.shape, keys)
        reads = name in reading_attentions(names)
        add_attention(found, name, members, query if reads else None, sums)
    mass, estimates = sums.mass, sums.estimates
    mass /= sum(found.attentions[name].sight.shape[1] for name in reading_attentions(names))
    order = estimates.abs().argsort(descending=True).tolist()
    chosen = order if refine is None else order[:refine]
    sets = [passage_edges(names, members[index], sums.readers[index]) for index in chosen]
    changes = dict(zip(chosen, true_changes(found, sets, progress), strict=True))
    rows = []
    for index in [*sorted(chosen, key=lambda one: -abs(changes[one])), *(one for one in order if one not in changes)]:
        positions = members[index].nonzero()[:, 0]
        numbers = float(mass[index]), float(estimates[index]), changes.get(index)
        rows.append(SourceInfluence(list(named)[index], int(positions[0]), int(positions[-1]), *numbers))
    return InfluenceTable(rows, found.describe_unit())


def name_spans(found: ExplainedRun, spans: Spans) -> dict[str, KeySet]:
    """The spans by name: as given, or numbered, or the parts of the text of the run."""
    if isinstance(spans, str):
        tokens = found.trace.tokens
        if spans not in SPLITTERS or tokens is None:
            raise Misfit(
                f"spans are given, or {' or '.join(map(repr, SPLITTERS))} of the tokens, but got {spans!r:.60}"
                f"{'' if tokens else ' and no tokens'}; influence(…, tokens=…) knows the text"
            )
        return dict(split_passages(tokens[0], spans))
    if isinstance(spans, Mapping):
        return dict(spans)
    return {str(number): span for number, span in enumerate(spans)} if isinstance(spans, Sequence) else {}


def source_attentions(names: list[str]) -> list[str]:
    """The attentions whose keys are the tokens of the text: all, or in an encoder–decoder those over the source."""
    if not any(map(is_cross, names)):
        return names
    return [name for name in names if is_cross(name) or not in_decoder(name)]


def reading_attentions(names: list[str]) -> list[str]:
    """Those whose rows write the answer: the cross-attentions, or all if there are none."""
    return [name for name in names if is_cross(name)] or names


def check_same_keys(name: str, shape: tuple[int, int, int, int], keys: int) -> None:
    if shape[3] != keys or not (is_cross(name) or shape[2] == shape[3]):
        raise Misfit(
            f"passages are the same keys in every attention, but {name!r} has queries={shape[2]} and keys={shape[3]},"
            f" and the first attention keys={keys}; ask found[name].spans(…) of each"
        )


def add_attention(found: ExplainedRun, name: str, members: Tensor, query: int | None, sums: PassageSums) -> None:
    """Add what one attention says: the weight that one row gives each passage, and the estimates of rows outside it."""
    attention = found.attentions[name]
    row = -1 if query is None else check_index(query, "queries", attention.sight.shape[2])
    outside = None if is_cross(name) else ~members.T
    for block, changes, weights in attention.changes.span_blocks(members.to(attention.gradient.device)):
        changes, weights, rows = changes.cpu(), weights.cpu(), block.rows
        if outside is not None:
            changes = changes * outside[rows]
            sums.readers[:, rows] |= ((weights > 0.0).any(dim=1).any(dim=0) & outside[rows]).T
        sums.estimates.add_(changes.sum(dim=(0, 1, 2)))
        first, last, _ = rows.indices(block.full_shape[2]) if isinstance(rows, slice) else (0, 0, 1)
        if first <= row < last:
            sums.mass.add_(weights[:, :, row - first].sum(dim=(0, 1)))


def true_changes(found: ExplainedRun, sets: list[list[Edge]], progress: Progress | None) -> list[float]:
    """The change without each set of edges; 0 for an empty one."""
    measured = iter(found.measure([some for some in sets if some], progress))
    return [next(measured) if some else 0.0 for some in sets]


def passage_edges(names: list[str], member: Tensor, readers: Tensor) -> list[Edge]:
    """The edges into a passage from rows outside it, from the first row on that gives it weight in any attention."""
    keys, edges = member.nonzero()[:, 0].tolist(), []
    crossing, own = [name for name in names if is_cross(name)], [name for name in names if not is_cross(name)]
    if crossing:
        edges.append(Edge(crossing, key=keys))
    reading = readers.nonzero()[:, 0].tolist()
    if reading:
        outside = (~member).nonzero()[:, 0]
        edges.append(Edge(own, query=outside[outside >= reading[0]].tolist(), key=keys))
    return edges
