"""`effect`: what each attention edge contributes, and how the output changes without it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from transom.lens.ablation.ablated_runs import (
    AblatedRuns,
    ModelCall,
    ReadOutput,
    divergence,
    logits_of,
    relative_change,
)
from transom.lens.ablation.edge import Edge, as_edge
from transom.lens.ablation.edge_values import EdgeValues, LayerEdges
from transom.lens.ablation.effect_table import Effect, EffectRule, EffectTable
from transom.lens.ablation.knock_out import How, check_how
from transom.lens.capture.evidence import require_attention
from transom.lens.capture.output_projection import capture_output_projections, projection_gradients
from transom.lens.capture.watch import watch
from transom.lens.trace import Trace, layer_matches, list_some, suggest_names
from transom.lens.unseen_attention import unseen_note
from transom.names import Misfit, check_index, format_shape

NO_W_O = "no output projection was found for {}: norm and local are those of the head, before W_O"
NO_VALUES = "the values of {} are not seen: norm, contribution and local are not known"
ONE_BY_ONE = "each edge ran alone, as copies of the input do not make a batch of this model"

EdgeLike = Edge | tuple[str | int | None, int | None, int | None, int | None]
SingleEdge = tuple[str, int, int, int]  # name of the attention, head, query, key


def effect(
    model: nn.Module,
    inputs: object,
    edges: Sequence[EdgeLike] | None = None,
    output: Callable[[Any], Tensor] | None = None,
    *,
    target: int | None = None,
    how: How = "before",
    query: int = -1,
    k: int = 8,
    rule: EffectRule | None = None,
    tokens: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    spell: Callable[[list[int]], Sequence[str]] | None = None,
    gradient: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> EffectTable:
    """What each edge contributes: its weight, what it moved, and the measured change of the output without it.

    inputs     what the model is called with, for one sequence: a dict by name, a tuple by position, or a tensor
    edges      (layer, head, query, key) each; by default the k strongest edges of `query`, by weight and by norm
    output     what to measure of the model's result: logits (batch, vocabulary) or one number each (batch); by default
               the logits of the last position
    target     the token whose logit and probability are reported; by default the most likely one
    how        knocked out "before" the softmax (the other keys share the weight) or "after" it
    tokens     the tokens of the sequence as text, for the table; targets: those that a decoder beside an encoder reads
    spell      turns ids into text, for the target: a tokenizer's `pieces`, or `convert_ids_to_tokens`
    gradient   whether to run the model once with gradients, for `pull`; False saves the memory that takes
    progress   called with the number of edges that are done, and of all edges
    """
    check_how(how)
    call, read = ModelCall.from_inputs(model, inputs), partial(read_output, output)
    attentions, baseline = watch_edges(call, read)
    if edges is None:
        chosen = top_edges_of_row(attentions, query, k)
    else:
        chosen = [locate_edge(edge, attentions) for edge in edges]
    if not chosen:
        raise Misfit("effect got an empty list of edges; give at least one (layer, head, query, key), or leave it out")
    longest = max(max(layer.sight.problem.shape[2:]) for layer in attentions.values())
    runs = AblatedRuns(call, read, baseline[None], how, longest, progress)
    target = resolve_target(target, baseline)
    if gradient:
        set_gradients(call, read, attentions, target)
    values = [attentions[layer].edge_values(head, row, key, how) for layer, head, row, key in chosen]
    rows = add_labels(measure_edges(runs, chosen, values, target, rule or EffectRule()), attentions, tokens, targets)
    probability = None if target is None else float(torch.softmax(baseline, dim=-1)[target])
    word = None if target is None or spell is None else spell([target])[0]
    notes = table_notes(attentions, chosen, runs.one_by_one)
    return EffectTable(rows, how, target, value_of(baseline, target), probability, notes, word)


def read_output(output: Callable[[Any], Tensor] | None, result: Any) -> Tensor:
    """Of a model's result, logits (batch, vocabulary) or one number per sequence (batch), in float64."""
    value = last_logits(result) if output is None else output(result)
    if not isinstance(value, Tensor) or value.dim() not in (1, 2) or not value.is_floating_point():
        got = format_shape(value, "") if isinstance(value, Tensor) else type(value).__name__
        raise Misfit(
            "output must give logits (batch, vocabulary) or a number per sequence (batch), but it gave"
            f" {got}; pick one position, as in lambda result: result.logits[:, -1]"
        )
    return value.double()


def last_logits(result: Any) -> Tensor:
    """The logits of the last position, or of the whole sequence if it has one answer."""
    logits = logits_of(result)
    return logits if logits.dim() == 2 else logits[:, -1]


def watch_edges(call: ModelCall, read: ReadOutput) -> tuple[dict[str, LayerEdges], Tensor]:
    """Every attention of one run, and what is read of its result."""
    with (
        watch(call.model, unseen="allow") as trace,
        capture_output_projections(call.model, trace) as projections,
    ):
        output = read(call())
    require_attention(trace)
    check_one_sequence(trace, output, "effect")
    return {name: LayerEdges(sight.require_full(), projections.get(name)) for name, sight in trace.items()}, output[0]


def set_gradients(call: ModelCall, read: ReadOutput, attentions: dict[str, LayerEdges], target: int | None) -> None:
    """Give each attention the gradient of the target by what goes into its W_O."""

    def number() -> Tensor:
        value = read(call(gradients=True))[0]
        return value if target is None else value[target]

    projections = {name: layer.projection for name, layer in attentions.items() if layer.projection is not None}
    for name, gradient in projection_gradients(number, projections).items():
        attentions[name].gradient = gradient


def check_one_sequence(trace: Trace, output: Tensor, caller: str) -> None:
    """Raise an error unless one sequence ran, and each attention once."""
    for name, sight in trace.items():
        if sight.problem.shape[0] != 1 or output.shape[0] != 1:
            raise Misfit(
                f"{caller} asks about one sequence, but {name!r} has batch={sight.problem.shape[0]} and the output"
                f" batch={output.shape[0]}; give one, as in {{name: x[:1] for name, x in inputs.items()}}"
            )
    repeated = [name for name in trace.names if len(trace.all(name)) > 1]
    if repeated:
        raise Misfit(
            f"{list_some(repeated)} ran more than once, so an edge there is not one edge of the run; use knock_out,"
            " which takes it out of every run"
        )


def locate_edge(edge: object, attentions: dict[str, LayerEdges]) -> SingleEdge:
    """One edge as the name of its attention and three indices that it has."""
    wanted = as_edge(edge)
    layer, indices = wanted.layer, (wanted.head, wanted.query, wanted.key)
    if not isinstance(layer, str | int) or not all(isinstance(index, int) for index in indices):
        raise Misfit(
            f"effect measures single edges (layer, head, query, key), but got {edge!r:.60}; use knock_out for several"
        )
    names = list(attentions)
    matches = [layer] if layer in attentions else [name for name in names if layer_matches(layer, name)]
    if len(matches) != 1:
        near = f"it could be {list_some(matches)}" if matches else f"none ran there; {suggest_names(str(layer), names)}"
        raise Misfit(f"layer {layer!r} should name one attention by its path, but {near}")
    name = str(matches[0])
    axes = zip(("heads", "queries", "keys"), indices, attentions[name].sight.problem.shape[1:], strict=True)
    head, query, key = (check_index(int(index), axis, size) for axis, index, size in axes)  # pyright: ignore[reportArgumentType]
    return name, head, query, key


def top_edges_of_row(attentions: dict[str, LayerEdges], query: int, k: int) -> list[SingleEdge]:
    """Of all edges of a row, in all heads, the k of the largest weight and the k of the largest norm."""
    if k < 1:
        raise Misfit(f"effect needs k of 1 or more, but got {k}; 8 lists the eight strongest edges")
    by_weight: list[tuple[float, SingleEdge]] = []
    by_norm: list[tuple[float, SingleEdge]] = []
    for name, layer in attentions.items():
        row = check_index(query, "queries", layer.sight.problem.shape[2])
        for ranking, numbers in zip((by_weight, by_norm), layer.row_values(row), strict=True):
            if numbers is not None:
                values, at = numbers.flatten().topk(min(k, numbers.numel()))
                for value, index in zip(values.tolist(), at.tolist(), strict=True):
                    head, key = divmod(index, numbers.shape[1])
                    if value > 0.0:
                        ranking.append((value, (name, head, row, key)))
    best = [edge for ranking in (by_weight, by_norm) for _, edge in sorted(ranking, reverse=True)[:k]]
    return list(dict.fromkeys(best))


def resolve_target(target: int | None, output: Tensor) -> int | None:
    if output.dim() == 0:
        if target is not None:
            raise Misfit(f"target={target} names a token, but the output is one number; leave target out")
        return None
    return int(output.argmax()) if target is None else check_index(target, "vocabulary", output.shape[0])


def value_of(output: Tensor, target: int | None) -> float:
    return float(output if target is None else output[target])


def measure_edges(
    runs: AblatedRuns, edges: list[SingleEdge], values: list[EdgeValues], target: int | None, rule: EffectRule
) -> list[Effect]:
    """The rows of the table: an edge without weight changes nothing, every other is knocked out."""
    outputs = runs.run([Edge(*edge) for edge, value in zip(edges, values, strict=True) if value.weight > 0.0])
    rows = []
    for edge, value in zip(edges, values, strict=True):
        baseline, without = next(outputs) if value.weight > 0.0 else (runs.baseline[0], runs.baseline[0])
        change, probability, kl = compare_outputs(baseline, without, target)
        flag = rule.flag(value.weight, relative_change(baseline, without) if kl is None else kl)
        rows.append(Effect(*edge, *value, change, probability, kl, flag))
    return rows


def compare_outputs(baseline: Tensor, without: Tensor, target: int | None) -> tuple[float, float | None, float | None]:
    """Change of the logit or of the number, of the probability, and the divergence."""
    change = value_of(without, target) - value_of(baseline, target)
    if target is None:
        return change, None, None
    before, after = (float(torch.softmax(output, dim=-1)[target]) for output in (baseline, without))
    return change, after - before, float(divergence(baseline, without))


def add_labels(
    rows: list[Effect], attentions: dict[str, LayerEdges], tokens: Sequence[str] | None, targets: Sequence[str] | None
) -> list[Effect]:
    """The same rows with the tokens of query and key, if they are known."""
    if tokens is None and targets is None:
        return rows
    trace = Trace(tokens, targets)
    for name in dict.fromkeys(row.layer for row in rows):
        trace.add(name, attentions[name].sight)
    labels = {name: trace.labels(name) for name in trace.names}
    return [replace(row, looking=labels[row.layer].reads[row.query], at=labels[row.layer].at[row.key]) for row in rows]


def table_notes(attentions: dict[str, LayerEdges], edges: list[SingleEdge], one_by_one: bool) -> list[str]:
    """What the numbers of the table leave out."""
    layers = {name: attentions[name] for name in dict.fromkeys(edge[0] for edge in edges)}
    without_values = [name for name, layer in layers.items() if not layer.has_values]
    without_W_O = [name for name, layer in layers.items() if layer.has_values and layer.projection is None]
    notes = [NO_VALUES.format(list_some(without_values))] if without_values else []
    notes += [NO_W_O.format(list_some(without_W_O))] if without_W_O else []
    run = next(layer.sight.trace_labels for layer in attentions.values())
    note = "" if run is None else unseen_note(run[1].unseen)
    return [*notes, *([ONE_BY_ONE] if one_by_one else ()), *([note] if note else ())]
