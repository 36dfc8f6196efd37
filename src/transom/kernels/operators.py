"""The native engine as operators of torch, with gradients and fake tensors: torch.compile and export see them whole."""

from ctypes import byref
from typing import Any

import torch
from torch import Tensor

from transom.kernels import library
from transom.kernels.library import Attention, Found, Gradients
from transom.kernels.tiles import finite

Kept = tuple[Tensor, ...]


def dense(x: Tensor) -> Tensor:
    """x with rows that lie one after another: kept apart, they would push each other out of the cache."""
    return x if x.stride(3) == 1 and x.stride(2) == x.shape[3] else x.contiguous()


def last_dense(x: Tensor) -> Tensor:
    return x if x.stride(3) == 1 else x.contiguous()


def described(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    parts: tuple[Tensor | None, ...],
    reach: tuple[int, int],
    numbers: tuple[float, float, float, int],
) -> tuple[Attention, Kept]:
    """The attention as the library reads it, and the tensors that must live as long."""
    Q, K, V = last_dense(Q), dense(K), dense(V)
    real, documents, given, bias, by_distance = parts
    found = Attention()
    found.batch, found.heads, found.queries, found.d_head = Q.shape
    found.kv_heads, found.keys, found.d_value = K.shape[1], K.shape[2], V.shape[3]
    for name, tensor in (("Q", Q), ("K", K), ("V", V), ("given", given), ("bias", bias)):
        if tensor is not None:
            setattr(found, name, tensor.data_ptr())
            setattr(found, f"{name}_strides", library.strides(tensor))
    if real is not None:
        found.real, found.real_strides = real.data_ptr(), library.strides(real[:, :, None])[:2]
    if documents is not None:
        found.documents, found.documents_stride = documents.data_ptr(), library.strides(documents[:, None, None])[0]
    if by_distance is not None:
        found.by_distance, found.by_distance_stride = by_distance.data_ptr(), by_distance.shape[1]
    found.start, (found.ahead, found.behind) = found.keys - found.queries, reach
    found.scale, found.softcap, found.dropout, found.seed = numbers
    return found, (Q, K, V, *(part for part in parts if part is not None))


def products(attention: Attention, widths: int) -> int:
    """Multiplications there are at most."""
    return attention.batch * attention.heads * attention.queries * attention.keys * widths


def empty_output(Q: Tensor, V: Tensor) -> Tensor:
    """Room for the output, its axes in memory ordered as Q's: heads that were split off need not be copied back."""
    batch, heads, queries, _ = Q.shape
    if Q.stride(1) < Q.stride(2):
        return Q.new_empty((batch, queries, heads, V.shape[3])).transpose(1, 2)
    return Q.new_empty((batch, heads, queries, V.shape[3]))


@torch.library.custom_op("transom::attention", mutates_args=())
def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    real: Tensor | None,
    documents: Tensor | None,
    given: Tensor | None,
    bias: Tensor | None,
    by_distance: Tensor | None,
    ahead: int,
    behind: int,
    scale: float,
    softcap: float,
    dropout: float,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp; the arguments are those of Terms, and float32."""
    parts, reach, numbers = (
        (real, documents, given, bias, by_distance),
        (ahead, behind),
        (scale, softcap, dropout, seed),
    )
    output, lse, wild = forward(Q, K, V, parts, reach, numbers)
    if wild and not V.isfinite().all():
        output = kept_apart(Q, K, V, (parts, reach, numbers))
    return output, lse


def forward(
    Q: Tensor, K: Tensor, V: Tensor, parts: tuple[Tensor | None, ...], reach: tuple[int, int], numbers: tuple
) -> tuple[Tensor, Tensor, bool]:
    """Output, log-sum-exp, and whether there is NaN or infinity in the output."""
    described_, kept = described(Q, K, V, parts, reach, numbers)
    output, lse = empty_output(Q, V), Q.new_empty(Q.shape[:3])
    wild = torch.zeros((), dtype=torch.int32)
    found = Found(output=output.data_ptr(), lse=lse.data_ptr(), wild=wild.data_ptr())
    found.output_strides = library.strides(output)
    native = library.loaded().native
    units = native.transom_forward_units(byref(described_), byref(found))
    library.run(native.transom_forward, units, products(described_, Q.shape[3] + V.shape[3]), described_, found)
    del kept
    return output, lse, bool(wild)


def kept_apart(Q: Tensor, K: Tensor, V: Tensor, rest: tuple) -> Tensor:
    """The output where values hold NaN or infinity, which count only for rows that give them weight: 0 · NaN is NaN."""
    output, _, _ = forward(Q, K, finite(V), *rest)
    kinds = torch.cat([V.isnan(), V.isposinf(), V.isneginf()], dim=-1).float()
    nan, above, below = (forward(Q, K, kinds, *rest)[0] > 0).chunk(3, dim=-1)
    output.masked_fill_(above, torch.inf).masked_fill_(below, -torch.inf)
    return output.masked_fill_(nan | (above & below), torch.nan)


@attention.register_fake
def _(Q: Tensor, K: Tensor, V: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return empty_output(Q, V), Q.new_empty(Q.shape[:3])


@torch.library.custom_op("transom::attention_backward", mutates_args=())
def attention_backward(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    output: Tensor,
    lse: Tensor,
    of_output: Tensor,
    real: Tensor | None,
    documents: Tensor | None,
    given: Tensor | None,
    bias: Tensor | None,
    by_distance: Tensor | None,
    ahead: int,
    behind: int,
    scale: float,
    softcap: float,
    dropout: float,
    seed: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of Q, K and V."""
    rest = ((real, documents, given, bias, by_distance), (ahead, behind), (scale, softcap, dropout, seed))
    sent, wild = backward(Q, K, V, (output, lse, of_output), rest)
    if wild and not K.isfinite().all():
        sent, _ = backward(Q, finite(K), V, (output, lse, of_output), rest)  # 0 · NaN of a masked key would be NaN
    return sent


def backward(Q: Tensor, K: Tensor, V: Tensor, given: tuple, rest: tuple) -> tuple[tuple[Tensor, Tensor, Tensor], bool]:
    """The gradients, and whether there is NaN or infinity in that of Q."""
    described_, kept = described(Q, K, V, *rest)
    output, lse, of_output = (x.contiguous() for x in given)
    of_Q, of_K, of_V = (torch.empty(x.shape) for x in (Q, K, V))
    native = library.loaded().native
    partial = torch.empty(native.transom_backward_numbers(byref(described_)))
    wild = torch.zeros((), dtype=torch.int32)
    tensors = (output, lse, of_output, of_Q, of_K, of_V, partial, wild)
    gradients = Gradients(*(tensor.data_ptr() for tensor in tensors))
    units = native.transom_backward_units(byref(described_))
    numbers = products(described_, 3 * Q.shape[3] + 2 * V.shape[3])
    library.run(native.transom_backward, units, numbers, described_, gradients)
    del kept
    return (of_Q, of_K, of_V), bool(wild)


@attention_backward.register_fake
def _(Q: Tensor, K: Tensor, V: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    of_Q, of_K, of_V = (x.new_empty(x.shape) for x in (Q, K, V))
    return of_Q, of_K, of_V


def keep(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.rest = inputs[8:]
    ctx.save_for_backward(*inputs[:8], *output)


def send_back(ctx: Any, of_output: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    Q, K, V, real, documents, given, bias, by_distance, output, lse = ctx.saved_tensors
    parts = (real, documents, given, bias, by_distance)
    sent = torch.ops.transom.attention_backward(Q, K, V, output, lse, of_output, *parts, *ctx.rest)
    return (*sent, *(None,) * 11)


attention.register_autograd(send_back, setup_context=keep)
