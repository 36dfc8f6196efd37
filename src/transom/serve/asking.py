"""What a person asks of a run beyond looking: measures, pictures, knock-outs, the file to keep."""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.cache import Answer
from transom.serve.fields import AskEffects, AskKnockOut, AskPicture, AskStrongest

if TYPE_CHECKING:
    from transom.lens import Sight, Trace
    from transom.serve.studio import Run, Studio
    from transom.serve.work import Job

KINDS = {
    "json": "application/json",
    "svg": "image/svg+xml",
    "html": "text/html; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "png": "image/png",
    "pdf": "application/pdf",
    "mmd": "text/plain; charset=utf-8",
    "dot": "text/plain; charset=utf-8",
}
OF_ALL = ("heads", "entropy", "context")  # views of a whole run
MOVED = 8  # words whose probability changed most


def strongest(run: "Run", index: int, asked: AskStrongest, job: "Job") -> dict[str, Any]:
    """The strongest arrows of a head, strongest first; rows that look at one key alone tell nothing and come last."""
    name, sight = run.attention(index)
    top = sight.top(k=2)
    job.wanted()
    weights, keys = top.weights[0, asked.head], top.keys[0, asked.head]
    second = (keys[:, 0] == 0) & (keys.shape[1] > 1) if not asked.sink else keys[:, 0] < 0
    best = weights[:, 0].where(~second, weights[:, -1])
    places = keys[:, 0].where(~second, keys[:, -1])
    order = best.argsort(descending=True)[: asked.count].tolist()
    labels = run.trace.labels(name)
    return {
        "edges": [
            {
                "query": row,
                "key": int(places[row]),
                "weight": float(best[row]),
                "from": labels.reads[row],
                "at": labels.at[int(places[row])],
            }
            for row in order
            if int(places[row]) >= 0
        ]
    }


def heads(run: "Run", job: "Job") -> dict[str, Any]:
    """Every head with its measures."""
    from transom.lens.measuring.heads import heads as measured

    found = measured(run.trace)
    job.wanted()
    return json.loads(found.json())


def picture(studio: "Studio", run: "Run", index: int, view: str, asked: AskPicture) -> Answer:
    """A view of one head in one format."""
    from transom.files.strict import chosen
    from transom.show.drawing import VIEWS, draw, options_of

    chosen("view", view, VIEWS)
    name, sight = run.attention(index)
    labels = run.trace.labels(name)
    options: dict[str, Any] = {"layer": name, "head": asked.head, "model": studio.name}
    options |= {"tokens": labels.reads, "at": labels.at, "token": asked.token}
    if view == "steps":
        options["origin"] = made_from(studio, run, name, sight, asked.head)
    takes = options_of(VIEWS[view])
    told = {name: value for name, value in options.items() if name in takes and value is not None}
    drawn = draw(view, run.trace if view in OF_ALL else sight, **told)
    return Answer(lowered(drawn, asked.format), KINDS[asked.format], disposition(view, asked.format))


def made_from(studio: "Studio", run: "Run", name: str, sight: "Sight", head: int | None) -> Any:
    """What a head was made from, by running the model again; None of a trace, which has no model."""
    from transom.lens.asking.origin import origin

    if studio.model is None or run.fed is None:
        return None
    return origin(studio.model.model, lambda: studio.model.run(run.fed), name, sight, head or 0)


def lowered(drawn: Any, kind: str) -> bytes:
    """A Picture as the bytes of a file."""
    with tempfile.TemporaryDirectory() as folder:
        return drawn.save(Path(folder) / f"picture.{kind}").read_bytes()


def disposition(view: str, kind: str) -> dict[str, str]:
    """Every format but JSON is something to keep, never a page of ours."""
    return {} if kind == "json" else {"Content-Disposition": f'attachment; filename="{view}.{kind}"'}


def knocked_out(studio: "Studio", run: "Run", asked: AskKnockOut) -> dict[str, Any]:
    """The run again without some edges: what was likely next before and after, row by row, where it changed."""
    import torch

    from transom.lens.asking.knock_out import knock_out

    model, fed = runnable(studio, run)
    edges = [(edge.layer, edge.head, edge.query, edge.key) for edge in asked.edges]
    before = model.run(fed)
    with knock_out(model.model, edges=edges, how=asked.how):
        after = model.run(fed)
    shares = [one[0].float().softmax(dim=-1) if model.kind != "encoder" else one[0].float() for one in (before, after)]
    if model.kind == "encoder":
        return {"change": float((shares[1] - shares[0]).norm()), "rows": []}
    gap = (shares[0] * (shares[0].clamp_min(1e-30).log() - shares[1].clamp_min(1e-30).log())).sum(dim=-1)
    rows = []
    for row in range(len(gap)):
        moved = (shares[1][row] - shares[0][row]).abs().topk(min(MOVED, shares[0].shape[1])).indices
        moved = torch.cat([shares[0][row].topk(1).indices, moved]).unique().tolist()
        words = model.strings(moved)
        listed = [
            {"token": word, "before": float(shares[0][row, one]), "after": float(shares[1][row, one])}
            for word, one in zip(words, moved, strict=True)
        ]
        rows.append({"row": row, "kl": float(gap[row]), "words": sorted(listed, key=lambda one: -one["before"])})
    return {"change": float(gap.sum()), "rows": rows}


def effects(studio: "Studio", run: "Run", index: int, asked: AskEffects, job: "Job") -> dict[str, Any]:
    """The strongest arrows of one row with weight, norm, contribution, and the real effect of taking each out."""
    from transom.lens.asking.effect import effect

    model, fed = runnable(studio, run)
    name, sight = run.attention(index)
    labels = run.trace.labels(name)
    weights = sight.weights(batch=0, head=asked.head, rows=asked.query)
    keys = [asked.key] if asked.key is not None else weights.topk(min(asked.count, len(weights))).indices.tolist()
    edges = [(name, asked.head, asked.query, key) for key in keys if weights[key] > 0]
    found = effect(
        model.model,
        fed.inputs,
        edges,
        output=read_at(run, name, asked.query) if model.kind != "encoder" else None,
        progress=lambda done, of: job.wanted(),
    )
    told = json.loads(found.json())
    for row in told["rows"]:
        row["at"] = labels.at[row["key"]]
    token = None if found.target is None else model.strings([found.target])[0]
    return told | {"token": token, "from": labels.reads[asked.query]}


def telling(studio: "Studio", run: "Run", job: "Job") -> dict[str, Any]:
    """The head without which the model would say something else most; a translator.s looks at the source."""
    from transom.lens.asking.matter import most_telling

    model, fed = runnable(studio, run)
    layer, head = most_telling(model.model, fed.inputs, crossing(run.trace), lambda done, of: job.wanted())
    return {"attention": run.trace.names.index(layer), "layer": layer, "head": head}


def crossing(trace: "Trace") -> "Trace":
    """The attentions from target to source alone; all of them where there are none."""
    from transom.lens import Trace
    from transom.lens.labels import is_cross

    found = Trace(trace.tokens, trace.targets)
    found.seen = [(name, sight) for name, sight in trace.seen if is_cross(name)] or trace.seen
    return found


def read_at(run: "Run", name: str, row: int) -> Any:
    """What an effect is measured on: the logits of the row that an arrow belongs to, where rows write; for an arrow in
    the encoder of a translator, how likely the whole translation was."""
    import torch

    from transom.lens.asking.outcome import logits_of

    if run.trace.labels(name).predicts is not None:
        return lambda result: logits_of(result)[:, row]

    def likelihood(result: Any) -> Any:
        logits = logits_of(result).double().log_softmax(dim=-1)
        written = torch.tensor(run.fed.target_ids[1:])
        rows = logits[:, : len(written)]
        return rows.gather(2, written.expand(len(rows), -1)[..., None]).sum(dim=(1, 2))

    return likelihood


def runnable(studio: "Studio", run: "Run") -> tuple[Any, Any]:
    if studio.model is None or run.fed is None:
        raise Misfit("arrows are knocked out of a model that runs, but a trace is open; start with --model for that")
    return studio.model, run.fed


def on_file(run: "Run") -> bytes:
    """The run as the bytes of a trace file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.safetensors"
        run.trace.save(path)
        return path.read_bytes()
