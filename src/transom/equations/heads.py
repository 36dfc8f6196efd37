"""Many heads: split the width of a token into heads, let each attend, join them again (Vaswani et al. 2017, 3.2.2)."""

from jaxtyping import Float
from torch import Tensor


def split_heads(x: Float[Tensor, "batch token any"], heads: int) -> Float[Tensor, "batch {heads} token d_head"]:
    """Split each token's numbers into `heads` runs of equal width, and put the heads before the tokens."""
    batch, token, width = x.shape
    return x.reshape(batch, token, heads, width // heads).transpose(1, 2)


def merge_heads(x: Float[Tensor, "batch heads token d_head"]) -> Float[Tensor, "batch token any"]:
    """Concatenate the heads of each token: the inverse of `split_heads`."""
    batch, heads, token, width = x.shape
    return x.transpose(1, 2).reshape(batch, token, heads * width)


def project_heads(
    heads: Float[Tensor, "batch heads token d_value"], W_O: Float[Tensor, "any d_out"]
) -> Float[Tensor, "batch token d_out"]:
    """Concat(head₁ … head_h) W_O: the outputs of the heads, mixed into one vector per token."""
    return merge_heads(heads) @ W_O


def grouped_matmul(
    left: Float[Tensor, "batch heads rows any"], right: Float[Tensor, "batch kv_heads any any2"]
) -> Float[Tensor, "batch heads rows any2"]:
    """left @ right, where each head of `right` serves a group of neighbouring heads of `left`; nothing is copied.

    Grouped-query attention (Ainslie et al. 2023): head h of the queries uses head h // group of the keys and values.
    """
    batch, heads, rows, width = left.shape
    kv_heads = right.shape[1]
    if heads == kv_heads:
        return left @ right
    grouped = left.reshape(batch, kv_heads, heads // kv_heads * rows, width)
    return (grouped @ right).reshape(batch, heads, rows, right.shape[-1])


def sum_groups(x: Float[Tensor, "batch heads any any2"], kv_heads: int) -> Float[Tensor, "batch {kv_heads} any any2"]:
    """Sum over the query heads of each group: the gradient of a shared head of keys or values."""
    batch, heads, rows, width = x.shape
    return x.reshape(batch, kv_heads, heads // kv_heads, rows, width).sum(dim=2)
