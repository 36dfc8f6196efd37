"""What comes out of a model, compared: with and without some arrows, or of one text and another."""

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.fields import AskKnockOut

if TYPE_CHECKING:
    from torch import Tensor

    from transom.serve.studio import Run

MOVED = 8  # words whose probability changed most


def runnable(run: "Run") -> tuple[Any, Any]:
    if run.model is None:
        raise Misfit("arrows are knocked out of a model that runs, but a trace is open; start with --model for that")
    return run.model, run.fed


def knocked_out(run: "Run", asked: AskKnockOut) -> dict[str, Any]:
    """The run again without some edges: what was likely next before and after, row by row, where it changed."""
    import torch

    from transom.lens.asking.knock_out import knock_out

    model, fed = runnable(run)
    edges = [(edge.layer, edge.head, edge.query, edge.key) for edge in asked.edges]
    before = model.run(fed)
    with knock_out(model.model, edges=edges, how=asked.how):
        after = model.run(fed)
    if model.kind == "encoder":
        return {"change": float((after[0].float() - before[0].float()).norm()), "rows": []}
    shares = [one[0].float().softmax(dim=-1) for one in (before, after)]
    gap, rows = apart(*shares), []
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


def apart(first: "Tensor", second: "Tensor") -> "Tensor":
    """KL(first ‖ second) of each row, in nats."""
    return (first * (first.clamp_min(1e-30).log() - second.clamp_min(1e-30).log())).sum(dim=-1)


def beside(run: "Run", other: "Run") -> dict[str, Any]:
    """What came out of two runs, row by row: what each read, wrote, and how sure of it the model was."""
    pair = (run, other)
    told = {"runs": [{"run": one.number, "text": one.said["text"], "output": one.said["output"]} for one in pair]}
    if run.model is None or run.model.kind == "encoder" or other.model is not run.model:
        return told | {"rows": []}
    shares = [run.model.run(one.fed)[0].float().softmax(dim=-1) for one in pair]
    both = min(map(len, shares))
    gap = apart(shares[0][:both], shares[1][:both]).tolist()
    sides = [side(one, share) for one, share in zip(pair, shares, strict=True)]
    rows = zip_longest(*sides, gap)
    return told | {"rows": [{"row": row, "sides": [a, b], "kl": kl} for row, (a, b, kl) in enumerate(rows)]}


def side(run: "Run", shares: "Tensor") -> list[dict[str, Any]]:
    """Of one run: what each row read, the token that followed (or else the likeliest), and its probability."""
    fed = run.fed
    following = [*(fed.target_ids or fed.ids)[1:]]
    following += shares[len(following) :].argmax(dim=-1).tolist()
    chances = shares[range(len(following)), following].tolist()
    words = zip(fed.targets or fed.tokens, run.model.strings(following), chances, strict=True)
    return [{"reads": reads, "writes": writes, "probability": chance} for reads, writes, chance in words]
