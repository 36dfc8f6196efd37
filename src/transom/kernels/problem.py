"""One attention to compute: Q, K, V, mask, bias, scale, softcap and dropout, checked to fit together."""

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations import attention, heads
from transom.equations.biases import Bias, TensorBias
from transom.equations.dropout import keep_mask
from transom.equations.masks import Causal, Mask, TensorMask
from transom.equations.region import FullShape, Index, Region, index_axis, index_to_tensor
from transom.names import Misfit, format_shape

AXES = {
    "Q": "batch heads queries d_head",
    "K": "batch kv_heads keys d_head",
    "V": "batch kv_heads keys d_value",
}

DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.float64}


def check_tensors(Q: Tensor, K: Tensor, V: Tensor) -> None:
    """Q, K and V must each have four axes, and share one floating dtype and device."""
    for name, tensor in zip(AXES, (Q, K, V), strict=True):
        if not isinstance(tensor, Tensor):
            raise Misfit(f"{name} must be a torch tensor, but got {type(tensor).__name__}; use torch.as_tensor")
        if tensor.dim() != 4:
            raise Misfit(
                f"{name} must be ({AXES[name].replace(' ', ', ')}), but it is {tuple(tensor.shape)};"
                " add the missing axes with [None]"
            )
        if tensor.dtype not in DTYPES:
            kind = "numbers of 16, 32 or 64 bits" if tensor.is_floating_point() else "floating-point numbers"
            raise Misfit(f"{name} must hold {kind}, but it is {tensor.dtype}; use {name}.float()")
        if tensor.layout is not torch.strided:
            raise Misfit(f"{name} must be a dense tensor, but it is {tensor.layout}; use {name}.to_dense()")
    for name, tensor in (("K", K), ("V", V)):
        if tensor.dtype != Q.dtype:
            raise Misfit(
                f"Q, K and V must share a dtype, but Q is {Q.dtype} and {name} is {tensor.dtype}; use .to(Q.dtype)"
            )
        if tensor.device != Q.device:
            raise Misfit(
                f"Q, K and V must share a device, but Q is on {Q.device} and {name} on {tensor.device};"
                " use .to(Q.device)"
            )


def check_sizes(Q: Tensor, K: Tensor, V: Tensor) -> None:
    """The axes that Q, K and V share must have the same size."""
    heads, kv_heads = Q.shape[1], K.shape[1]
    shared = Q.shape[0] == K.shape[0] == V.shape[0] and K.shape[1:3] == V.shape[1:3] and Q.shape[3] == K.shape[3]
    if shared and (heads == kv_heads or (kv_heads and heads % kv_heads == 0)):
        return
    tensors = zip(AXES, (Q, K, V), strict=True)
    shapes = ", ".join(f"{name} is {format_shape(tensor, AXES[name])}" for name, tensor in tensors)
    if not Q.shape[0] == K.shape[0] == V.shape[0]:
        raise Misfit(f"Q, K and V must share batch, but {shapes}; expand the smaller one")
    if K.shape[1:3] != V.shape[1:3]:
        raise Misfit(f"K and V must share kv_heads and keys, but {shapes}; each key needs its value")
    if Q.shape[3] != K.shape[3]:
        raise Misfit(f"Q and K must share d_head, but {shapes}; project both to the same width")
    raise Misfit(f"kv_heads must divide heads, but {shapes}; each head of K and V serves heads / kv_heads of Q's")


# The range of scale and softcap: outside it a number is infinite or 0 in float32, and the scores would be NaN.
LARGEST, SMALLEST = torch.finfo(torch.float32).max, torch.finfo(torch.float32).tiny


def check_numbers(scale: float | None, softcap: float | None, dropout: float) -> None:
    """scale, softcap and dropout must be numbers in their ranges."""
    if scale is not None and not (is_number(scale) and -LARGEST <= scale <= LARGEST):
        raise Misfit(f"scale must be a finite number, but got {describe_value(scale)}; leave it out for 1/√d_head")
    if softcap is not None and not (is_number(softcap) and SMALLEST <= softcap <= LARGEST):
        raise Misfit(f"softcap must be a positive number, but got {describe_value(softcap)}; leave it out for no cap")
    if not (is_number(dropout) and 0.0 <= dropout < 1.0):
        value = describe_value(dropout)
        raise Misfit(f"dropout must be at least 0 and below 1, but got {value}; 0.1 drops a tenth of the weights")


def check_causal(causal: object) -> None:
    """causal must be True or False: a mask in its place would count as True, and never be used."""
    if causal is True or causal is False:
        return
    if not (isinstance(causal, int | np.bool_ | torch.SymBool) and causal in (0, 1)):
        raise Misfit(f"causal must be True or False, but got {type(causal).__name__}; a mask goes into allowed")


def is_number(value: object) -> bool:
    """Whether it is a number: not a string, not a bool, and not a tensor that learns, whose gradient would be lost."""
    if type(value) in (float, int):
        return True
    if isinstance(value, Tensor):
        return value.numel() == 1 and value.dtype != torch.bool and not (value.requires_grad or value.is_complex())
    return isinstance(value, Real | torch.SymFloat | torch.SymInt) and not isinstance(value, bool)


def describe_value(value: object) -> str:
    """A short description of something that should have been a number."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {value.dtype}{' that learns' if value.requires_grad else ''}"
    return f"{value}" if isinstance(value, Real) else f"{value!r:.60}"


def to_mask(allowed: Tensor | Mask | None, full_shape: FullShape, device: torch.device) -> Mask | None:
    """`allowed` as a mask object that fits the attention."""
    if allowed is None:
        return None
    if isinstance(allowed, Mask):
        allowed.check(full_shape, device)
        return allowed
    if not isinstance(allowed, Tensor):
        raise Misfit(
            f"allowed must be a bool tensor or a mask object, but got {type(allowed).__name__}; see transom.causal()"
        )
    if allowed.is_floating_point():
        raise Misfit(
            f"allowed must be bool (True = may look), but it is {allowed.dtype};"
            " numbers that are added to the scores go into bias"
        )
    if allowed.dtype != torch.bool:
        raise Misfit(f"allowed must be bool (True = may look), but it is {allowed.dtype}; use allowed.bool()")
    return TensorMask(to_four_axes("allowed", allowed, full_shape, device))


def to_bias(bias: Tensor | Bias | None, full_shape: FullShape, device: torch.device) -> Bias | None:
    """`bias` as a bias object that fits the attention."""
    if bias is None:
        return None
    if isinstance(bias, Bias):
        bias.check(full_shape, device)
        return bias
    if not isinstance(bias, Tensor):
        raise Misfit(
            f"bias must be a float tensor or a bias object, but got {type(bias).__name__}; use torch.as_tensor"
        )
    if not bias.is_floating_point():
        raise Misfit(
            f"bias must hold floating-point numbers to add to the scores, but it is {bias.dtype};"
            " a bool mask goes into allowed"
        )
    return TensorBias(to_four_axes("bias", bias, full_shape, device))


def to_four_axes(name: str, tensor: Tensor, full_shape: FullShape, device: torch.device) -> Tensor:
    """The tensor with four axes, each of size 1 or that of the attention."""
    axes = "batch heads queries keys"
    result = tensor if tensor.dim() >= 4 else tensor.reshape((1,) * (4 - tensor.dim()) + tensor.shape)
    if result.dim() > 4 or any(size not in (1, full) for size, full in zip(result.shape, full_shape, strict=True)):
        own_axes = " ".join(axes.split()[4 - tensor.dim() :]) if tensor.dim() <= 4 else ""
        raise Misfit(
            f"{name} must broadcast to {format_shape(full_shape, axes)}, but it is {format_shape(tensor, own_axes)};"
            " give each axis its full size or 1"
        )
    if tensor.device != device:
        raise Misfit(f"{name} is on {tensor.device}, but Q is on {device}; move it with .to(Q.device)")
    return result


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that defines one attention: an engine solves it, a Sight shows its weights."""

    Q: Float[Tensor, "batch heads queries d_head"]
    K: Float[Tensor, "batch kv_heads keys d_head"]
    V: Float[Tensor, "batch kv_heads keys d_value"]
    mask: Mask | None
    bias: Bias | None
    scale: float
    softcap: float | None
    dropout: float
    seed: int  # of dropout; unused without it

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.Q.shape[0], self.Q.shape[1], self.Q.shape[2], self.K.shape[2])

    @property
    def group(self) -> int:
        """How many query heads share one head of keys and values."""
        return max(1, self.Q.shape[1] // max(1, self.K.shape[1]))

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype to compute in: half precision is widened, because large scores would overflow or lose digits."""
        return torch.promote_types(self.Q.dtype, torch.float32)

    @property
    def needs_gradient(self) -> bool:
        return torch.is_grad_enabled() and any(x.requires_grad for x in (self.Q, self.K, self.V))

    def region(self) -> Region:
        """The whole attention as a region, to be narrowed."""
        return Region(self.shape, device=self.Q.device)

    def key_range(self, rows: tuple[int, int]) -> tuple[int, int]:
        """A range of keys outside which the mask hides everything from these rows."""
        return (0, self.K.shape[2]) if self.mask is None else self.mask.key_range(rows, self.shape)

    def detach(self) -> "Problem":
        if not (self.Q.requires_grad or self.K.requires_grad or self.V.requires_grad):
            return self
        return replace(self, Q=self.Q.detach(), K=self.K.detach(), V=self.V.detach())

    def queries_in(self, region: Region) -> Float[Tensor, "batch heads rows d_head"]:
        rows = index_axis(index_axis(index_axis(self.Q, 0, region.batch), 1, region.heads), 2, region.rows)
        return rows.to(self.compute_dtype)

    def keys_in(self, region: Region) -> Float[Tensor, "batch kv_heads columns d_head"]:
        return self.kv_part(self.K, region)

    def values_in(self, region: Region) -> Float[Tensor, "batch kv_heads columns d_value"]:
        return self.kv_part(self.V, region)

    def kv_part(self, tensor: Tensor, region: Region) -> Tensor:
        part = index_axis(index_axis(tensor, 0, region.batch), 1, self.kv_heads_of(region.heads))
        return index_axis(part, 2, region.columns).to(self.compute_dtype)

    def kv_heads_of(self, index: Index) -> Index:
        """The heads of K and V that serve these query heads: a slice for complete groups, or for one head."""
        if self.group == 1:
            return index
        if isinstance(index, slice):
            first, last, _ = index.indices(self.shape[1])
            if last == first + 1 or (first % self.group == 0 and last % self.group == 0):
                return slice(first // self.group, -(-last // self.group))
        return index_to_tensor(index, self.shape[1], self.Q.device) // self.group

    def allowed_mask(self, region: Region) -> Bool[Tensor, "#batch #heads #rows #columns"] | None:
        """Where the region's rows may attend; None if nothing is masked."""
        return None if self.mask is None else self.mask.materialize(region)

    def capped_scores(self, region: Region) -> Float[Tensor, "batch heads rows columns"]:
        """Q Kᵀ · scale after the soft cap, before bias and mask."""
        # Q is scaled first: the product of half-precision numbers would overflow earlier.
        s = heads.grouped_matmul(self.queries_in(region) * self.scale, self.keys_in(region).mT)
        return s if self.softcap is None else attention.softcap_scores(s, self.softcap)

    def scores(self, region: Region) -> Float[Tensor, "batch heads rows columns"]:
        """The region's scores as the softmax takes them: scaled, capped, biased, −∞ where masked."""
        s = self.capped_scores(region)
        if self.bias is not None:
            s = s + self.bias.materialize(region).to(s.dtype)
        allowed = self.allowed_mask(region)
        return s if allowed is None else attention.mask_scores(s, allowed)

    def dropout_factors(self, region: Region) -> Float[Tensor, "batch heads rows columns"] | None:
        """What dropout multiplies the region's weights by: 0 or 1 / (1 − dropout); None without dropout."""
        if self.dropout == 0.0:
            return None
        return keep_mask(self.seed, region, self.dropout).to(self.compute_dtype) / (1.0 - self.dropout)


def build_problem(
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
    """The problem of an attention, after all checks; the arguments are those of `attend`."""
    check_tensors(Q, K, V)
    check_sizes(Q, K, V)
    check_numbers(scale, softcap, dropout)
    check_causal(causal)
    full_shape = (Q.shape[0], Q.shape[1], Q.shape[2], K.shape[2])
    mask = to_mask(allowed, full_shape, Q.device)
    if causal:
        mask = Causal() if mask is None else Causal() & mask
    return Problem(
        Q=Q,
        K=K,
        V=V,
        mask=mask,
        bias=to_bias(bias, full_shape, Q.device),
        scale=attention.default_scale(Q.shape[3]) if scale is None else float(scale),
        softcap=None if softcap is None else float(softcap),
        dropout=float(dropout),
        seed=int(torch.randint(2**62, ())) if dropout else 0,
    )
