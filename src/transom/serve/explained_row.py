"""The number that the page explains: the log-probability of the token after one row, followed back to every edge by one
backward pass. It is kept until another row is asked for."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from transom.names import Misfit

if TYPE_CHECKING:
    from torch import Tensor

    from transom.lens.attribution.attention_influence import AttentionInfluence
    from transom.lens.attribution.influence import Influence
    from transom.lens.attribution.influence_pyramid import InfluencePyramid
    from transom.lens.attribution.influence_table import EdgeInfluence
    from transom.serve.session import SessionRun

MOST_PYRAMIDS = 4
KEPT: "WeakKeyDictionary[SessionRun, ExplainedRow]" = WeakKeyDictionary()  # of each run, the row explained last


class ExplainedRow:
    """The influence on the token after one row of a run, its maps, and the knock-outs that were made beside it.

    token     what comes after the row: the token that was written, else the likeliest
    seconds   how long one forward and one backward pass took; a knock-out takes about a third of it
    """

    def __init__(self, row: int, token: str, found: "Influence", seconds: float) -> None:
        self.row, self.token, self.found, self.seconds = row, token, found, seconds
        self.pyramids: OrderedDict[tuple[str, int], InfluencePyramid] = OrderedDict()
        self.measured: list[EdgeInfluence] = []  # edges drawn at random, with their true changes

    def attention(self, name: str) -> "AttentionInfluence":
        return self.found[name]

    def pyramid(self, name: str, head: int) -> "InfluencePyramid":
        """The map of one head by influence; the last few are kept."""
        from transom.lens.attribution.influence_pyramid import InfluencePyramid

        if (name, head) not in self.pyramids:
            self.pyramids[name, head] = InfluencePyramid(self.attention(name), head)
        self.pyramids.move_to_end((name, head))
        while len(self.pyramids) > MOST_PYRAMIDS:
            self.pyramids.popitem(last=False)
        return self.pyramids[name, head]

    def measure(self, samples: int, check: Callable[[], None]) -> dict[str, Any]:
        """How far estimates agree with true knock-outs of so many random edges; those made before are kept."""
        from transom.lens.attribution.agreement import Agreement, draw_edges

        edges = draw_edges(self.found.attentions, samples, seed=0)
        new = edges[len(self.measured) :]
        self.measured += self.found.edge_rows(new, len(new), lambda done, total: check())
        near_one = sum(attention.near_one for attention in self.found)
        agreement = Agreement(self.measured[: len(edges)], near_one)
        return {**self.to_dict(), **agreement.to_dict()}

    def to_dict(self) -> dict[str, Any]:
        """What is explained."""
        return {
            "row": self.row,
            "token": self.token,
            "log_probability": self.found.value,
            "seconds": round(self.seconds, 3),
        }


def explain_row(run: "SessionRun", row: int) -> ExplainedRow:
    """The influence on the token after a row; computed once, and kept until another row is explained."""
    known = KEPT.get(run)
    if known is None or known.row != row:
        KEPT.pop(run, None)  # gradients of two rows are never held at a time
        known = KEPT[run] = compute_row(run, row)
    return known


def can_explain(run: "SessionRun") -> bool:
    """Whether rows predict tokens, so that something may be said of a prediction."""
    return run.text_run is not None and run.text_run.model.kind != "encoder"


def explained_token(run: "SessionRun", row: int) -> int | None:
    """The token that came after a row; None after the last row of a text that was only read."""
    assert run.text_run is not None
    encoded = run.text_run.encoded
    rows = len(encoded.targets or encoded.tokens)
    if row >= rows:
        raise Misfit(f"there are rows={rows}, so {row} is none of them; count from 0 to {rows - 1}")
    written = [*(encoded.target_ids or encoded.ids)[1:], *run.text_run.new_ids[-1:]]
    return written[row] if row < len(written) else None


class NextLogProbability:
    """From the model's result, the log-probability of the token that came after a row; where none came, of the one that
    is likeliest in the first result."""

    def __init__(self, run: "SessionRun", row: int) -> None:
        self.row, self.token = row, explained_token(run, row)

    def __call__(self, result: object) -> "Tensor":
        from transom.lens.ablation.ablated_runs import logits_of

        logits = logits_of(result)[:, self.row].double().log_softmax(dim=-1)
        if self.token is None:
            self.token = int(logits[0].argmax())
        return logits[:, self.token]


def compute_row(run: "SessionRun", row: int) -> ExplainedRow:
    """One forward and one backward pass for the log-probability of the token after a row."""
    from transom.lens.attribution.attention_influence import AttentionInfluence
    from transom.lens.attribution.influence import influence

    if run.text_run is None or not can_explain(run):
        why = "this is a trace without its model" if run.text_run is None else "an encoder predicts no token"
        raise Misfit(f"what mattered is asked of a prediction, but {why}; leave out the token, or ask for weights")
    model, read = run.text_run.model, NextLogProbability(run, row)
    start = time.perf_counter()
    found = influence(model.model, run.text_run.encoded.inputs, read)
    if [sight.shape for sight in found.trace] == [sight.shape for sight in run.trace]:
        # The same run again: its copies of Q, K and V are let go.
        for name in found.names:
            known = found.attentions[name]
            found.attentions[name] = AttentionInfluence(run.trace[name].require_full(), known.gradient, known.how)
        found.trace = run.trace
    seconds = time.perf_counter() - start
    assert read.token is not None
    return ExplainedRow(row, model.token_strings([read.token])[0], found, seconds)
