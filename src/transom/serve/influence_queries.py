"""What the page asks about influence: heads and edges ranked at once by estimate, the first few knocked out."""

from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.request_fields import RankingRequest, TopEdgesRequest, WeightsRequest

if TYPE_CHECKING:
    from transom.lens.attribution.head_ranking import HeadRanker
    from transom.lens.attribution.output_estimates import OutputEstimates
    from transom.serve.session import SessionRun
    from transom.serve.worker import Job


def rank_heads(run: "SessionRun", fields: RankingRequest, job: "Job") -> dict[str, Any]:
    """All heads by how far the output moves without each: by estimate, the first `refine` by a knock-out."""
    ranking = ranker_of(run).rank(fields.refine, lambda done, total: job.raise_if_cancelled())
    names = run.trace.names
    rows = [{"attention": names.index(row["layer"]), **row} for row in ranking.to_dict()["rows"]]
    return {"unit": ranking.unit or None, "why": ranking.why, "rows": rows}


def ranker_of(run: "SessionRun", preferred: bool = False) -> "HeadRanker":
    """The ranker of all heads, or of those among which the first one is chosen; both share their estimates."""
    from transom.lens.attribution.head_ranking import HeadRanker, preferred_layers

    text_run = run.text_run
    model, inputs = (None, None) if text_run is None else (text_run.model.model, text_run.encoded.inputs)
    if run.ranker is None:
        run.ranker = HeadRanker(model, inputs, run.trace)
    if not preferred:
        return run.ranker
    ranker = HeadRanker(model, inputs, preferred_layers(run.trace))
    if run.ranker.estimates is not None:
        ranker.estimates = run.ranker.estimates
    return ranker


def require_estimates(run: "SessionRun") -> "OutputEstimates":
    found = ranker_of(run).estimates
    if found is None:
        why = "this is a trace without its model" if run.text_run is None else "gradients do not lead to all of them"
        raise Misfit(f"influence is estimated for every attention of a run, but {why}; ask for weights")
    return found


def influence_block(run: "SessionRun", index: int, fields: WeightsRequest) -> dict[str, Any]:
    """A block of single edges: how far the output is estimated to move without each, beside its weight."""
    name, sight = run.attention(index)
    found, labels = require_estimates(run), run.trace.labels(name)
    rows = slice(fields.first_row, fields.first_row + fields.rows)
    keys = slice(fields.first_key, fields.first_key + fields.keys)
    return {
        "rows": labels.reads[rows],
        "keys": labels.at[keys],
        "first": [fields.first_row, fields.first_key],
        "unit": found.unit,
        "estimates": found.edges(name, fields.head, rows, keys).tolist(),
        "weights": sight.weights(batch=0, head=fields.head, rows=rows, keys=keys).float().tolist(),
    }


def strongest_edges(run: "SessionRun", index: int, fields: TopEdgesRequest) -> dict[str, Any]:
    """The edges of a head without which the output is estimated to move most, the first first."""
    name, _ = run.attention(index)
    found, labels = require_estimates(run), run.trace.labels(name)
    edges = found.strongest(name, fields.head, fields.count if fields.sink else 2 * fields.count + len(labels.reads))
    rows = [
        {**vars(edge), "from": labels.reads[edge.query], "at": labels.at[edge.key]}
        for edge in edges
        if fields.sink or edge.key != 0
    ]
    return {"edges": rows[: fields.count], "unit": found.unit}
