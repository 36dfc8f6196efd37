"""Which passages made a number: their attention, the estimate, and the run in which no one could read them."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from transom.lens.ablation.edge import Edge
from transom.lens.attention.labels import in_decoder, is_cross
from transom.lens.attribution.explained_run import ExplainedRun, Progress
from transom.lens.attribution.influence_table import InfluenceTable, SourceInfluence
from transom.lens.attribution.key_sets import KeySet, set_members
from transom.lens.attribution.passages import SPLITTERS, split_passages
from transom.names import Misfit, check_index

Spans = Sequence[KeySet] | Mapping[str, KeySet] | str


def rank_sources(
    found: ExplainedRun, spans: Spans, query: int, refine: int | None, progress: Progress | None
) -> InfluenceTable[SourceInfluence]:
    """The table of passages, the largest true change first, then the largest estimate."""
    names = source_attentions(list(found.attentions))
    keys = found.attentions[names[0]].sight.shape[3]
    named = name_spans(found, spans)
    members = set_members(list(named.values()), keys, torch.device("cpu"))
    mass, estimates = torch.zeros(2, len(members), dtype=torch.float64)
    for name in names:
        check_same_keys(name, found.attentions[name].sight.shape, keys)
        reads = name in reading_attentions(names)
        add_attention(found, name, members, query if reads else None, (mass, estimates))
    mass /= sum(found.attentions[name].sight.shape[1] for name in reading_attentions(names))
    order = estimates.abs().argsort(descending=True).tolist()
    chosen = order if refine is None else order[:refine]
    changes = dict(zip(chosen, true_changes(found, names, members[chosen], progress), strict=True))
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


def add_attention(
    found: ExplainedRun, name: str, members: Tensor, query: int | None, sums: tuple[Tensor, Tensor]
) -> None:
    """Add what one attention says: the weight that one row gives each passage, and the estimates of rows outside it."""
    attention, (mass, estimates) = found.attentions[name], sums
    row = -1 if query is None else check_index(query, "queries", attention.sight.shape[2])
    outside = None if is_cross(name) else ~members.T
    for block, changes, weights in attention.changes.span_blocks(members.to(attention.gradient.device)):
        changes, weights, rows = changes.cpu(), weights.cpu(), block.rows
        if outside is not None:
            changes = changes * outside[rows]
        estimates += changes.sum(dim=(0, 1, 2))
        first, last, _ = rows.indices(block.full_shape[2]) if isinstance(rows, slice) else (0, 0, 1)
        if first <= row < last:
            mass += weights[:, :, row - first].sum(dim=(0, 1))


def true_changes(found: ExplainedRun, names: list[str], members: Tensor, progress: Progress | None) -> list[float]:
    """The change if no row outside a passage can attend to it, in any of the attentions; 0 if none could."""
    sets = [passage_edges(found, names, some) for some in members]
    measured = iter(found.measure([some for some in sets if some], progress))
    return [next(measured) if some else 0.0 for some in sets]


def passage_edges(found: ExplainedRun, names: list[str], member: Tensor) -> list[Edge]:
    """The edges into a passage from rows outside it that give it weight."""
    keys, edges = member.nonzero()[:, 0].tolist(), []
    outside = (~member).nonzero()[:, 0].tolist()
    crossing, own = [name for name in names if is_cross(name)], [name for name in names if not is_cross(name)]
    if crossing:
        edges.append(Edge(crossing, key=keys))
    if own and outside and reads_passage(found, own, outside, keys):
        edges.append(Edge(own, query=outside, key=keys))
    return edges


def reads_passage(found: ExplainedRun, names: list[str], outside: list[int], keys: list[int]) -> bool:
    """Whether any row outside a passage gives it weight; the last ones are tried first."""
    for name in names:
        sight = found.attentions[name].sight
        for first in range(len(outside), 0, -64):
            if bool((sight.weights(batch=0, rows=outside[max(0, first - 64) : first], keys=keys) > 0.0).any()):
                return True
    return False
