"""Every step of a lesson, computed in float64: embeddings, Q, K, V, each head, the heads joined, the block around."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from transom.lessons import made
from transom.lessons.arithmetic import Arithmetic
from transom.lessons.blocks import after_attention, before_attention
from transom.lessons.made import Labels, Said
from transom.lessons.one_head import Head, head_steps
from transom.lessons.setup import Layer, Setup
from transom.lessons.steps import Matrix, Step, Steps

TITLES = {"Q": "what each token asks for", "K": "what each token answers to", "V": "what each token gives"}


@dataclass(frozen=True)
class Bench:
    """A layer at work: what it starts from, and what it is told of rounding."""

    setup: Setup
    layer: Layer
    number: int
    x: Matrix
    source: Matrix

    def said(self, name: str, title: str, equation: str, head: int | None = None) -> Said:
        return Said(name, title, equation, head, self.number)

    def kept(self, step: Step) -> Step:
        """A step as the next one gets it."""
        rounding = self.setup.rounding
        return step if rounding is None else replace(step, values=rounding(step.values))


def computed(setup: Setup) -> Steps:
    """All steps of a setup, in order."""
    steps = started(setup)
    if "embedding" in setup.start:
        x, source = steps[-1].values, setup.start.get("at_embedding")
        for number, layer in enumerate(setup.layers):
            steps += layer_steps(Bench(setup, layer, number, x, x if source is None else source))
            x = steps[-1].values
    else:
        steps += given_steps(setup)
    return Steps(steps, setup.tokens, setup.looked_at)


def started(setup: Setup) -> list[Step]:
    """What comes from outside, positions added."""
    start, steps = setup.start, []
    if "at_embedding" in start:
        said = Said("at_embedding", "each token looked at, as a vector", "X of the other sequence")
        steps.append(made.given(said, start["at_embedding"], setup.looked_at))
    if "embedding" in start:
        steps.append(made.given(Said("embedding", "each token as a vector", "X"), start["embedding"], setup.tokens))
    if "positions" in start:
        steps.append(made.given(Said("positions", "each place as a vector", "P"), start["positions"], setup.tokens))
        parts = {"embedding": start["embedding"], "position": start["positions"]}
        said = Said("placed", "tokens with their places", "X + P")
        steps.append(made.added(said, parts, setup.tokens, steps[0].columns))
    return steps


def given_steps(setup: Setup) -> list[Step]:
    """One head whose Q, K, V or scores come from outside."""
    start, attention = setup.start, setup.layers[0].attention
    bench = Bench(setup, setup.layers[0], 0, np.zeros((0, 0)), np.zeros((0, 0)))
    steps = []
    for name in ("Q", "K", "V"):
        if name in start:
            rows = setup.tokens if name == "Q" else setup.looked_at
            steps.append(made.given(bench.said(name, TITLES[name], name, 0), start[name], rows))
    nothing = np.zeros((len(setup.looked_at), 0))
    blank = np.zeros((len(setup.tokens), attention.d_head))
    head = headed(bench, 0, start.get("Q", blank), start.get("K", blank), start.get("V", nothing))
    scores = None
    if "scores" in start:
        title = "scores, as given" + (", and taken as they are: scale is not set" if setup.note else "")
        said = bench.said("scores", title, "scores", 0)
        step = said.step(start["scores"], setup.tokens, setup.looked_at)
        scores = replace(step, how=lambda i, j: Arithmetic("given", "score", (), float(step.values[i, j])))
    elif attention.similarity != "dot":
        scores = other_scores(bench, head)
    found = head_steps(head, scores)
    return steps + [step for step in found if step.values.shape[1]]


def layer_steps(bench: Bench) -> list[Step]:
    """Attention and what stands around it."""
    before = before_attention(bench, bench.x)
    bench = replace(bench, x=before[-1].values) if before else bench
    if "at_embedding" not in bench.setup.start:
        bench = replace(bench, source=bench.x)
    steps = [*before, *attended(bench)]
    return steps + after_attention(bench, before[0].values if before else None, steps[-1])


def attended(bench: Bench) -> list[Step]:
    """Every head by itself, then all of them joined and mapped."""
    attention, parameters = bench.layer.attention, bench.layer.parameters
    steps: list[Step] = []
    if "V_down" in parameters:
        steps.append(waist(bench))
    sums = []
    for head in range(attention.heads):
        found = one_head(bench, head, steps[0].values if "V_down" in parameters else None)
        steps += found
        sums.append(found[-1].values)
    if attention.heads == 1 and "W_O" not in parameters:
        return steps
    said = bench.said("joined", "the heads side by side", made.JOINED)
    steps.append(made.side_by_side(said, sums, bench.setup.tokens))
    if "W_O" in parameters:
        W_O = parameters["W_O"]
        said = bench.said("output", "what the heads found, mixed into one vector", "output = joined W_O")
        width = made.counted(W_O.shape[1])
        step = made.product(
            said, steps[-1].values, W_O, bench.setup.tokens, width, steps[-1].columns, parameters.get("b_O")
        )
        steps.append(bench.kept(step))
    return steps


def waist(bench: Bench) -> Step:
    V_down = bench.layer.parameters["V_down"]
    said = bench.said("waist", "values through a narrow waist", "X V_down")
    return bench.kept(
        made.product(
            said,
            bench.source,
            V_down,
            bench.setup.looked_at,
            made.counted(V_down.shape[1]),
            made.counted(V_down.shape[0]),
        )
    )


def one_head(bench: Bench, head: int, waist: Matrix | None) -> list[Step]:
    """Q, K and V of a head, and all that follows from them."""
    setup = bench.setup
    Q = projected(bench, "Q", head, bench.x, setup.tokens)
    K = projected(bench, "K", head, bench.source, setup.looked_at)
    V = projected(bench, "V", head, bench.source if waist is None else waist, setup.looked_at)
    parts = headed(bench, head, Q.values, K.values, V.values)
    scores = None if bench.layer.attention.similarity == "dot" else other_scores(bench, parts)
    return [Q, K, V, *head_steps(parts, scores)]


def projected(bench: Bench, letter: str, head: int, x: Matrix, rows: Labels) -> Step:
    """Q, K or V of one head: x W, of the whole vector or of the head's own slice."""
    parameters = bench.layer.parameters
    W = parameters[f"W_{letter}"][head]
    bias = parameters[f"b_{letter}"][head] if f"b_{letter}" in parameters else None
    first = head * W.shape[0] if bench.layer.attention.narrow else 0
    inner = tuple(str(first + place + 1) for place in range(W.shape[0]))
    equation = f"{letter} = X W_{letter}" if letter != "V" or "V_down" not in parameters else "V = X V_down V_up"
    said = bench.said(letter, TITLES[letter], equation, head)
    width = made.counted(W.shape[1])
    return bench.kept(made.product(said, x[:, first : first + W.shape[0]], W, rows, width, inner, bias))


def headed(bench: Bench, head: int, Q: Matrix, K: Matrix, V: Matrix) -> Head:
    attention = bench.layer.attention
    divisor, spelled = divided_by(bench, Q.shape[1])
    setup, allowed = bench.setup, attention.allowed
    return Head(
        Q,
        K,
        V,
        setup.tokens,
        setup.looked_at,
        allowed,
        divisor,
        spelled,
        head,
        bench.number,
        bench.kept,
        attention.axis,
    )


def divided_by(bench: Bench, d_head: int) -> tuple[float | None, str]:
    """What scores are divided by, and how it is written."""
    attention = bench.layer.attention
    roots = {
        "√d_head": (math.sqrt(d_head), f"√{d_head}"),
        "d_head": (float(d_head), f"{d_head}"),
        "√d_model": (math.sqrt(max(1, bench.x.shape[1])), f"√{bench.x.shape[1]}"),
    }
    divisor, spelled = roots[attention.divisor] if attention.scale else (1.0, "")
    if attention.temperature != 1.0:
        divisor *= attention.temperature
        spelled = f"({spelled} · {attention.temperature:g})" if spelled else f"{attention.temperature:g}"
    return (divisor, spelled) if spelled else (None, "1")


def other_scores(bench: Bench, head: Head) -> Step:
    """Scores by another measure of likeness than the dot product."""
    how = SIMILARITIES[bench.layer.attention.similarity]
    return how(bench, head)


def cosine(bench: Bench, head: Head) -> Step:
    """q · k / (‖q‖ ‖k‖): the dot product of vectors made one long."""
    Q, K = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in (head.Q, head.K))
    said = head.said("scores", "how well directions match", "scores = q · k / (‖q‖ ‖k‖)")
    return made.product(said, Q, K.T, head.rows, head.columns, made.counted(Q.shape[1]))


def additive(bench: Bench, head: Head) -> Step:
    """w · tanh(q + k): a small network scores each pair (Bahdanau et al. 2015)."""
    w = bench.layer.parameters["w"]
    bent = np.tanh(head.Q[:, None, :] + head.K[None, :, :])
    values = bent @ w
    said = head.said("scores", "what a small network says of each pair", "scores = w · tanh(q + k)")
    step = said.step(values, head.rows, head.columns)
    return replace(step, how=partial(additive_cell, step, w, bent))


def additive_cell(step: Step, w: Matrix, bent: Matrix, i: int, j: int) -> Arithmetic:
    terms = tuple((str(c + 1), float(w[c]), float(bent[i, j, c])) for c in range(len(w)))
    return Arithmetic("dot", made.edge_name(step, i, j), terms, float(step.values[i, j]))


SIMILARITIES = {"cosine": cosine, "additive": additive}
