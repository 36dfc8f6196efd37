"""What the picture of a whole model asks about a run: every head as a thumbnail, the mean weights of every attention,
the size of what each part adds, what mattered for one token, and one row with its arithmetic."""

from typing import TYPE_CHECKING, Any

import msgspec

from transom.serve.answer_cache import Answer
from transom.serve.explained_row import can_explain, explain_row
from transom.serve.request_fields import InfluenceRequest, RowRequest, ThumbnailsRequest, WindowRequest

if TYPE_CHECKING:
    from torch import Tensor

    from transom.lens import Sight
    from transom.serve.session import SessionRun
    from transom.serve.worker import Job

CARRIED = "carried"  # how heads are ranked where no prediction can be followed back: Σ weight · ‖value‖
INFLUENCE = "influence"


def thumbnails(run: "SessionRun", fields: ThumbnailsRequest, job: "Job") -> Answer:
    """The map of every head in at most cells × cells bytes, row by row; the header `Thumbnails` has the shapes.

    A byte b stands for the largest weight of its cell, (b / 255)².
    """
    last = min(len(run.trace.entries), fields.first + fields.count)
    parts, shapes = [], []
    for index in range(fields.first, last):
        _, sight = run.attention(index)
        for head in range(sight.problem.shape[1]):
            job.raise_if_cancelled()
            values = sight.map(head, cells=fields.cells, pool="max").values
            parts.append((values.float().clamp(0.0, 1.0).sqrt() * 255.0).round().byte().contiguous().numpy().tobytes())
        shapes.append([sight.problem.shape[1], *map_shape(sight, fields.cells)])
    header = {"first": fields.first, "attentions": shapes}
    return Answer(b"".join(parts), headers={"Thumbnails": msgspec.json.encode(header).decode()})


def map_shape(sight: "Sight", cells: int) -> list[int]:
    """Rows and columns of a map with at most so many cells a side."""
    sides = [-(-size // cells) for size in sight.problem.shape[2:]]
    return [-(-size // side) for size, side in zip(sight.problem.shape[2:], sides, strict=True)]


def window_of(run: "SessionRun", index: int, fields: WindowRequest) -> tuple[slice, slice]:
    """The rows and keys of an attention that a window shows: of the text, or of source and target."""
    from transom.serve.session import attention_info

    role = attention_info(run, index)["role"]
    source = slice(fields.first, fields.first + fields.count)
    target = slice(fields.first_target, fields.first_target + fields.count)
    rows = target if role in ("cross", "decoder") else source
    return rows, target if role == "decoder" else source


def mean_weights(run: "SessionRun", fields: WindowRequest, job: "Job") -> dict[str, Any]:
    """For every attention, the mean over its heads of the weights between the tokens of a window."""
    found = []
    for index in range(len(run.trace.entries)):
        job.raise_if_cancelled()
        _, sight = run.attention(index)
        rows, keys = window_of(run, index, fields)
        found.append(round_values(sight.weights(batch=0, rows=rows, keys=keys).float().mean(dim=0)))
    return {"first": fields.first, "first_target": fields.first_target, "attentions": found}


def residual_sizes(run: "SessionRun", job: "Job") -> dict[str, Any]:
    """Per block and token, the length of what comes in, of what each part adds, and of what goes out."""
    from transom.lens.capture.residual_sizes import measure_residual_sizes

    if run.text_run is None:
        return {"blocks": [], "missing": "a trace has no model, so what its parts add was not measured"}
    model, encoded = run.text_run.model, run.text_run.encoded
    found = measure_residual_sizes(model.model, lambda: model.run(encoded), run.trace.names)
    blocks = [
        {
            "block": path,
            "before": round_values(sizes.before),
            "parts": [{"kind": kind, "size": round_values(size)} for kind, size in sizes.parts],
            "after": round_values(sizes.after),
        }
        for path, sizes in found.items()
        if sizes is not None
    ]
    unproved = [path for path, sizes in found.items() if sizes is None]
    missing = f"what is added could not be proved in {', '.join(unproved[:4])}" if unproved else ""
    return {"blocks": blocks, "missing": missing}


def influence_for_row(run: "SessionRun", fields: InfluenceRequest, job: "Job") -> dict[str, Any]:
    """What each head was worth for the token after one row: the estimated change of its log-probability without it, by
    one backward pass; and the same of every edge of a window, summed over the heads.

    Where no prediction can be followed back, heads come with Σ weight · ‖value‖ instead, and there are no edges.
    """
    if not can_explain(run):
        return carried_values(run)
    found = explain_row(run, fields.row).found
    job.raise_if_cancelled()
    heads, edges = [], []
    for index, (name, sight) in enumerate(run.trace.entries):
        known = found[name] if name in found.names else None
        heads.append([None] * sight.shape[1] if known is None else round_values(known.per_head()[0]))
        window = window_of(run, index, fields)
        edges.append(
            None if known is None else round_values(known.edges(batch=0, rows=window[0], keys=window[1]).sum(dim=0))
        )
    return {"by": INFLUENCE, "row": fields.row, "heads": heads, "edges": edges}


def carried_values(run: "SessionRun") -> dict[str, Any]:
    """Heads by Σ weight · ‖value‖ per row, which needs no model."""
    from transom.lens.attribution.head_ranking import weighted_value_norms

    norms = weighted_value_norms(run.trace)
    heads = [[float(f"{norms[name, head]:.6g}") for head in range(sight.shape[1])] for name, sight in run.trace.entries]
    return {"by": CARRIED, "row": None, "heads": heads, "edges": None}


def row_arithmetic(run: "SessionRun", index: int, fields: RowRequest) -> dict[str, Any]:
    """One row of a head with all that makes it: its query, the keys and values it meets, scores, weights and their sum.

    Of many keys, those with the largest weights are listed in their order, and the others are summed.
    """
    import torch

    name, sight = run.attention(index)
    problem, labels = sight.problem, run.trace.labels(name)
    place = {"batch": 0, "head": fields.head, "rows": fields.query}
    weights, scores = sight.weights(**place).float(), sight.scores(**place).float()
    allowed = scores.isfinite()
    listed = torch.arange(len(weights))
    if len(weights) > fields.count:
        listed = weights.topk(fields.count).indices.sort().values
        listed = listed[allowed[listed]]
    kv_head = fields.head // problem.group
    Q, K, V = (
        x[0, head].detach().float() for x, head in ((sight.Q, fields.head), (sight.K, kv_head), (sight.V, kv_head))
    )
    rest = allowed.clone()
    rest[listed] = False
    keys = [
        {
            "key": key,
            "token": labels.at[key],
            "score": float(scores[key]) if allowed[key] else None,
            "weight": float(weights[key]),
            "K": round_values(K[key]),
            "V": round_values(V[key]),
        }
        for key in listed.tolist()
    ]
    return {
        "token": labels.reads[fields.query],
        "scale": float(problem.scale),
        "softcap": None if problem.softcap is None else float(problem.softcap),
        "Q": round_values(Q[fields.query]),
        "keys": keys,
        "others": {"count": int(rest.sum()), "weight": float(weights[rest].sum())},
        "masked": int((~allowed).sum()),
        "output": round_values(sight.output[0, fields.head, fields.query].float()),
    }


def round_values(numbers: "Tensor") -> list[Any]:
    """Six digits of each number."""

    def cut(value: Any) -> Any:
        return [cut(one) for one in value] if isinstance(value, list) else float(f"{value:.6g}")

    return cut(numbers.detach().cpu().tolist())
