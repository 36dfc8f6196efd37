"""What a person asks of a run beyond looking: measures, pictures, knock-outs, the file to keep."""

import json
import tempfile
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.cache import Answer
from transom.serve.comparing import runnable
from transom.serve.fields import AskEffects, AskPicture, AskStrongest
from transom.serve.studio import ALL_TRIED

if TYPE_CHECKING:
    from transom.lens import Sight
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
ALMOST_ALL = 0.999  # of a row: less is not all that a row without a choice gives
QUICKLY_CARRIED = 2**27  # weights of a trace up to which its heads are compared by what they carry


def strongest(run: "Run", index: int, asked: AskStrongest, job: "Job") -> dict[str, Any]:
    """The strongest arrows of a head, strongest first."""
    name, sight = run.attention(index)
    pyramid = run.pyramid(index, asked.head)
    pyramid.lay(told=lambda share: job.wanted())
    found, labels = pyramid.strongest(asked.count, asked.sink), run.trace.labels(name)
    job.wanted()
    arrows = zip(found.rows.tolist(), found.keys.tolist(), found.weights.tolist(), strict=True)
    edges = [
        {"query": row, "key": key, "weight": weight, "from": labels.reads[row], "at": labels.at[key]}
        for row, key, weight in arrows
    ]
    return {"edges": sorted(edges, key=lambda edge: alone(sight, asked.head, edge))}


def alone(sight: "Sight", head: int, edge: dict[str, Any]) -> bool:
    """Whether a row looks at one key because it may see no other, as the first of a masked attention: it comes last."""
    if edge["weight"] < ALMOST_ALL:
        return False
    return int(sight.scores(batch=0, head=head, rows=edge["query"]).isfinite().sum()) == 1


def heads(run: "Run", job: "Job") -> dict[str, Any]:
    """Every head with its measures; the job tells how far it is, a thousand times at most."""
    from transom.lens.measuring.heads import heads as measured
    from transom.lens.measuring.measures import HEADS, spoken

    shares = [0.0]

    def progress(done: float, of: int) -> None:
        job.wanted()
        if (share := round(done / of, 3)) > shares[-1]:
            shares.append(share)
            job.tell({"share": share})

    found = measured(run.trace, progress=progress)
    meanings = {name: {"spoken": spoken(name), "meaning": measure.meaning} for name, measure in HEADS.items()}
    return json.loads(found.json()) | {"measures": meanings}


def picture(studio: "Studio", run: "Run", index: int, view: str, asked: AskPicture) -> Answer:
    """A view of one head in one format."""
    from transom.files.strict import chosen
    from transom.show.drawing import VIEWS, draw, options_of

    chosen("view", view, VIEWS)
    name, sight = run.attention(index)
    queries, keys = sight.problem.whole[2:]
    if queries * keys > ALL_TRIED:  # its receipt alone would take a minute
        raise Misfit(
            f"a picture is drawn of at most {ALL_TRIED} weights, but {name} has queries={queries} and keys={keys};"
            " look at it on the map"
        )
    labels = run.trace.labels(name)
    options: dict[str, Any] = {"layer": name, "head": asked.head, "model": studio.titled(run)}
    options |= {"tokens": labels.reads, "at": labels.at, "token": None if view in OF_ALL else asked.token}
    if view == "steps":
        options["origin"] = made_from(run, name, sight, asked.head)
    takes = options_of(VIEWS[view])
    told = {name: value for name, value in options.items() if name in takes and value is not None}
    drawn = draw(view, run.trace if view in OF_ALL else sight, **told)
    return Answer(lowered(drawn, asked.format), KINDS[asked.format], disposition(view, asked.format))


def made_from(run: "Run", name: str, sight: "Sight", head: int | None) -> Any:
    """What a head was made from, by running the model again; None of a trace, which has no model."""
    from transom.lens.asking.origin import origin

    if run.model is None:
        return None
    return origin(run.model.model, lambda: run.model.run(run.fed), name, sight, head or 0)


def lowered(drawn: Any, kind: str) -> bytes:
    """A Picture as the bytes of a file."""
    with tempfile.TemporaryDirectory() as folder:
        return drawn.save(Path(folder) / f"picture.{kind}").read_bytes()


def disposition(view: str, kind: str) -> dict[str, str]:
    """Every format but JSON is something to keep, never a page of ours."""
    return {} if kind == "json" else {"Content-Disposition": f'attachment; filename="{view}.{kind}"'}


def effects(run: "Run", index: int, asked: AskEffects, job: "Job") -> dict[str, Any]:
    """The strongest arrows of one row with weight, norm, contribution, and the real effect of taking each out."""
    from transom.lens.asking.effect import effect

    model, fed = runnable(run)
    name, sight = run.attention(index)
    labels = run.trace.labels(name)
    weights = sight.weights(batch=0, head=asked.head, rows=asked.query)
    if asked.key is not None:
        sight.weights(
            batch=0, head=asked.head, rows=asked.query, keys=asked.key
        )  # complains where there is no such key
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


def telling(run: "Run", job: "Job") -> dict[str, Any]:
    """The head to look at first, by the rule of `transom see`; of a long trace without its model there is none."""
    from transom.lens.asking.matter import most_telling, told_first

    first = told_first(run.trace)
    model, inputs = (run.model.model, run.fed.inputs) if run.model is not None else (None, None)
    if model is None and sum(prod(sight.problem.whole) for sight in first) > QUICKLY_CARRIED:
        return {"attention": None}
    found = most_telling(model, inputs, first, lambda done, of: job.wanted())
    return {"attention": run.trace.names.index(found.layer), **found._asdict()}


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


def on_file(run: "Run") -> bytes:
    """The run as the bytes of a trace file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.safetensors"
        run.trace.save(path)
        return path.read_bytes()
