"""Random masks for the fuzzers, each with where a row may look by it, worked out apart from Transom."""

import random
from typing import Any

import numpy as np
import torch

import transom
from fuzz.attention_reference import Array
from transom.equations.edges import EdgeBox, EdgeMask
from transom.equations.masks import Causal, TensorMask

Made = tuple[Any, Array]
Whole = tuple[int, ...]


def make_mask(rng: random.Random, whole: Whole) -> Made:
    """A bool tensor, or mask objects joined by & and |; where a row may look, in a shape that broadcasts."""
    if rng.random() < 0.25:
        allowed = make_bool_tensor(rng, whole)
        for _ in range(4):  # axes of size 1 in front may be left out
            if allowed.dim() and allowed.shape[0] == 1 and rng.random() < 0.5:
                allowed = allowed[0]
            else:
                break
        return allowed, np.asarray(allowed)
    return make_joined(rng, whole, 0)


def make_joined(rng: random.Random, whole: Whole, depth: int) -> Made:
    if depth < 3 and rng.random() < 0.4:
        (left, by_left), (right, by_right) = (make_joined(rng, whole, depth + 1) for _ in range(2))
        return (left & right, by_left & by_right) if rng.random() < 0.6 else (left | right, by_left | by_right)
    makers = [make_causal, make_window, make_padding, make_given, make_cut]
    if whole[2] <= whole[3]:
        makers.append(make_documents)
    return rng.choice(makers)(rng, whole)


def positions(whole: Whole, start: int | None = None) -> tuple[Array, Array]:
    first = whole[3] - whole[2] if start is None else start
    return np.arange(whole[2])[:, None] + first, np.arange(whole[3])[None, :]


def make_causal(rng: random.Random, whole: Whole) -> Made:
    start = None if rng.random() < 0.8 else rng.choice((0, 1, -3, 5, 2**40, -(2**40)))
    row, key = positions(whole, start)
    return (transom.causal() if start is None else Causal(start)), (key <= row)[None, None]


def make_window(rng: random.Random, whole: Whole) -> Made:
    width = rng.choice((1, 2, 3, 5, 17, 64, 2**31, 2**40))
    row, key = positions(whole)
    return transom.sliding_window(width), (np.abs(row - key) < width)[None, None]


def make_documents(rng: random.Random, whole: Whole) -> Made:
    batch = rng.choice((1, whole[0]))
    ids = np.array([[rng.randint(-1, 2) for _ in range(whole[3])] for _ in range(batch)], dtype=np.int64)
    ids = ids.reshape(batch, whole[3])
    if rng.random() < 0.6:
        ids.sort(axis=1)
    of_rows = ids[:, whole[3] - whole[2] :]
    given = torch.from_numpy(ids).to(rng.choice((torch.int64, torch.int32, torch.float32, torch.int8, torch.float16)))
    return transom.same_document(given[0] if batch == 1 else given), (of_rows[:, :, None] == ids[:, None, :])[:, None]


def make_padding(rng: random.Random, whole: Whole) -> Made:
    batch, share = rng.choice((1, whole[0])), rng.choice((0.1, 0.5, 0.9))
    real = torch.tensor([[rng.random() < share for _ in range(whole[3])] for _ in range(batch)], dtype=torch.bool)
    real = real.reshape(batch, whole[3])
    return transom.padding(real[0] if batch == 1 else real), real.numpy()[:, None, None, :]


def make_bool_tensor(rng: random.Random, whole: Whole) -> torch.Tensor:
    shape = [size if rng.random() < 0.6 else 1 for size in whole]
    random_numbers = torch.Generator().manual_seed(rng.getrandbits(40))
    allowed = torch.rand(shape, generator=random_numbers) < rng.choice((0.1, 0.5, 0.9))
    if rng.random() < 0.3:
        allowed = allowed & (torch.rand((*shape[:3], 1), generator=random_numbers) < 0.7)
    return allowed if rng.random() < 0.7 else allowed.transpose(2, 3).contiguous().transpose(2, 3)


def make_given(rng: random.Random, whole: Whole) -> Made:
    allowed = make_bool_tensor(rng, whole)
    return TensorMask(allowed), allowed.numpy()


def make_cut(rng: random.Random, whole: Whole) -> Made:
    """Everything but some edges."""
    allowed = np.ones(whole, dtype=bool)
    boxes = []
    for _ in range(rng.randint(1, 3)):
        box = [None if rng.random() < 0.4 or not size else places(rng, size) for size in whole]
        boxes.append(EdgeBox(*box))
        allowed[np.ix_(*(range(size) if held is None else held for held, size in zip(box, whole, strict=True)))] = False
    return EdgeMask(tuple(boxes)), allowed


def places(rng: random.Random, size: int) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(range(size), rng.randint(1, min(3, size)))))
