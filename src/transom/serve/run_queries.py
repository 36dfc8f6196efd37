"""What the page asks about a run: edges, effects, rankings of heads, and the comparison of two runs."""

import json
import tempfile
from collections.abc import Callable
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.names import Misfit, check_index
from transom.serve.influence_queries import ranker_of
from transom.serve.influence_queries import strongest_edges as most_influential_edges
from transom.serve.request_fields import EffectsRequest, KnockOutRequest, TopEdgesRequest

if TYPE_CHECKING:
    from torch import Tensor

    from transom.lens import Labels, Sight
    from transom.runner import EncodedText
    from transom.runner.watched_run import TextRun
    from transom.serve.session import SessionRun
    from transom.serve.worker import Job

LIKELY = 5  # tokens that were most likely
MOVED = 8  # tokens whose probability changed most
ALMOST_ALL = 0.999  # a row with only one key gives it at least this weight
QUICKLY_RANKED = 2**27  # weights of a trace up to which its heads are measured and ranked without being asked


def require_model(run: "SessionRun") -> "TextRun":
    """The model of a run and its inputs; a trace from a file has none."""
    if run.text_run is None:
        raise Misfit("edges are knocked out of a running model, but this is a trace; start transom serve with --model")
    return run.text_run


def knock_out_run(run: "SessionRun", fields: KnockOutRequest) -> dict[str, Any]:
    """Run again without some edges: for each row, the predictions before and after, where they changed most."""
    import torch

    from transom.lens.ablation.ablated_runs import divergence
    from transom.lens.ablation.knock_out import knock_out

    text_run = require_model(run)
    model, encoded = text_run.model, text_run.encoded
    edges = [(edge.layer, edge.head, edge.query, edge.key) for edge in fields.edges]
    outputs = [model.run(encoded)]
    with knock_out(model.model, edges=edges, how=fields.how):
        outputs.append(model.run(encoded))
    if model.kind == "encoder":
        return {"change": float((outputs[1][0].float() - outputs[0][0].float()).norm()), "rows": []}
    logits = [output[0].float() for output in outputs]
    before, after = (each.softmax(dim=-1) for each in logits)
    divergences, rows = divergence(*logits), []
    for row, kl in enumerate(divergences.tolist()):
        moved = (after[row] - before[row]).abs().topk(min(MOVED, before.shape[1])).indices
        likely = before[row].topk(min(LIKELY, before.shape[1])).indices
        ids = torch.cat([likely, moved, after[row].topk(1).indices]).unique().tolist()
        tokens = [
            {"token": token, "before": float(before[row, number]), "after": float(after[row, number])}
            for token, number in zip(model.token_strings(ids), ids, strict=True)
        ]
        rows.append({"row": row, "kl": kl, "words": sorted(tokens, key=lambda token: -token["before"])})
    return {"change": float(divergences.sum()), "rows": rows}


def compare_runs(run: "SessionRun", other: "SessionRun") -> dict[str, Any]:
    """The outputs of two runs, and row by row what each read, wrote, and with what probability."""
    from transom.lens.ablation.ablated_runs import divergence

    runs = (run, other)
    outputs = [{"run": each.number, "text": each.info["text"], "output": each.info["output"]} for each in runs]
    text_runs = [each.text_run for each in runs if each.text_run is not None]
    models = [each.model for each in text_runs]
    if len(models) < 2 or models[0].kind == "encoder" or models[1] is not models[0]:
        return {"runs": outputs, "rows": []}
    logits = [each.model.run(each.encoded)[0].float() for each in text_runs]
    count = min(map(len, logits))
    divergences = divergence(logits[0][:count], logits[1][:count]).tolist()
    chances = [each.softmax(dim=-1) for each in logits]
    rows = zip_longest(*map(prediction_rows, text_runs, chances), divergences)
    return {"runs": outputs, "rows": [{"row": row, "sides": [a, b], "kl": kl} for row, (a, b, kl) in enumerate(rows)]}


def prediction_rows(text_run: "TextRun", chances: "Tensor") -> list[dict[str, Any]]:
    """For each row the token it read, the token that followed (or the most likely one), and its probability."""
    encoded = text_run.encoded
    following = [*(encoded.target_ids or encoded.ids)[1:]]
    following += chances[len(following) :].argmax(dim=-1).tolist()
    probabilities = chances[range(len(following)), following].tolist()
    tokens = zip(encoded.targets or encoded.tokens, text_run.model.token_strings(following), probabilities, strict=True)
    return [{"reads": reads, "writes": writes, "probability": probability} for reads, writes, probability in tokens]


def strongest_edges(run: "SessionRun", index: int, fields: TopEdgesRequest, job: "Job") -> dict[str, Any]:
    """The strongest edges of a head, strongest first: by weight, or by influence."""
    if fields.by == "influence":
        return most_influential_edges(run, index, fields, job)
    name, sight = run.attention(index)
    pyramid = run.pyramid(index, fields.head)
    pyramid.build_base(lambda share: job.raise_if_cancelled())
    top, labels = pyramid.top_edges(fields.count, fields.sink), run.trace.labels(name)
    job.raise_if_cancelled()
    edges = [
        {"query": row, "key": key, "weight": weight, "from": labels.reads[row], "at": labels.at[key]}
        for row, key, weight in zip(top.rows.tolist(), top.keys.tolist(), top.weights.tolist(), strict=True)
    ]
    for edge in edges:
        edge["only"] = is_only_key(sight, fields.head, edge)
    return {"edges": sorted(edges, key=lambda edge: edge["only"])}


def is_only_key(sight: "Sight", head: int, edge: dict[str, Any]) -> bool:
    """Whether a row may see no other key, like the first row of a causal attention; such edges are listed last."""
    if edge["weight"] < ALMOST_ALL:
        return False
    return int(sight.scores(batch=0, head=head, rows=edge["query"]).isfinite().sum()) == 1


def measure_heads(run: "SessionRun", job: "Job") -> dict[str, Any]:
    """Every head with its measures; the job reports its progress, a thousand times at most."""
    from transom.lens.metrics.head_measures import HEADS, display_name
    from transom.lens.metrics.heads import heads

    reported = [0.0]

    def progress(done: float, total: int) -> None:
        job.raise_if_cancelled()
        if (share := round(done / total, 3)) > reported[-1]:
            reported.append(share)
            job.report({"share": share})

    table = heads(run.trace, progress=progress)
    meanings = {name: {"spoken": display_name(name), "meaning": measure.meaning} for name, measure in HEADS.items()}
    return json.loads(table.json()) | {"measures": meanings}


def measure_head(run: "SessionRun", index: int, head: int, job: "Job") -> dict[str, Any]:
    """One head with its measures, and what it does in words; only its attention is measured."""
    from transom.lens import Trace
    from transom.lens.metrics.heads import heads

    name, sight = run.attention(index)
    labels, alone = run.trace.labels(name), Trace()
    check_index(head, "heads", sight.shape[1])
    alone.add(name, sight)
    table = heads(alone, tokens=labels.at, targets=labels.at, progress=lambda done, total: job.raise_if_cancelled())
    return table.to_dicts()[head]


def edge_effects(run: "SessionRun", index: int, fields: EffectsRequest, job: "Job") -> dict[str, Any]:
    """The strongest edges of one row with weight, norm, contribution, and the effect of knocking each out."""
    from transom.lens.ablation.effect import effect

    text_run = require_model(run)
    model, encoded = text_run.model, text_run.encoded
    name, sight = run.attention(index)
    labels = run.trace.labels(name)
    row = {"batch": 0, "head": fields.head, "rows": fields.query}
    weights = sight.weights(**row)
    if fields.key is None:
        keys = weights.topk(min(fields.count, len(weights))).indices.tolist()
    else:
        sight.weights(**row, keys=fields.key)  # raises an error if there is no such key
        keys = [fields.key]
    table = effect(
        model.model,
        encoded.inputs,
        [(name, fields.head, fields.query, key) for key in keys if weights[key] > 0],
        output=None if model.kind == "encoder" else output_for_row(labels, encoded, fields.query),
        progress=lambda done, total: job.raise_if_cancelled(),
    )
    effects = json.loads(table.json())
    for edge in effects["rows"]:
        edge["at"] = labels.at[edge["key"]]
    token = None if table.target is None else model.token_strings([table.target])[0]
    return effects | {"token": token, "from": labels.reads[fields.query]}


def output_for_row(labels: "Labels", encoded: "EncodedText", row: int) -> "Callable[[object], Tensor]":
    """What an effect is measured on: the logits of the edge's row if rows predict; for an edge in the encoder of a
    translator, the log-probability of the whole translation."""
    import torch

    from transom.lens.ablation.ablated_runs import logits_of

    if labels.predicts is not None:
        return lambda result: logits_of(result)[:, row]

    def log_probability(result: object) -> "Tensor":
        logits = logits_of(result).double().log_softmax(dim=-1)
        written = torch.tensor(encoded.target_ids[1:])
        rows = logits[:, : len(written)]
        return rows.gather(2, written.expand(len(rows), -1)[..., None]).sum(dim=(1, 2))

    return log_probability


def first_head(run: "SessionRun", job: "Job") -> dict[str, Any]:
    """The head to show first, chosen as in `transom see`; none for a long trace without its model."""
    ranker = ranker_of(run, preferred=True)
    if run.text_run is None and sum(prod(sight.problem.shape) for sight in ranker.trace) > QUICKLY_RANKED:
        return {"attention": None}
    ranked = ranker.rank(progress=lambda done, total: job.raise_if_cancelled()).first
    return {"attention": run.trace.names.index(ranked.layer), **ranked._asdict()}


def trace_bytes(run: "SessionRun") -> bytes:
    """The run as the bytes of a trace file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.safetensors"
        run.trace.save(path)
        return path.read_bytes()
