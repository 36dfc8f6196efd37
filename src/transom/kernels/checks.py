"""What `attend` takes, and what it says when something else comes."""

from numbers import Real

import numpy as np
import torch
from torch import Tensor

from transom.equations.biases import Bias, GivenBias
from transom.equations.masks import Given, Mask
from transom.names import Misfit, spelled

AXES = {
    "Q": "batch heads queries d_head",
    "K": "batch kv_heads keys d_head",
    "V": "batch kv_heads keys d_value",
}

DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
STRIDED = torch.strided


def check_tensors(Q: Tensor, K: Tensor, V: Tensor) -> None:
    """Q, K and V each have four axes and one floating dtype and device."""
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
        if tensor.layout is not STRIDED:
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
    """The axes that Q, K and V share have the same size."""
    heads, kv_heads = Q.shape[1], K.shape[1]
    shared = Q.shape[0] == K.shape[0] == V.shape[0] and K.shape[1:3] == V.shape[1:3] and Q.shape[3] == K.shape[3]
    if shared and (heads == kv_heads or (kv_heads and heads % kv_heads == 0)):
        return
    came = ", ".join(f"{name} is {spelled(tensor, AXES[name])}" for name, tensor in zip(AXES, (Q, K, V), strict=True))
    if not Q.shape[0] == K.shape[0] == V.shape[0]:
        raise Misfit(f"Q, K and V must share batch, but {came}; expand the smaller one")
    if K.shape[1:3] != V.shape[1:3]:
        raise Misfit(f"K and V must share kv_heads and keys, but {came}; each key needs its value")
    if Q.shape[3] != K.shape[3]:
        raise Misfit(f"Q and K must share d_head, but {came}; project both to the same width")
    raise Misfit(f"kv_heads must divide heads, but {came}; each head of K and V serves heads / kv_heads of Q's")


# What scale and softcap may be: a number beyond this is infinite or 0 in float32, and the scores are NaN with it.
LARGEST, SMALLEST = torch.finfo(torch.float32).max, torch.finfo(torch.float32).tiny


def check_numbers(scale: float | None, softcap: float | None, dropout: float) -> None:
    """scale, softcap and dropout are numbers in their ranges."""
    if scale is not None and not (is_number(scale) and -LARGEST <= scale <= LARGEST):
        raise Misfit(f"scale must be a finite number, but got {came(scale)}; leave it out for 1/√d_head")
    if softcap is not None and not (is_number(softcap) and SMALLEST <= softcap <= LARGEST):
        raise Misfit(f"softcap must be a positive number, but got {came(softcap)}; leave it out for no cap")
    if not (is_number(dropout) and 0.0 <= dropout < 1.0):
        raise Misfit(
            f"dropout must be at least 0 and below 1, but got {came(dropout)}; 0.1 drops a tenth of the weights"
        )


def check_causal(causal: object) -> None:
    """causal is yes or no: a mask in its place would be taken for yes, and never looked at."""
    if causal is True or causal is False:
        return
    if not (isinstance(causal, int | np.bool_ | torch.SymBool) and causal in (0, 1)):
        raise Misfit(f"causal must be True or False, but got {type(causal).__name__}; a mask goes into allowed")


def is_number(value: object) -> bool:
    """Whether it is a number, not a word, a bool (True is no scale) or a tensor that learns (its gradient would be
    lost)."""
    if type(value) in (float, int):
        return True
    if isinstance(value, Tensor):
        return value.numel() == 1 and value.dtype != torch.bool and not (value.requires_grad or value.is_complex())
    return isinstance(value, Real | torch.SymFloat | torch.SymInt) and not isinstance(value, bool)


def came(value: object) -> str:
    """What came in the place of a number, in a few words."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {value.dtype}{' that learns' if value.requires_grad else ''}"
    return f"{value}" if isinstance(value, Real) else f"{value!r:.60}"


def as_mask(allowed: Tensor | Mask | None, whole: tuple[int, int, int, int], device: torch.device) -> Mask | None:
    """`allowed` as a mask object that fits."""
    if allowed is None:
        return None
    if isinstance(allowed, Mask):
        allowed.check(whole, device)
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
    return Given(broadcastable("allowed", allowed, whole, device))


def as_bias(bias: Tensor | Bias | None, whole: tuple[int, int, int, int], device: torch.device) -> Bias | None:
    """`bias` as a bias object that fits."""
    if bias is None:
        return None
    if isinstance(bias, Bias):
        bias.check(whole, device)
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
    return GivenBias(broadcastable("bias", bias, whole, device))


def broadcastable(name: str, tensor: Tensor, whole: tuple[int, int, int, int], device: torch.device) -> Tensor:
    """The tensor with four axes, each of size 1 or that of the attention."""
    axes = "batch heads queries keys"
    seen = tensor if tensor.dim() >= 4 else tensor.reshape((1,) * (4 - tensor.dim()) + tensor.shape)
    if seen.dim() > 4 or any(size not in (1, full) for size, full in zip(seen.shape, whole, strict=True)):
        words = " ".join(axes.split()[4 - tensor.dim() :]) if tensor.dim() <= 4 else ""
        raise Misfit(
            f"{name} must broadcast to {spelled(whole, axes)}, but it is {spelled(tensor, words)};"
            " give each axis its full size or 1"
        )
    if tensor.device != device:
        raise Misfit(f"{name} is on {tensor.device}, but Q is on {device}; move it with .to(Q.device)")
    return seen
