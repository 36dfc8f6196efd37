"""One vector for a sequence of vectors."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from transom.layers.positions import Vectors
from transom.models.position_ids import Real

Pooling = Callable[[Tensor, Tensor | None], Tensor]


def mean_pool(x: Vectors, real: Real | None = None) -> Float[Tensor, "batch d_model"]:
    """The mean over the real tokens; zeros if there are none."""
    if real is None:
        return x.mean(dim=1) if x.shape[1] else x.sum(dim=1)
    # Padding may hold NaN, which times 0 would stay NaN, so it is filled with 0.
    counts = real.sum(dim=1, keepdim=True).clamp(min=1)
    return x.masked_fill(~real[..., None], 0.0).sum(dim=1) / counts


def first_pool(x: Vectors, real: Real | None = None) -> Float[Tensor, "batch d_model"]:
    """The vector of the first real token."""
    if real is None:
        return x[:, 0]
    indices = real.int().argmax(dim=1)
    return x.gather(1, indices[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]


POOLINGS: dict[str, Pooling] = {"mean": mean_pool, "first": first_pool}
