"""`sight` against float64: weights, scores, statistics, the strongest keys, maps and receipts of random attentions."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import transom
from fuzz.attention_cases import Case, make_case
from fuzz.attention_engines import ChosenEngine
from fuzz.attention_reference import Array, Row, compute_row
from transom.lens.attention.indexing import first_position
from transom.lens.attention.sight import Sight


@dataclass(frozen=True)
class Expected:
    """The whole attention: what is compared is NaN where float arithmetic need not come near."""

    rows: dict[tuple[int, ...], Row]
    weights: Array
    scores: Array
    share: Array  # by which rounding may move the weights of each row
    judged: Array  # (batch, heads, queries)
    sums: float  # the precision of sums


def prepare(folder: Path) -> ChosenEngine:
    return ChosenEngine()


def try_input(state: ChosenEngine, rng: random.Random) -> str:
    case = make_case(rng)
    state.choose(rng)
    torch.manual_seed(rng.getrandbits(40))
    dropout = rng.choice((0.0, 0.0, 0.0, 0.3, 0.9))  # the weights are those before it
    sight = transom.sight(case.Q, case.K, case.V, at_once=rng.random() < 0.5, dropout=dropout, **case.options)
    with np.errstate(all="ignore"):
        expected = compute_all(case)
        compare_all(case, sight, expected, rng)
    return "exact" if expected.judged.all() else "exact in part"


def compare_all(case: Case, sight: Sight, expected: Expected, rng: random.Random) -> None:
    if rng.random() < 0.5:  # each is right whether or not the others were asked for before
        compare_statistics(case, sight, expected)
        compare_weights(case, sight, expected, rng)
    else:
        compare_weights(case, sight, expected, rng)
        compare_statistics(case, sight, expected)
    compare_top(case, sight, expected, rng.choice((1, 3, 8, 40)))
    compare_map(case, sight, expected, rng)
    # What dropout scales up may be too large for half precision: such an output cannot be made again.
    if expected.judged.all() and bool(sight.output.isfinite().all()):
        receipt = sight.receipt(rng.choice((None, None, 3)))
        assert receipt.holds, f"an honest receipt {receipt}"


def compute_all(case: Case) -> Expected:
    rows = {place: compute_row(case.numbers, place, case.precision) for place in np.ndindex(*case.whole[:3])}
    weights, scores = np.zeros(case.whole), np.full(case.whole, -np.inf)
    share, judged = np.zeros((*case.whole[:3], 1)), np.ones(case.whole[:3], dtype=bool)
    for place, row in rows.items():
        weights[(*place, row.keys)], scores[(*place, row.keys)] = row.weights, row.scores
        # The log-sum-exp is rounded too, and every weight comes from it.
        size = np.abs(row.scores[row.scores > -np.inf]).max(initial=0.0)
        share[place] = row.relative + (16.0 + len(row.keys) / 8.0 + 4.0 * size) * case.precision.sums
        # PyTorch's kernel takes a rougher exponential for half precision.
        share[place] += 0.0 if case.precision.given == case.precision.sums else case.precision.given / 4.0
        judged[place] = row.judged
    return Expected(rows, weights, scores, share, judged, case.precision.sums)


def check_near(what: str, found: Any, expected: Array, near: Array, judged: Array | bool = True) -> None:
    """Compare where it is judged."""
    found = np.asarray(found.double() if hasattr(found, "double") else found)
    assert found.shape == expected.shape, f"{what}: {found.shape} should be {expected.shape}"
    with np.errstate(all="ignore"):
        off = np.abs(found - expected)
        wrong = ~((off <= near) | (found == expected)) & judged
    if wrong.any():
        worst = tuple(int(axis[0]) for axis in np.nonzero(wrong))
        limit = np.broadcast_to(near, expected.shape)[worst]
        raise AssertionError(f"{what} at {worst}: {found[worst]} should be {expected[worst]} within {limit}")


def choose_places(rng: random.Random, size: int) -> tuple[Any, Callable[[Array, int], Array]]:
    """What is asked of an axis, and how it is taken from an array."""
    draw = rng.randrange(5)
    if draw == 0 and size:
        one = rng.randrange(-size, size)
        return one, lambda x, axis: x.take([one], axis)
    if draw == 1 and size:
        some = [rng.randrange(-size, size) for _ in range(rng.randint(0, 4))]
        return some, lambda x, axis: x.take(np.array(some, dtype=int), axis)
    if draw <= 3:
        first, last = (rng.choice((None, rng.randint(-size - 2, size + 2))) for _ in range(2))
        run = slice(first, last, rng.choice((None, None, 1, 2, -1)))
        return run, lambda x, axis: x.take(np.arange(x.shape[axis])[run], axis)
    return None, lambda x, axis: x


def compare_weights(case: Case, sight: Sight, expected: Expected, rng: random.Random) -> None:
    asked, takers = zip(*(choose_places(rng, size) for size in case.whole), strict=True)

    def pick(x: Array) -> Array:
        x = np.broadcast_to(x, case.whole)
        for axis, take in enumerate(takers):
            x = take(x, axis)
        return x.reshape([size for size, one in zip(x.shape, asked, strict=True) if not isinstance(one, int)])

    options = dict(zip(("batch", "head", "rows", "keys"), asked, strict=True))
    judged, weights = pick(expected.judged[..., None]), pick(expected.weights)
    found = sight.weights(**options)
    check_near("weights", found, weights, pick(expected.share) * weights + expected.sums * 1e-3, judged)
    visible = pick(case.numbers.visible)
    assert (np.asarray(found.double())[~visible & judged] == 0.0).all(), "a masked weight is not exactly 0"
    scores = sight.scores(**options)
    assert np.isneginf(np.asarray(scores.double())[~visible]).all(), "a masked score is not −∞"
    errors = np.array([row.error for row in expected.rows.values()]).reshape(*case.whole[:3], 1)
    scale = np.abs(np.where(np.isinf(expected.scores), 0.0, expected.scores))
    check_near(
        "scores", scores, pick(expected.scores), pick(errors + 4.0 * expected.sums * scale) + 1e-30, judged & visible
    )


def compare_statistics(case: Case, sight: Sight, expected: Expected) -> None:
    weights, judged, share = expected.weights, expected.judged, expected.share[..., 0]
    with np.errstate(all="ignore"):
        logs = np.where(weights > 0.0, np.log(weights), 0.0)
        lse = np.logaddexp.reduce(expected.scores, axis=3) if case.whole[3] else np.full(case.whole[:3], -np.inf)
    check_near("lse", sight.lse, lse, share + 4.0 * expected.sums * np.abs(lse), judged)
    spread = (weights * (np.abs(logs) + 1.0)).sum(axis=3)
    check_near(
        "entropy", sight.entropy(), -(weights * logs).sum(axis=3), share * (spread + 1.0) + expected.sums, judged
    )
    peak = weights.max(axis=3, initial=0.0)
    check_near("peak", sight.peak(), peak, share * peak + expected.sums, judged)
    whole = np.asarray(judged.all(axis=2))[..., None]
    got = weights.sum(axis=2)
    near = (expected.share * weights).sum(axis=2) + case.whole[2] * (expected.sums * got + expected.sums * 1e-2)
    check_near("received", sight.received(), got, near, whole)
    start = first_position(sight.problem)
    if start is None:
        return
    away = np.abs(np.arange(case.whole[3])[None, :] - (np.arange(case.whole[2])[:, None] + start))
    distance = (weights * away).sum(axis=3)
    near = share * distance + expected.sums * away.max(initial=0)
    check_near("distance", sight.distance(), distance, near, judged)


def compare_top(case: Case, sight: Sight, expected: Expected, k: int) -> None:
    top = sight.top(k)
    k = min(k, case.whole[3])
    weights = -np.sort(-expected.weights, axis=3)[..., :k]
    near = expected.share * weights + expected.sums
    check_near("top weights", top.weights, weights, near, expected.judged[..., None])
    check_near("top mass", top.mass, weights.sum(axis=3), near.sum(axis=3), expected.judged)
    for place in np.ndindex(*case.whole[:3]):
        if not expected.judged[place]:
            continue
        keys = np.asarray(top.keys[place])
        listed = keys[keys >= 0]
        assert len(set(listed.tolist())) == len(listed), f"{place}: a key is listed twice: {keys}"
        assert set(listed.tolist()) <= set(expected.rows[place].keys.tolist()), (
            f"{place}: a masked key is listed: {keys}"
        )
        own, found = expected.weights[place][listed], np.asarray(top.weights[place].double())[keys >= 0]
        check_near("weight of a listed key", found, own, expected.share[place] * own + expected.sums)
        assert (np.asarray(top.weights[place])[keys < 0] == 0.0).all()


def compare_map(case: Case, sight: Sight, expected: Expected, rng: random.Random) -> None:
    if 0 in case.whole:
        return
    batch, head = rng.randrange(case.whole[0]), rng.randrange(case.whole[1])
    spans = []
    for size in case.whole[2:]:
        first = rng.randrange(size)
        spans.append((first, rng.randint(first + 1, size)) if rng.random() < 0.5 else (0, size))
    cells, pool = rng.choice((1, 2, 5, 64)), rng.choice(("max", "mean", "sum"))
    found = sight.map(head, cells, pool, slice(*spans[0]), slice(*spans[1]), batch)
    tall, wide = (-(-(last - first) // cells) for first, last in spans)
    assert (found.rows, found.keys, found.cell) == (*spans, (tall, wide))
    weights = expected.weights[batch, head, slice(*spans[0]), slice(*spans[1])]
    unsure = expected.share[batch, head, slice(*spans[0])] * weights + expected.sums * 1e-1
    judged = expected.judged[batch, head, slice(*spans[0])]
    pooled = {"max": np.max, "mean": np.mean, "sum": np.sum}[pool]
    for i in range(0, weights.shape[0], tall):
        for j in range(0, weights.shape[1], wide):
            if judged[i : i + tall].all():
                cell = (slice(i, i + tall), slice(j, j + wide))
                near = pooled(unsure[cell]) * 2.0 + weights[cell].size * expected.sums * pooled(weights[cell])
                value = found.values[i // tall, j // wide]
                check_near(f"map {pool}", value, np.asarray(pooled(weights[cell])), near)
