"""Random attentions for the fuzzers: sizes, strides, masks, biases and what is hidden behind them, and the same as
plain arrays, worked out apart from Transom."""

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fuzz.attention_masks import make_mask
from fuzz.attention_reference import Array, Numbers, Precision
from transom.equations.biases import DistanceBias, RelativeBias

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SCALES = (None, None, 0.0, -0.0, -1.0, -0.37, 1.0, 1e-30, 1e-50, 1e-3, 8.0, -1e4, 1e4, 1e38)
POISON = ("nan", "inf", "-inf", "most", "least")


@dataclass(frozen=True)
class Case:
    """One attention to try: what `attend` takes, and the same in float64."""

    Q: Tensor
    K: Tensor
    V: Tensor
    options: dict[str, Any]
    numbers: Numbers
    precision: Precision
    hidden: int  # numbers that are not finite, or as large as can be

    @property
    def whole(self) -> tuple[int, ...]:
        return self.numbers.visible.shape


def make_case(rng: random.Random) -> Case:
    """A random attention."""
    dtype = rng.choice(DTYPES)
    batch, kv_heads, group = choose_size(rng, 3), choose_size(rng, 3), rng.randint(1, 3)
    queries, keys = choose_length(rng), choose_length(rng)
    if rng.random() < 0.3:
        keys = queries
    d_head, d_value = choose_size(rng, 20), choose_size(rng, 20)
    whole = (batch, kv_heads * group, queries, keys)
    allowed, causal, visible = choose_mask(rng, whole)
    bias, dense_bias = choose_bias(rng, whole, visible, torch.promote_types(dtype, torch.float32))
    spread = rng.choice((0.1, 1.0, 1.0, 1.0, 3.0, 30.0))
    shapes = ((batch, whole[1], queries, d_head), (batch, kv_heads, keys, d_head), (batch, kv_heads, keys, d_value))
    Q, K, V = (make_tensor(rng, shape, dtype, spread) for shape in shapes)
    hidden = 0
    if rng.random() < 0.6:
        by_row, by_key = ~visible, ~visible.reshape(batch, kv_heads, group * queries, keys)
        hidden = poison(rng, Q, np.all(by_row, axis=3))
        hidden += sum(poison(rng, x, np.all(by_key, axis=2)) for x in (K, V))
    scale, softcap = rng.choice(SCALES), rng.choice((None, None, None, 1e-30, 0.5, 20.0, 1e3, 1e30))
    arrays = [x.double().numpy() for x in (Q, K, V)]
    factor = 1.0 / math.sqrt(max(1, d_head)) if scale is None else scale
    numbers = Numbers(arrays[0], arrays[1], arrays[2], visible, dense_bias, factor, softcap)
    options = {"allowed": allowed, "bias": bias, "causal": causal, "scale": scale, "softcap": softcap}
    return Case(Q, K, V, options, numbers, precision_of(dtype), hidden)


def choose_size(rng: random.Random, most: int) -> int:
    return 0 if rng.random() < 0.03 else rng.randint(1, most)


def choose_length(rng: random.Random) -> int:
    draw = rng.random()
    return 0 if draw < 0.04 else rng.randint(1, 5 if draw < 0.3 else 19 if draw < 0.85 else 70)


def precision_of(dtype: torch.dtype) -> Precision:
    sums = torch.finfo(torch.promote_types(dtype, torch.float32))
    given = torch.finfo(dtype)
    return Precision(given.eps, sums.eps, sums.max, given.smallest_normal * given.eps)


def choose_mask(rng: random.Random, whole: tuple[int, ...]) -> tuple[Any, bool, Array]:
    """What goes in as `allowed` and as `causal`, and where a row may look by both."""
    allowed, visible = (None, np.ones(whole, dtype=bool)) if rng.random() < 0.25 else make_mask(rng, whole)
    causal = rng.random() < 0.3
    if causal:
        after = np.arange(whole[3])[None, :] > np.arange(whole[2])[:, None] + whole[3] - whole[2]
        visible = visible & ~after
    return allowed, causal, np.ascontiguousarray(np.broadcast_to(visible, whole))


def choose_bias(
    rng: random.Random, whole: tuple[int, ...], visible: Array, dtype: torch.dtype
) -> tuple[Any, Array | None]:
    """A bias and its numbers: given, by distance, or from a table; anything at all where nobody looks."""
    draw = rng.random()
    if draw < 0.55:
        return None, None
    random_numbers = torch.Generator().manual_seed(rng.getrandbits(40))
    distance = np.arange(whole[3])[None, :] - (np.arange(whole[2])[:, None] + whole[3] - whole[2])
    if draw < 0.65:
        slopes = torch.rand(whole[1], generator=random_numbers).to(dtype)
        dense = -slopes.double().numpy()[:, None, None] * np.abs(distance)
        return DistanceBias(slopes), np.broadcast_to(dense, whole)
    if draw < 0.75:
        reach = rng.randint(0, 5)
        table = torch.randn(whole[1], 2 * reach + 1, generator=random_numbers).to(dtype)
        return RelativeBias(table), np.broadcast_to(
            table.double().numpy()[:, np.clip(distance, -reach, reach) + reach], whole
        )
    shape = tuple(size if rng.random() < 0.6 else 1 for size in whole)
    bias = torch.randn(shape, generator=random_numbers).to(rng.choice(DTYPES)) * rng.choice((1.0, 1.0, 30.0))
    if rng.random() < 0.2:
        bias[torch.rand(shape, generator=random_numbers) < 0.3] = -math.inf
    unseen = ~visible.any(axis=tuple(axis for axis in range(4) if shape[axis] == 1), keepdims=True)
    if rng.random() < 0.4:
        bias[torch.from_numpy(unseen)] = rng.choice((math.nan, math.inf, -math.inf, 3e4, -3e4))
    return restrided(rng, bias), np.broadcast_to(bias.double().numpy(), whole)


def make_tensor(rng: random.Random, shape: tuple[int, ...], dtype: torch.dtype, spread: float) -> Tensor:
    """Random numbers in a tensor that lies in memory in one of many ways."""
    random_numbers = torch.Generator().manual_seed(rng.getrandbits(40))
    given = list(shape)
    if rng.random() < 0.1:  # the same numbers for all of an axis
        axis = rng.randrange(4)
        given[axis] = min(1, given[axis])
    values = (torch.randn(given, generator=random_numbers) * spread).to(dtype)
    return restrided(rng, values).expand(shape)


def restrided(rng: random.Random, x: Tensor) -> Tensor:
    """The same numbers, with other strides and NaN between and around them."""
    order = list(range(x.dim()))
    if rng.random() < 0.5:
        rng.shuffle(order)
    steps = [rng.choice((1, 1, 1, 2, 3)) if rng.random() < 0.4 else 1 for _ in order]
    margin = rng.choice((0, 0, 1, 5))
    room = [x.shape[axis] * step + margin for axis, step in zip(order, steps, strict=True)]
    memory = torch.full(room, math.nan if x.is_floating_point() else 0, dtype=x.dtype)
    view = memory[
        tuple(slice(margin, margin + x.shape[axis] * step, step) for axis, step in zip(order, steps, strict=True))
    ]
    view = view.permute([order.index(axis) for axis in range(x.dim())])
    return view.copy_(x)


def poison(rng: random.Random, x: Tensor, hidden: Any) -> int:
    """Put what is no number, or the largest there is, where nobody looks; now and then where somebody does."""
    rows = torch.from_numpy(hidden)[..., None].expand(x.shape)
    if rng.random() < 0.3 or not x.numel():
        return 0
    most = torch.finfo(x.dtype).max
    name = rng.choice(POISON)
    value = {"most": most, "least": -most}[name] if name in ("most", "least") else float(name)
    some = torch.rand(x.shape, generator=torch.Generator().manual_seed(rng.getrandbits(40))) < rng.choice((0.2, 1.0))
    if rng.random() < 0.15:
        rows = torch.rand(x.shape, generator=torch.Generator().manual_seed(rng.getrandbits(40))) < 0.05
    # An expanded axis has one place in memory: what is hidden must be so everywhere along it.
    for axis in range(4):
        if x.stride(axis) == 0 and x.shape[axis] > 1:
            x, rows, some = x.narrow(axis, 0, 1), rows.all(dim=axis, keepdim=True), some.narrow(axis, 0, 1)
    x.masked_fill_(rows & some, value)
    return int((rows & some).sum())
