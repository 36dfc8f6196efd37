"""The strongest arrows of a head, from query tokens to key tokens, and how much of the attention they cover."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from transom.files.strict_settings import check_at_least
from transom.names import Misfit, count_noun
from transom.show.formatting import format_percent
from transom.show.panels.arrows import Arrow, Arrows
from transom.show.panels.head_arrows import LEAST
from transom.show.picture import Picture, Table
from transom.show.selected_head import HiddenKeys, SelectedHead, hide_keys, select_head
from transom.show.views.matrix import influence_note

Edge = tuple[int, int]
WeightedEdge = tuple[int, int, float]
FEW, FEW_BESIDE = (
    40,
    8,
)  # with at most so many tokens all are shown (the second: with `rows`), else those an arrow touches


def arrows(
    thing: Any,
    *,
    most: int = 60,
    least: float = LEAST,
    rows: Sequence[int] | None = None,
    hide: Sequence[int] | int = (),
    renormalise: bool = False,
    effect: Mapping[Edge, float] | Iterable[Any] | None = None,
    in_line: bool = False,
    influence: Any = None,
    **selection: Any,
) -> Picture:
    """One head as arrows, as wide as their weights.

    most, least   the strongest arrows, at most so many, of at least this weight; the figure says what they cover
    rows          only arrows from these tokens
    effect        {(from, at): number}, or the rows of transom.effect: it makes arrows solid or faded
    in_line       the text in one line with arcs, instead of two columns; for a text that looks at itself
    influence     what transom.influence found: the arrows with the largest influence are drawn, whatever they weigh
    """
    selected = select_head(thing, **selection)
    hidden = hide_keys(selected, hide, renormalise)
    queries = list(range(len(selected.rows))) if rows is None else sorted(set(selected.row_indices(rows)))
    if influence is None:
        edges, total = strongest_edges(selected, hidden, queries, most, least)
        effects = effects_by_edge(effect, selected)
    else:
        edges, total, effects = most_influential_edges(selected, hidden, queries, most, influence)
    if in_line and selected.rows != selected.keys:
        raise Misfit("in_line needs a text that attends to itself, but rows and keys have other labels; leave it out")
    most_tokens = FEW if rows is None else FEW_BESIDE
    show_all = max(len(selected.rows), len(selected.keys)) <= most_tokens
    panel = build_panel(selected, edges, effects, show_all, in_line)
    share = format_percent(sum(weight for _, _, weight in edges) / max(1, len(queries)))
    covered = "the attention left" if renormalise else "the attention"
    coverage = f"{len(edges):,} of {total:,} arrows are drawn; they cover {share} of {covered}"
    return Picture(
        view="arrows",
        title=f"{'The strongest arrows' if influence is None else 'Arrows that matter'} of {selected.title}",
        panels=(panel,),
        source=selected.source,
        notes=(
            *hidden.notes(selected),
            f"{coverage} from {count_noun(len(queries), 'token')}.",
            *(effect_notes(panel.arrows) if influence is None else [influence_note(influence, False)]),
        ),
        table=list_arrows(selected, edges, effects),
    )


def build_panel(
    selected: SelectedHead, edges: list[WeightedEdge], effects: dict[Edge, float], show_all: bool, in_line: bool
) -> Arrows:
    """The arrows with all tokens of a short text, otherwise with those that an arrow touches."""
    rows, keys = {row for row, _, _ in edges}, {key for _, key, _ in edges}
    if show_all:
        rows, keys = set(range(len(selected.rows))), set(range(len(selected.keys)))
    if in_line:
        rows = keys = rows | keys
    left, right = sorted(rows), sorted(keys)
    at_left, at_right = ({token: index for index, token in enumerate(side)} for side in (left, right))
    return Arrows(
        left=tuple(selected.rows[row] for row in left),
        right=tuple(selected.keys[key] for key in right),
        arrows=tuple(Arrow(at_left[row], at_right[key], weight, effects.get((row, key))) for row, key, weight in edges),
        skipped_left=count_skipped(left),
        skipped_right=count_skipped(right),
        in_line=in_line,
    )


def strongest_edges(
    selected: SelectedHead, hidden: HiddenKeys, queries: list[int], most: int, least: float
) -> tuple[list[WeightedEdge], int]:
    """(from, at, weight) of the strongest arrows in the order of tokens, and how many arrows there are in all."""
    import torch

    check_at_least(1, most=most)
    keys = hidden.visible
    edges: list[WeightedEdge] = []
    total = 0
    for block in selected.row_slices(len(queries)):
        rows = queries[block]
        weights = hidden.drop_hidden(selected.weights(rows=rows))
        total += int((weights > 0).sum())
        top = torch.topk(weights.flatten(), min(most, weights.numel()))
        edges += [
            (rows[index // len(keys)], keys[index % len(keys)], weight)
            for weight, index in zip(top.values.tolist(), top.indices.tolist(), strict=True)
            if weight >= least
        ]
        edges = sorted(edges, key=lambda edge: -edge[2])[:most]
    return sorted(edges), total


def most_influential_edges(
    selected: SelectedHead, hidden: HiddenKeys, queries: list[int], most: int, influence: Any
) -> tuple[list[WeightedEdge], int, dict[Edge, float]]:
    """The arrows with the largest influence by size, how many there are in all, and the size of each."""
    check_at_least(1, most=most)
    found: list[tuple[float, int, int]] = []
    total = 0
    for block in selected.row_slices(len(queries)):
        rows = queries[block]
        sizes = influence.head_edges(selected.layer, selected.head, rows)[:, hidden.visible].double().abs()
        total += int((sizes > 0).sum())
        values, at = sizes.flatten().topk(min(most, sizes.numel()))
        for value, index in zip(values.tolist(), at.tolist(), strict=True):
            row, key = divmod(index, len(hidden.visible))
            found += [(value, rows[row], hidden.visible[key])] if value > 0.0 else []
        found = sorted(found, reverse=True)[:most]
    weights = {row: selected.weights(rows=row) for row in {row for _, row, _ in found}}
    edges = sorted((row, key, float(weights[row][key])) for _, row, key in found)
    return edges, total, {(row, key): value for value, row, key in found}


def effects_by_edge(effect: Any, selected: SelectedHead) -> dict[Edge, float]:
    """Effects by (from, at): a mapping as it is, or rows with layer and head, such as those of transom.effect."""
    if effect is None:
        return {}
    if isinstance(effect, Mapping):
        return {(int(row), int(key)): float(value) for (row, key), value in effect.items()}
    effects = {}
    for entry in getattr(effect, "rows", effect):
        row = entry if isinstance(entry, Mapping) else vars(entry)
        same_head = row.get("head", selected.head) == selected.head
        if same_head and row.get("layer", selected.layer) == selected.layer:
            effects[int(row["query"]), int(row["key"])] = effect_of_row(row)
    return effects


def effect_of_row(row: Mapping[str, Any]) -> float:
    """The effect of an edge: its own number, else KL in nats, else the change of the output."""
    value = next((row[name] for name in ("effect", "kl", "change") if row.get(name) is not None), None)
    if value is None:
        raise Misfit("a row of effects needs effect, kl or change, but it has none; take the rows of transom.effect")
    return float(value)


def count_skipped(shown: list[int]) -> tuple[int, ...]:
    """How many tokens are left out before each that is shown."""
    return tuple(token - previous - 1 for previous, token in zip([-1, *shown], shown, strict=False))


def effect_notes(drawn: tuple[Arrow, ...]) -> list[str]:
    """What solid and faded mean, and how many arrows have no effect measured."""
    unknown = sum(arrow.effect is None for arrow in drawn)
    if unknown == len(drawn):
        return []
    notes = ["The more solid an arrow, the more knocking it out changes the model's output; a faded one hardly does."]
    return [*notes, f"{unknown} of these arrows were not knocked out; they are faded too."] if unknown else notes


def list_arrows(selected: SelectedHead, edges: list[WeightedEdge], effects: dict[Edge, float]) -> Table:
    columns = ("from", "row", "at", "key", "weight", *(["effect"] if effects else []))
    rows = []
    for row, key, weight in edges:
        effect = [effects.get((row, key))] if effects else []
        rows.append((selected.rows[row], row, selected.keys[key], key, weight, *effect))
    return Table(columns, tuple(rows))
