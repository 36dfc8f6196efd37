"""The native engine as operators of torch, with gradients and fake tensors: torch.compile and export see them whole."""

from ctypes import addressof, byref, c_int32
from typing import Any

import torch
from torch import Tensor

from transom.kernels import library
from transom.kernels.library import Attention, Either, Found, Gradients
from transom.kernels.tiles import finite

Kept = tuple[Tensor, ...]
Parts = tuple[Tensor | None, ...]  # the tensors of Terms
Numbers = tuple[int, int, float, float, float, int]  # ahead, behind; scale, softcap, dropout, seed

PRECISIONS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}


def dense(x: Tensor) -> Tensor:
    """x as the library reads keys and values. Rows of float32 lie one after another: kept apart, they would push each
    other out of the cache. Half precision is widened a few rows at a time anyway."""
    if x.stride(3) == 1 and (x.dtype != torch.float32 or x.stride(2) == x.shape[3]):
        return x
    return x.contiguous()


def last_dense(x: Tensor) -> Tensor:
    return x if x.stride(3) == 1 else x.contiguous()


def described(Q: Tensor, K: Tensor, V: Tensor, parts: Parts, numbers: Numbers) -> tuple[Attention, Kept]:
    """The attention as the library reads it, and the tensors that must live as long."""
    Q, K, V = last_dense(Q), dense(K), dense(V)
    (batch, heads, queries, d_head), (_, kv_heads, keys, d_value) = Q.shape, V.shape
    ahead, behind, scale, softcap, dropout, seed = numbers
    sizes = (batch, heads, kv_heads, queries, keys, d_head, d_value)
    pointers, strides = (Q.data_ptr(), K.data_ptr(), V.data_ptr()), map(library.strides, (Q, K, V))
    found = Attention(*sizes, *pointers, *strides, PRECISIONS[Q.dtype], scale, softcap, keys - queries, ahead, behind)
    found.dropout, found.seed = dropout, seed
    kept = [Q, K, V]
    if any(part is not None for part in parts):
        kept += put_parts(found, parts)
    return found, tuple(kept)


def put_parts(to: Attention, parts: Parts) -> list[Tensor]:
    """Masks and biases, and the tensors that must live as long."""
    real, documents, given, bias, by_distance, either_real, either_documents, reaches = parts
    kept = [part for part in parts if part is not None]
    for name, tensor in (("given", given), ("bias", bias)):
        if tensor is not None:
            setattr(to, name, tensor.data_ptr())
            setattr(to, f"{name}_strides", library.strides(tensor))
    if by_distance is not None:
        to.by_distance, to.by_distance_stride = by_distance.data_ptr(), by_distance.shape[1]
    if real is not None:
        to.real, to.real_strides = real.data_ptr(), library.strides(real[:, :, None])[:2]
    if documents is not None:
        kept.append(put_documents(to, documents))
    if either_real is not None and either_documents is not None and reaches is not None:
        kept += put_either(to, either_real, either_documents, reaches)
    return kept


def put_documents(to: Attention | Either, documents: Tensor) -> Tensor:
    """Documents as int32, whatever they are numbered by; what is given back must live as long."""
    numbered = documents.unique(return_inverse=True)[1].to(torch.int32)
    to.documents, to.documents_stride = numbered.data_ptr(), library.strides(numbered[:, None, None])[0]
    return numbered


def put_either(to: Attention, real: Tensor, documents: Tensor, reaches: Tensor) -> list[Tensor]:
    """Masks joined by |, and the tensors that must live as long."""
    kept = []
    to.eithers = len(reaches)
    to.either = (Either * to.eithers)()
    for n, (ahead, behind, by_document) in enumerate(reaches.tolist()):
        one = to.either[n]
        one.ahead, one.behind = ahead, behind
        one.real, one.real_strides = real[n].data_ptr(), library.strides(real[n][:, :, None])[:2]
        if by_document:
            kept.append(put_documents(one, documents[n]))
    return kept


def products(attention: Attention, widths: int) -> int:
    """Multiplications there are at most."""
    return attention.batch * attention.heads * attention.queries * attention.keys * widths


def empty_output(Q: Tensor, V: Tensor) -> Tensor:
    """Room for the output, its axes in memory ordered as Q's: heads that were split off need not be copied back."""
    batch, heads, queries, _ = Q.shape
    if Q.stride(1) < Q.stride(2):
        return Q.new_empty((batch, queries, heads, V.shape[3]), dtype=torch.float32).transpose(1, 2)
    return Q.new_empty((batch, heads, queries, V.shape[3]), dtype=torch.float32)


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
    either_real: Tensor | None,
    either_documents: Tensor | None,
    reaches: Tensor | None,
    ahead: int,
    behind: int,
    scale: float,
    softcap: float,
    dropout: float,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp, both float32; the arguments are those of Terms."""
    parts = (real, documents, given, bias, by_distance, either_real, either_documents, reaches)
    return solved(Q, K, V, parts, (ahead, behind, scale, softcap, dropout, seed))


def solved(Q: Tensor, K: Tensor, V: Tensor, parts: Parts, numbers: Numbers) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp."""
    output, lse, wild = forward(Q, K, V, parts, numbers)
    if wild and not V.isfinite().all():
        output = kept_apart(Q, K, V, (parts, numbers))
    return output, lse


def forward(Q: Tensor, K: Tensor, V: Tensor, parts: Parts, numbers: Numbers) -> tuple[Tensor, Tensor, bool]:
    """Output, log-sum-exp, and whether there is NaN or infinity in the output."""
    described_, kept = described(Q, K, V, parts, numbers)
    output, lse = empty_output(Q, V), Q.new_empty(Q.shape[:3], dtype=torch.float32)
    found, wild = Found(output.data_ptr(), library.strides(output), lse.data_ptr()), c_int32()
    found.wild = addressof(wild)
    native = library.loaded().native
    units = native.transom_forward_units(byref(described_), byref(found))
    library.run(native.transom_forward, units, products(described_, Q.shape[3] + V.shape[3]), described_, found)
    del kept
    return output, lse, bool(wild.value)


def kept_apart(Q: Tensor, K: Tensor, V: Tensor, rest: tuple) -> Tensor:
    """The output where values hold NaN or infinity, which count only for rows that give them weight: 0 · NaN is NaN."""
    output, _, _ = forward(Q, K, finite(V), *rest)
    kinds = torch.cat([V.isnan(), V.isposinf(), V.isneginf()], dim=-1).to(V.dtype)
    nan, above, below = (forward(Q, K, kinds, *rest)[0] > 0).chunk(3, dim=-1)
    output.masked_fill_(above, torch.inf).masked_fill_(below, -torch.inf)
    return output.masked_fill_(nan | (above & below), torch.nan)


@attention.register_fake
def _(Q: Tensor, K: Tensor, V: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return empty_output(Q, V), Q.new_empty(Q.shape[:3], dtype=torch.float32)


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
    either_real: Tensor | None,
    either_documents: Tensor | None,
    reaches: Tensor | None,
    ahead: int,
    behind: int,
    scale: float,
    softcap: float,
    dropout: float,
    seed: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of Q, K and V, in their precision."""
    parts = (real, documents, given, bias, by_distance, either_real, either_documents, reaches)
    return sent_back(Q, K, V, (output, lse, of_output), (parts, (ahead, behind, scale, softcap, dropout, seed)))


def sent_back(Q: Tensor, K: Tensor, V: Tensor, given: tuple, rest: tuple) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of Q, K and V; `given` is output, log-sum-exp and the gradient of the output."""
    sent, wild = backward(Q, K, V, given, rest)
    if wild and not K.isfinite().all():
        sent, _ = backward(Q, finite(K), V, given, rest)  # 0 · NaN of a masked key would be NaN
    of_Q, of_K, of_V = (x.to(Q.dtype) for x in sent)
    return of_Q, of_K, of_V


def backward(Q: Tensor, K: Tensor, V: Tensor, given: tuple, rest: tuple) -> tuple[tuple[Tensor, Tensor, Tensor], bool]:
    """The gradients in float32, and whether there is NaN or infinity in that of Q."""
    described_, kept = described(Q, K, V, *rest)
    output, lse, of_output = (x.contiguous() for x in given)
    of_Q, of_K, of_V = (torch.empty(x.shape) for x in (Q, K, V))
    native = library.loaded().native
    partial = torch.empty(native.transom_backward_numbers(byref(described_)))
    wild = c_int32()
    tensors = (output, lse, of_output, of_Q, of_K, of_V, partial)
    gradients = Gradients(*(tensor.data_ptr() for tensor in tensors), addressof(wild))
    units = native.transom_backward_units(byref(described_))
    numbers = products(described_, 3 * Q.shape[3] + 2 * V.shape[3])
    library.run(native.transom_backward, units, numbers, described_, gradients)
    del kept
    return (of_Q, of_K, of_V), bool(wild.value)


@attention_backward.register_fake
def _(Q: Tensor, K: Tensor, V: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    of_Q, of_K, of_V = (x.new_empty(x.shape) for x in (Q, K, V))
    return of_Q, of_K, of_V


def keep(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.numbers = inputs[11:]
    ctx.save_for_backward(*inputs[:3], *output, *inputs[3:11])


def send_back(ctx: Any, of_output: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    Q, K, V, output, lse, *parts = ctx.saved_tensors
    sent = torch.ops.transom.attention_backward(Q, K, V, output, lse, of_output, *parts, *ctx.numbers)
    return (*sent, *(None,) * 14)


attention.register_autograd(send_back, setup_context=keep)


class Called(torch.autograd.Function):
    """The same without the operators, which cost more than a small attention: for tensors that are just tensors."""

    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, V: Tensor, parts: Parts, numbers: Numbers) -> tuple[Tensor, Tensor]:
        output, lse = solved(Q, K, V, parts, numbers)
        ctx.numbers = numbers
        ctx.save_for_backward(Q, K, V, output, lse, *parts)
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)
        return output, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *of: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        Q, K, V, output, lse, *parts = ctx.saved_tensors
        if of[0] is None:
            return (None,) * 5
        return (*sent_back(Q, K, V, (output, lse, of[0]), (tuple(parts), ctx.numbers)), None, None)


def called(Q: Tensor, K: Tensor, V: Tensor, parts: Parts, numbers: Numbers) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp, by whichever way there is to it."""
    if not just_tensors(Q, K, V):
        return torch.ops.transom.attention(Q, K, V, *parts, *numbers)
    if torch.is_grad_enabled() and (Q.requires_grad or K.requires_grad or V.requires_grad):
        return Called.apply(Q, K, V, parts, numbers)  # pyright: ignore[reportReturnType]
    return solved(Q, K, V, parts, numbers)


def just_tensors(*tensors: Tensor) -> bool:
    """Whether nobody traces, counts or fakes what is done with them."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0:  # pyright: ignore[reportAttributeAccessIssue]
        return False
    return all(type(x) is Tensor or type(x) is torch.nn.Parameter for x in tensors)
