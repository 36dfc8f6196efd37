"""One vector for a sequence of vectors."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

Pooling = Callable[[Tensor, Tensor | None], Tensor]


def mean(
    x: Float[Tensor, "batch token d_model"], real: Bool[Tensor, "batch token"] | None = None
) -> Float[Tensor, "batch d_model"]:
    """The mean over the real tokens; zeros where there are none."""
    if real is None:
        return x.mean(dim=1) if x.shape[1] else x.sum(dim=1)
    # A padded place may hold anything, also NaN, so it is put to 0 and not multiplied by it.
    counts = real.sum(dim=1, keepdim=True).clamp(min=1)
    return x.masked_fill(~real[..., None], 0.0).sum(dim=1) / counts


def first(
    x: Float[Tensor, "batch token d_model"], real: Bool[Tensor, "batch token"] | None = None
) -> Float[Tensor, "batch d_model"]:
    """The vector of the first real token."""
    if real is None:
        return x[:, 0]
    places = real.int().argmax(dim=1)
    return x.gather(1, places[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]


POOLINGS: dict[str, Pooling] = {"mean": mean, "first": first}
