"""The steps of one head, from Q, K and V to the weighted sum, and of all heads joined."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transom.lessons.arithmetic import Term
from transom.lessons.step_builders import (
    StepChange,
    StepInfo,
    concat_step,
    function_step,
    mask_step,
    product_step,
    quotient_step,
    softmax_step,
    sum_step,
    weighted_sum_step,
)
from transom.lessons.steps import Labels, Matrix, Step

EMBEDDING = StepInfo("embedding", "each token as a vector", "X")
AT_EMBEDDING = StepInfo("at_embedding", "each token looked at, as a vector", "X of the other sequence")
VALUE_EMBEDDING = StepInfo("value_embedding", "what values are made from", "X of a third sequence")
TITLES = {"Q": "what each token asks for", "K": "what each token answers to", "V": "what each token gives"}


class Divisor(NamedTuple):
    """What scores are divided by, and how it is written: √4."""

    value: float
    text: str


@dataclass(frozen=True, eq=False)
class HeadInputs:
    """What one head works on.

    rows, columns   the labels of the queries and of the keys
    allowed         True where a row may look; None for everywhere
    divisor         None if scores are not divided
    similarity      a row of SIMILARITIES; w is the parameter of the additive one
    softcap, bias   None if scores are not bent into a range, or nothing is added to them
    change          what a mistake makes of each step before the next; None for exact steps
    axis            the axis of the softmax: the keys, unless a mistake is tried
    prefix          what the names of its steps begin with: "cross_" in the cross-attention of a decoder block
    """

    Q: Matrix
    K: Matrix
    V: Matrix
    rows: Labels
    columns: Labels
    allowed: NDArray[np.bool_] | None
    divisor: Divisor | None
    head: int = 0
    layer: int = 0
    similarity: str = "dot"
    w: Matrix | None = None
    softcap: float | None = None
    bias: Matrix | None = None
    change: StepChange | None = None
    axis: int | None = -1
    prefix: str = ""

    def step_info(self, name: str, title: str, equation: str) -> StepInfo:
        return StepInfo(self.prefix + name, title, equation, self.head, self.layer, self.change)


def dot_scores(head: HeadInputs) -> Step:
    info = head.step_info("scores", "how well each query matches each key", "scores = Q Kᵀ")
    return product_step(info, head.Q, head.K.T, head.rows, head.columns)


def cosine_scores(head: HeadInputs) -> Step:
    """q · k / (‖q‖ ‖k‖): the dot product of vectors of length 1."""
    Q, K = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in (head.Q, head.K))
    info = head.step_info("scores", "how well directions match", "scores = q · k / (‖q‖ ‖k‖)")
    return product_step(info, Q, K.T, head.rows, head.columns)


def additive_scores(head: HeadInputs) -> Step:
    """w · tanh(q + k): a small network scores each pair (Bahdanau et al. 2015)."""
    assert head.w is not None
    w, hidden = head.w, np.tanh(head.Q[:, None, :] + head.K[None, :, :])

    def terms(i: int, j: int) -> tuple[Term, ...]:
        return tuple((str(k + 1), float(w[k]), float(hidden[i, j, k])) for k in range(len(w)))

    info = head.step_info("scores", "what a small network says of each pair", "scores = w · tanh(q + k)")
    return info.build(hidden @ w, head.rows, head.columns, "dot", terms)


SIMILARITIES = {"dot": dot_scores, "cosine": cosine_scores, "additive": additive_scores}


def head_steps(head: HeadInputs, scores: Step | None = None) -> list[Step]:
    """From the scores to the weighted sum; scores that are not given come from Q and K."""
    steps = [SIMILARITIES[head.similarity](head) if scores is None else scores]
    if head.divisor is not None:
        divisor, text = head.divisor
        info = head.step_info("scaled", f"scores divided by {text}", f"scaled = scores / {text}")
        steps.append(quotient_step(info, steps[-1], divisor, text))
    if head.softcap is not None:
        cap = head.softcap
        info = head.step_info("capped", "scores bent into a range", f"{cap:g} · tanh(scores / {cap:g})")
        capped = cap * np.tanh(steps[-1].values / cap)
        steps.append(function_step(info, steps[-1], capped, f"{cap:g} · tanh(… / {cap:g}) of "))
    if head.bias is not None:
        info = head.step_info("biased", "scores and what positions add to them", "scores + bias")
        parts = {"score": steps[-1].values, "bias": head.bias}
        steps.append(sum_step(info, parts, head.rows, head.columns))
    if head.allowed is not None:
        info = head.step_info(
            "masked", "scores, without those where a row may not look", "masked = scores, −∞ where masked"
        )
        steps.append(mask_step(info, steps[-1], head.allowed))
    equation = f"weights = softmax({steps[-1].name}), over each row"
    info = head.step_info("weights", "each row of scores as shares of 1", equation)
    weights = softmax_step(info, steps[-1], head.axis)
    info = head.step_info("sum", "the values, each times its weight, summed up", "sum = weights · V")
    return [*steps, weights, weighted_sum_step(info, weights, head.V)]


def joined_step(contexts: list[Matrix], rows: Labels, layer: int = 0, change: StepChange | None = None) -> Step:
    """The weighted sums of all heads, side by side."""
    info = StepInfo("joined", "the heads side by side", "joined = head 0, head 1 …", None, layer, change)
    return concat_step(info, contexts, rows)


def output_step(joined: Step, W_O: Matrix, b_O: Matrix | None, change: StepChange | None = None) -> Step:
    """joined W_O (+ b_O): what the heads found, mixed into one vector."""
    equation = f"output = joined W_O{'' if b_O is None else ' + b_O'}"
    info = StepInfo("output", "what the heads found, mixed into one vector", equation, None, joined.layer, change)
    return product_step(info, joined.values, W_O, joined.rows, inner=joined.columns, bias=b_O)
