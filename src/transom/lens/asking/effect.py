"""Does this arrow matter? For each edge: what it read, what it moved, and what the model gives without it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from transom.lens.asked import inside
from transom.lens.asking.arrows import Arrow, Arrows
from transom.lens.asking.edge import Edge, as_edge
from transom.lens.asking.effect_table import Effect, EffectTable, Rule
from transom.lens.asking.knock_out import HOWS, How
from transom.lens.asking.outcome import Output, divergence, reading
from transom.lens.asking.projections import projections, pulls
from transom.lens.asking.trials import Call, Trials
from transom.lens.trace import Trace, nearest, some
from transom.lens.watch import covers, watch
from transom.names import Misfit

NO_W_O = "no output projection was found for {}: norm and local are those of the head, before W_O"
NO_VALUES = "the values of {} are not seen: norm, contribution and local are not known"
ONE_BY_ONE = "each edge ran alone, as copies of the input do not make a batch of this model"

Asked = Sequence[Edge | tuple[str | int | None, int | None, int | None, int | None]]
Place = tuple[str, int, int, int]


def effect(
    model: nn.Module,
    inputs: object,
    edges: Asked | None = None,
    output: Output = None,
    *,
    target: int | None = None,
    how: How = "before",
    query: int = -1,
    k: int = 8,
    rule: Rule | None = None,
    tokens: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    spell: Callable[[list[int]], Sequence[str]] | None = None,
    gradient: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> EffectTable:
    """What each edge is for: its weight, what it moved, and the real change of the model's output without it.

    inputs     what the model is called with, of one sequence: a dict by name, a tuple by place, or a tensor
    edges      (layer, head, query, key) each; by default the k strongest arrows of `query`, by weight and by norm
    output     what to measure of the model's result: logits (batch, vocabulary) or one number each (batch); by default
               the logits of the last position
    target     the token whose logit and probability are reported; by default the likeliest
    how        knocked out "before" the softmax (the other keys share the weight) or "after" it
    tokens     the words of the sequence, for the table; targets: those that the decoder of an encoder–decoder reads
    spell      gives the words of ids, for that of the target: a tokenizer's `pieces`, or `convert_ids_to_tokens`
    gradient   whether to run the model once with gradients, for `pull`; False saves the memory that takes
    progress   called with how many edges are done, and of how many
    """
    if how not in HOWS:
        raise Misfit(f'how must be "before" or "after" the softmax, but got {how!r}; before lets other keys take over')
    call, read = Call.of(model, inputs), reading(output)
    arrows, whole = looked(call, read)
    places = strongest(arrows, query, k) if edges is None else [placed(edge, arrows) for edge in edges]
    if not places:
        raise Misfit("effect got an empty list of edges; give at least one (layer, head, query, key), or leave it out")
    longest = max(max(one.sight.problem.whole[2:]) for one in arrows.values())
    trials = Trials(call, read, whole[None], how, longest, progress)
    target = chosen_target(target, whole)
    if gradient:
        pulled(call, read, arrows, target)
    near = [arrows[layer].one(head, row, key, how) for layer, head, row, key in places]
    rows = worded(measured(trials, places, near, target, rule or Rule()), arrows, tokens, targets)
    chance = None if target is None else float(torch.softmax(whole, dim=-1)[target])
    word = None if target is None or spell is None else spell([target])[0]
    return EffectTable(rows, how, target, value_of(whole, target), chance, notes(arrows, places, trials.single), word)


def looked(call: Call, read: Callable[[Any], Tensor]) -> tuple[dict[str, Arrows], Tensor]:
    """Every attention of one run, and what is read of its result."""
    with watch(call.model) as trace, projections(call.model, trace) as found:
        whole = read(call())
    check(trace, whole)
    return {name: Arrows(sight, found.get(name)) for name, sight in trace.items()}, whole[0]


def pulled(call: Call, read: Callable[[Any], Tensor], arrows: dict[str, Arrows], target: int | None) -> None:
    """Tell each attention which way its heads pull: the gradient of the target by what goes into W_O."""

    def number() -> Tensor:
        found = read(call.with_gradients())[0]
        return found if target is None else found[target]

    found = pulls(number, {name: one.projection for name, one in arrows.items() if one.projection is not None})
    for name, gradient in found.items():
        arrows[name].gradient = gradient


def check(trace: Trace, whole: Tensor) -> None:
    """Complain unless it was one sequence, each attention of it once."""
    for name, sight in trace.items():
        if sight.problem.whole[0] != 1 or whole.shape[0] != 1:
            raise Misfit(
                f"effect asks about one sequence, but {name!r} has batch={sight.problem.whole[0]} and the output"
                f" batch={whole.shape[0]}; give one, as in {{name: x[:1] for name, x in inputs.items()}}"
            )
    again = [name for name in trace.names if len(trace.all(name)) > 1]
    if again:
        raise Misfit(
            f"{some(again)} ran more than once, so an edge there is not one arrow; use knock_out, which takes it out of"
            " every run"
        )


def placed(edge: object, arrows: dict[str, Arrows]) -> Place:
    """One edge as the name of its attention and three numbers that it has."""
    asked = as_edge(edge)
    names = list(arrows)
    numbers = (asked.head, asked.query, asked.key)
    if not isinstance(asked.layer, str | int) or not all(isinstance(one, int) for one in numbers):
        raise Misfit(
            f"effect tells of single edges (layer, head, query, key), but got {edge!r:.60}; use knock_out for several"
        )
    found = [asked.layer] if asked.layer in arrows else [name for name in names if covers(asked.layer, name)]
    if len(found) != 1:
        which = f"it could be {some(found)}" if found else f"none ran there; {nearest(str(asked.layer), names)}"
        raise Misfit(f"layer {asked.layer!r} should name one attention by its path, but {which}")
    sizes = arrows[str(found[0])].sight.problem.whole
    axes = zip(("heads", "queries", "keys"), numbers, sizes[1:], strict=True)
    head, query, key = (inside(int(one), axis, size) for axis, one, size in axes)  # pyright: ignore[reportArgumentType]
    return str(found[0]), head, query, key


def strongest(arrows: dict[str, Arrows], query: int, k: int) -> list[Place]:
    """Of all arrows of a row, in all heads, the k of the largest weight and the k of the largest norm."""
    if k < 1:
        raise Misfit(f"effect needs k of 1 or more, but got {k}; 8 lists the eight strongest arrows")
    found: list[list[tuple[float, Place]]] = [[], []]
    for name, one in arrows.items():
        row = inside(query, "queries", one.sight.problem.whole[2])
        for kind, numbers in zip(found, one.of_row(row), strict=True):
            if numbers is not None:
                values, at = numbers.flatten().topk(min(k, numbers.numel()))
                keys = numbers.shape[1]
                places = [(name, int(place) // keys, row, int(place) % keys) for place in at]
                kind += [one for one in zip(values.tolist(), places, strict=True) if one[0] > 0.0]
    best = [place for kind in found for _, place in sorted(kind, reverse=True)[:k]]
    return list(dict.fromkeys(best))


def chosen_target(target: int | None, whole: Tensor) -> int | None:
    if whole.dim() == 0:
        if target is not None:
            raise Misfit(f"target={target} names a token, but the output is one number; leave target out")
        return None
    return int(whole.argmax()) if target is None else inside(target, "vocabulary", whole.shape[0])


def value_of(found: Tensor, target: int | None) -> float:
    return float(found if target is None else found[target])


def measured(trials: Trials, places: list[Place], near: list[Arrow], target: int | None, rule: Rule) -> list[Effect]:
    """The rows of the table: an arrow without weight changes nothing, every other is knocked out."""
    edges = [Edge(*place) for place, one in zip(places, near, strict=True) if one.weight > 0.0]
    ran = trials.run(edges) if edges else iter(())
    rows = []
    for place, one in zip(places, near, strict=True):
        pair = next(ran) if one.weight > 0.0 else (trials.whole, trials.whole)
        change, probability, kl = compared(*pair, target)
        flag = rule.flag(one.weight, share(change, pair[0]) if kl is None else kl)
        numbers = (one.weight, one.norm, one.contribution, one.pull, one.local_change)
        rows.append(Effect(*place, *numbers, change, probability, kl, flag))
    return rows


def worded(
    rows: list[Effect], arrows: dict[str, Arrows], tokens: Sequence[str] | None, targets: Sequence[str] | None
) -> list[Effect]:
    """The same with the words of query and key, where there are any."""
    if tokens is None and targets is None:
        return rows
    words = Trace(tokens, targets)
    for name in dict.fromkeys(row.layer for row in rows):
        words.add(name, arrows[name].sight)
    beside = {name: words.labels(name) for name in words.names}
    return [replace(row, looking=beside[row.layer].reads[row.query], at=beside[row.layer].at[row.key]) for row in rows]


def compared(whole: Tensor, without: Tensor, target: int | None) -> tuple[float, float | None, float | None]:
    """Change of the logit or of the number, of the probability, and the divergence."""
    change = value_of(without, target) - value_of(whole, target)
    if target is None:
        return change, None, None
    chances = [float(torch.softmax(found, dim=-1)[target]) for found in (whole, without)]
    return change, chances[1] - chances[0], float(divergence(whole, without))


def share(change: float, whole: Tensor) -> float:
    """A change as a share of the number that changed."""
    return abs(change) / max(abs(float(whole)), torch.finfo(torch.float64).tiny)


def notes(arrows: dict[str, Arrows], places: list[Place], single: bool) -> list[str]:
    """What the numbers are not."""
    used = {name: arrows[name] for name in dict.fromkeys(place[0] for place in places)}
    blind = [name for name, one in used.items() if one.blind]
    bare = [name for name, one in used.items() if not one.blind and one.project is None]
    found = [NO_VALUES.format(some(blind))] if blind else []
    found += [NO_W_O.format(some(bare))] if bare else []
    return [*found, ONE_BY_ONE] if single else found
