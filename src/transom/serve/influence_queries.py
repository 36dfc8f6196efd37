"""What the page asks about influence: heads and edges ranked at once by estimate, the first few knocked out."""

from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.explained_row import explain_row
from transom.serve.request_fields import AgreementRequest, EdgesRequest, RankingRequest, TopEdgesRequest

LOG_PROBABILITY = "log_probability"  # of the token after a row, in nats; signed: negative where an edge helps it

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


def measure_agreement(run: "SessionRun", fields: AgreementRequest, job: "Job") -> dict[str, Any]:
    """How far the estimates for one token agree with true knock-outs of edges drawn at random."""
    return explain_row(run, fields.token).measure(fields.samples, job.raise_if_cancelled)


def influence_block(run: "SessionRun", index: int, fields: EdgesRequest) -> dict[str, Any]:
    """A block of single edges, beside their weights: how far the output is estimated to move without each; with a
    token, the signed change of its log-probability."""
    name, sight = run.attention(index)
    labels = run.trace.labels(name)
    rows = slice(fields.first_row, fields.first_row + fields.rows)
    keys = slice(fields.first_key, fields.first_key + fields.keys)
    if fields.token is None:
        found = require_estimates(run)
        estimates, unit, explained = found.edges(name, fields.head, rows, keys), found.unit, None
    else:
        row = explain_row(run, fields.token)
        estimates = row.attention(name).edges(batch=0, head=fields.head, rows=rows, keys=keys)
        unit, explained = LOG_PROBABILITY, row.to_dict()
    return {
        "rows": labels.reads[rows],
        "keys": labels.at[keys],
        "first": [fields.first_row, fields.first_key],
        "unit": unit,
        "explained": explained,
        "estimates": estimates.tolist(),
        "weights": sight.weights(batch=0, head=fields.head, rows=rows, keys=keys).float().tolist(),
    }


def strongest_edges(run: "SessionRun", index: int, fields: TopEdgesRequest, job: "Job") -> dict[str, Any]:
    """The edges of a head without which the output, or the prediction of one row, is estimated to change most."""
    if fields.token is not None:
        return strongest_for_token(run, index, fields, fields.token, job)
    name, _ = run.attention(index)
    found, labels = require_estimates(run), run.trace.labels(name)
    edges = found.strongest(name, fields.head, fields.count if fields.sink else 2 * fields.count + len(labels.reads))
    rows = [
        {**vars(edge), "from": labels.reads[edge.query], "at": labels.at[edge.key]}
        for edge in edges
        if fields.sink or edge.key != 0
    ]
    return {"edges": rows[: fields.count], "unit": found.unit, "explained": None}


def strongest_for_token(
    run: "SessionRun", index: int, fields: TopEdgesRequest, token: int, job: "Job"
) -> dict[str, Any]:
    """The edges of a head that help or hinder the token after a row most."""
    (name, sight), row = run.attention(index), explain_row(run, token)
    labels, pyramid = run.trace.labels(name), row.pyramid(name, fields.head)
    pyramid.build_base(lambda share: job.raise_if_cancelled())
    top = pyramid.top_edges(fields.count, fields.sink)
    edges = [
        {
            "query": query,
            "key": key,
            "weight": float(sight.weights(batch=0, head=fields.head, rows=query, keys=key)),
            "estimate": estimate,
            "from": labels.reads[query],
            "at": labels.at[key],
        }
        for query, key, estimate in zip(top.rows.tolist(), top.keys.tolist(), top.weights.tolist(), strict=True)
    ]
    return {"edges": edges, "unit": LOG_PROBABILITY, "explained": row.to_dict()}
