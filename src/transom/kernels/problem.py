"""One attention, put in order: what is attended to, under which mask and bias, with which numbers."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations import attention, heads
from transom.equations.biases import Bias
from transom.equations.blocks import Block, Index, numbers, picked
from transom.equations.dropout import kept
from transom.equations.masks import Causal, Mask
from transom.kernels import checks


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that defines one attention; engines solve it, a Sight looks into it."""

    Q: Float[Tensor, "batch heads queries d_head"]
    K: Float[Tensor, "batch kv_heads keys d_head"]
    V: Float[Tensor, "batch kv_heads keys d_value"]
    mask: Mask | None
    bias: Bias | None
    scale: float
    softcap: float | None
    dropout: float
    seed: int  # from which dropout follows; unused without it

    @property
    def whole(self) -> tuple[int, int, int, int]:
        return (self.Q.shape[0], self.Q.shape[1], self.Q.shape[2], self.K.shape[2])

    @property
    def group(self) -> int:
        """How many query heads share one head of keys and values."""
        return max(1, self.Q.shape[1] // max(1, self.K.shape[1]))

    @property
    def accurate(self) -> torch.dtype:
        """The dtype to compute in: half precision is widened, so that large scores neither overflow nor blur."""
        return torch.promote_types(self.Q.dtype, torch.float32)

    def block(self) -> Block:
        """The whole, as a block to narrow."""
        return Block(self.whole, device=self.Q.device)

    def detached(self) -> "Problem":
        return replace(self, Q=self.Q.detach(), K=self.K.detach(), V=self.V.detach())

    def queries_of(self, block: Block) -> Float[Tensor, "batch heads rows d_head"]:
        rows = picked(picked(picked(self.Q, 0, block.batch), 1, block.heads), 2, block.rows)
        return rows.to(self.accurate)

    def keys_of(self, block: Block) -> Float[Tensor, "batch kv_heads columns d_head"]:
        return self.shared_of(self.K, block)

    def values_of(self, block: Block) -> Float[Tensor, "batch kv_heads columns d_value"]:
        return self.shared_of(self.V, block)

    def shared_of(self, tensor: Tensor, block: Block) -> Tensor:
        part = picked(picked(tensor, 0, block.batch), 1, self.kv_heads_of(block.heads))
        return picked(part, 2, block.columns).to(self.accurate)

    def kv_heads_of(self, index: Index) -> Index:
        """The heads of K and V that serve these query heads: a slice where groups are whole or one head is asked."""
        if self.group == 1:
            return index
        if isinstance(index, slice):
            first, last, _ = index.indices(self.whole[1])
            if last == first + 1 or (first % self.group == 0 and last % self.group == 0):
                return slice(first // self.group, -(-last // self.group))
        return numbers(index, self.whole[1], self.Q.device) // self.group

    def seen(self, block: Block) -> Bool[Tensor, "#batch #heads #rows #columns"] | None:
        """Where the block's rows may look; None where nothing is masked."""
        return None if self.mask is None else self.mask.seen(block)

    def capped_scores(self, block: Block) -> Float[Tensor, "batch heads rows columns"]:
        """Q Kᵀ · scale, bent by the soft cap: before bias and mask."""
        # The scale goes onto Q first: the product of half-precision numbers would overflow earlier.
        s = heads.shared_product(self.queries_of(block) * self.scale, self.keys_of(block).mT)
        return s if self.softcap is None else attention.capped(s, self.softcap)

    def scores(self, block: Block) -> Float[Tensor, "batch heads rows columns"]:
        """The block's scores: scaled, capped, biased, −∞ where a row may not look. What the softmax takes."""
        s = self.capped_scores(block)
        if self.bias is not None:
            s = s + self.bias.added(block).to(s.dtype)
        seen = self.seen(block)
        return s if seen is None else attention.masked(s, seen)

    def dropout_factors(self, block: Block) -> Float[Tensor, "batch heads rows columns"] | None:
        """What dropout multiplies the block's weights by: 0 or 1 / (1 − dropout); None without dropout."""
        if self.dropout == 0.0:
            return None
        return kept(self.seed, block, self.dropout).to(self.accurate) / (1.0 - self.dropout)


def put(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    allowed: Tensor | Mask | None = None,
    bias: Tensor | Bias | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
) -> Problem:
    """Check what came and put it in order; the arguments are those of `attend`."""
    checks.check_tensors(Q, K, V)
    checks.check_sizes(Q, K, V)
    checks.check_numbers(scale, softcap, dropout)
    checks.check_causal(causal)
    whole = (Q.shape[0], Q.shape[1], Q.shape[2], K.shape[2])
    mask = checks.as_mask(allowed, whole, Q.device)
    if causal:
        mask = Causal() if mask is None else Causal() & mask
    return Problem(
        Q=Q,
        K=K,
        V=V,
        mask=mask,
        bias=checks.as_bias(bias, whole, Q.device),
        scale=1.0 / math.sqrt(max(1, Q.shape[3])) if scale is None else float(scale),
        softcap=None if softcap is None else float(softcap),
        dropout=float(dropout),
        seed=int(torch.randint(2**62, ())) if dropout else 0,
    )
