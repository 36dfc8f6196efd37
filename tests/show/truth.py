"""The numbers that each sample must print, worked out again with numpy in float64, from nothing but Q, K and V."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from show.samples import HEAD, HEADS, TOKENS, WIDTH, curves, stages, tensors

Said = list[str]


def said(value: float, digits: int) -> str:
    """As a person would round it, with a true minus."""
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


def parts(head: int = HEAD, grow: int = 1) -> dict[str, np.ndarray]:
    Q, K, V = (tensor[0, head].numpy() for tensor in tensors())
    Q = Q * grow
    scores = np.array([[sum(Q[i, k] * K[j, k] for k in range(WIDTH)) for j in range(TOKENS)] for i in range(TOKENS)])
    scaled = scores / np.sqrt(WIDTH)
    weights = np.zeros_like(scaled)
    for i in range(TOKENS):
        grown = [np.exp(scaled[i, j]) for j in range(i + 1)]
        weights[i, : i + 1] = np.array(grown) / sum(grown)
    return {"Q": Q, "K": K, "V": V, "scores": scores, "scaled": scaled, "weights": weights, "sum": weights @ V}


def seen(matrix: np.ndarray) -> list[float]:
    """What a causal mask leaves, row by row."""
    return [matrix[i, j] for i in range(TOKENS) for j in range(i + 1)]


def entropies(grow: int = 1) -> list[float]:
    found = []
    for head in range(HEADS):
        weights = parts(head, grow)["weights"]
        rows = [-sum(w * np.log(w) for w in row if w > 0) for row in weights]
        found.append(float(np.mean(rows)))
    return found


def steps() -> Said:
    every = parts()
    found = [value for name in ("Q", "K", "V", "scores", "scaled") for value in every[name].ravel()]
    found += seen(every["scaled"]) + list(every["weights"].ravel()) + list(every["sum"].ravel())
    return [said(value, 4) for value in found]


def sequence() -> Said:
    """The first four numbers of each vector, then score by score, and what comes out."""
    every = parts()
    found = [value for row in (2, 4) for value in every["Q"][row, :4]]
    found += [value for name in "KV" for row in every[name] for value in row[:4]]
    ends = []
    for row in (2, 4):
        for key in range(TOKENS):
            found += [every["scores"][row, key], *([every["scaled"][row, key]] if key <= row else [])]
        found += [every["weights"][row, key] for key in range(row + 1)]
        ends += list(every["sum"][row, :4])
    return [said(value, 2) for value in [*found, *ends]]


def fold() -> Said:
    """The first four numbers of Q of every head side by side, what each finds, and that side by side."""
    Q, sums = ([parts(head)[name][:, :4] for head in range(HEADS)] for name in ("Q", "sum"))
    found = [*np.concatenate(Q, axis=1).ravel(), *(value for head in sums for value in head.ravel())]
    return [said(value, 2) for value in [*found, *np.concatenate(sums, axis=1).ravel()]]


def architecture() -> Said:
    """Every number of the picture has no decimals; the counts have a test of their own."""
    return []


def arrows() -> Said:
    weights = parts()["weights"]
    drawn = [(i, weights[i, j]) for i in range(TOKENS) for j in range(TOKENS) if weights[i, j] >= 0.02]
    return [said(weight, 2) for _, weight in sorted(drawn, key=lambda one: (one[0], -one[1]))]


def matrix() -> Said:
    return [said(value, 2) for value in seen(parts()["weights"])]


def heads() -> Said:
    return [said(value, 2) for value in [*entropies(1), *entropies(2)]]


def rows() -> Said:
    return [said(value, 3) for value in parts()["weights"][3]]


def flat(points: np.ndarray) -> np.ndarray:
    """Onto the two directions of largest spread, by the eigenvectors of x x^T; the largest part points forwards."""
    sizes, directions = np.linalg.eigh(points.T @ points)
    best = directions[:, np.argsort(-sizes)[:2]].T
    best = np.array([one * np.sign(one[np.abs(one).argmax()]) for one in best])
    return points @ best.T


def shares(points: np.ndarray) -> list[float]:
    sizes = np.sort(np.linalg.eigvalsh(points.T @ points))[::-1]
    return [100 * size / sizes.sum() for size in sizes[:2]]


def vectors() -> Said:
    """The two that have a weight to speak of one by one, the two that have hardly any as one arrow."""
    every = parts()
    weights = every["weights"][3]
    alone = [key for key in np.argsort(-weights) if weights[key] >= 0.005]
    rest = [key for key in range(4) if key not in alone]
    assert len(alone) == len(rest) == 2
    steps = [weights[key] * every["V"][key] for key in alone] + [sum(weights[key] * every["V"][key] for key in rest)]
    corners = np.concatenate([np.zeros((1, WIDTH)), np.cumsum(steps, axis=0)])
    points = flat(corners)
    found = [said(share, 1) for share in shares(corners)]
    for number, weight in enumerate([*weights[alone], weights[rest].sum()]):
        found += [said(weight, 2), *(said(value, 2) for value in (*points[number], *points[number + 1]))]
    return [*found, *(said(value, 2) for value in (*points[0], *points[-1]))]


def context() -> Said:
    around = np.array([vector for _, vector in stages()])
    around = around - around.mean(axis=0)
    points = flat(around)
    found = [said(share, 1) for share in shares(around)] + [said(value, 2) for value in points[0]]
    for number in range(1, len(points)):
        found += [said(value, 2) for value in (*points[number - 1], *points[number])]
    return found


def histogram() -> Said:
    """Both edges of each bin; that the bins hold what they say is a test of its own."""
    scores = seen(parts()["scaled"])
    edges = np.linspace(min(scores), max(scores), 6)
    return [said(edge, 1) for pair in pairwise(edges) for edge in pair]


def entropy() -> Said:
    return [said(value, 3) for value in entropies()]


def curved() -> Said:
    found = []
    for points in curves().values():
        values = [y for _, y in points]
        found += [said(value, 3) for value in (values[0], min(values), values[-1])]
    return found


TRUTH: dict[str, Callable[[], Said]] = {
    "steps": steps,
    "sequence": sequence,
    "arrows": arrows,
    "matrix": matrix,
    "heads": heads,
    "rows": rows,
    "context": context,
    "histogram": histogram,
    "entropy": entropy,
    "curves": curved,
    "vectors": vectors,
    "fold": fold,
    "architecture": architecture,
}
