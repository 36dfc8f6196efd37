"""The native engine as a PyTorch operator: forward, backward, and how torch.compile and autograd see it."""

from ctypes import addressof, byref, c_int32
from typing import Any

import torch
from torch import Tensor

from transom.kernels import native_library
from transom.kernels.native_args import DTYPE_CODES, NativeArgs, to_native_args
from transom.kernels.native_library import AttentionParams, BackwardParams, ForwardResult, OrMaskParams
from transom.kernels.problem import Problem
from transom.kernels.tiled_attention import mark_nonfinite, zero_nonfinite

References = list[Tensor]  # tensors whose memory the library reads: they must live as long as its structs

# The operators' arguments after Q, K and V: the fields of NativeArgs. Saved programs hold these names, so they stay.
NATIVE_ARGS = (
    "Tensor? real, Tensor? documents, Tensor? given, Tensor? bias, Tensor? by_distance,"
    " Tensor? either_real, Tensor? either_documents, Tensor? reaches,"
    " SymInt ahead, SymInt behind, float scale, float softcap, float dropout, SymInt seed"
)


def adjacent_rows(x: Tensor) -> Tensor:
    """Keys or values as the library reads them. Rows of float32 must be adjacent, or they would evict each other from
    the cache; half precision is widened a few rows at a time anyway."""
    if x.stride(3) == 1 and (x.dtype != torch.float32 or x.stride(2) == x.shape[3]):
        return x
    return x.contiguous()


def to_params(Q: Tensor, K: Tensor, V: Tensor, args: NativeArgs) -> tuple[AttentionParams, References]:
    """The attention as the library reads it, and the tensors that must live as long."""
    Q, K, V = Q if Q.stride(3) == 1 else Q.contiguous(), adjacent_rows(K), adjacent_rows(V)
    (batch, heads, queries, d_head), (_, kv_heads, keys, d_value) = Q.shape, V.shape
    sizes = (batch, heads, kv_heads, queries, keys, d_head, d_value)
    pointers, strides = (Q.data_ptr(), K.data_ptr(), V.data_ptr()), map(native_library.strides, (Q, K, V))
    params = AttentionParams(*sizes, *pointers, *strides, DTYPE_CODES[Q.dtype], args.scale, args.softcap)
    params.start = keys - queries
    params.window_end, params.window_begin = args.window_end, args.window_begin
    params.dropout, params.seed = args.dropout, args.seed
    return params, [Q, K, V, *set_masks_and_biases(params, args)]


def set_masks_and_biases(params: AttentionParams, args: NativeArgs) -> References:
    """Point the struct at masks and biases; returns the tensors that must live as long."""
    references = [tensor for tensor in args.tensors if tensor is not None]
    for name, tensor in (("mask", args.mask), ("bias", args.bias)):
        if tensor is not None:
            setattr(params, name, tensor.data_ptr())
            setattr(params, f"{name}_strides", native_library.strides(tensor))
    if (table := args.distance_bias) is not None:
        params.distance_bias, params.distance_bias_stride = table.data_ptr(), table.shape[1]
    if args.key_mask is not None:
        set_key_mask(params, args.key_mask)
    if args.documents is not None:
        references.append(set_documents(params, args.documents))
    return references + set_or_masks(params, args)


def set_key_mask(params: AttentionParams | OrMaskParams, key_mask: Tensor) -> None:
    params.key_mask = key_mask.data_ptr()
    params.key_mask_strides = native_library.strides(key_mask[:, :, None])[:2]


def set_documents(params: AttentionParams | OrMaskParams, documents: Tensor) -> Tensor:
    """Point the struct at the documents, numbered in int32; returns that tensor, which must live as long."""
    numbered = documents.unique(return_inverse=True)[1].to(torch.int32)
    params.documents, params.documents_stride = numbered.data_ptr(), native_library.strides(numbered[:, None, None])[0]
    return numbered


def set_or_masks(params: AttentionParams, args: NativeArgs) -> References:
    """Point the struct at the masks joined by |; returns the tensors that must live as long."""
    references: References = []
    key_masks, documents, windows = args.or_key_masks, args.or_documents, args.or_windows
    if key_masks is None or documents is None or windows is None:
        return references
    params.or_mask_count = len(windows)
    params.or_masks = (OrMaskParams * params.or_mask_count)()
    for n, (window_end, window_begin, by_document) in enumerate(windows.tolist()):
        or_mask = params.or_masks[n]
        or_mask.window_end, or_mask.window_begin = window_end, window_begin
        set_key_mask(or_mask, key_masks[n])
        if by_document:
            references.append(set_documents(or_mask, documents[n]))
    return references


def count_products(params: AttentionParams, width: int) -> int:
    """The multiplications of an attention without masks, `width` for each pair of query and key."""
    return params.batch * params.heads * params.queries * params.keys * width


def empty_output(Q: Tensor, V: Tensor) -> Tensor:
    """Memory for the output, with the axes in the order of Q's, so that merging the heads needs no copy."""
    batch, heads, queries, _ = Q.shape
    if Q.stride(1) < Q.stride(2):
        return Q.new_empty((batch, queries, heads, V.shape[3]), dtype=torch.float32).transpose(1, 2)
    return Q.new_empty((batch, heads, queries, V.shape[3]), dtype=torch.float32)


@torch.library.custom_op(
    "transom::attention",
    mutates_args=(),
    schema=f"(Tensor Q, Tensor K, Tensor V, {NATIVE_ARGS}) -> (Tensor, Tensor)",
)
def attention_operator(Q: Tensor, K: Tensor, V: Tensor, *args: Any) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp, both float32."""
    return forward_checked(Q, K, V, NativeArgs(*args))


def forward_checked(Q: Tensor, K: Tensor, V: Tensor, args: NativeArgs) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp; a NaN or infinity in V reaches only rows that give it weight."""
    output, lse, nonfinite = forward(Q, K, V, args)
    if nonfinite and not V.isfinite().all():
        output = forward_nonfinite(Q, K, V, args)
    return output, lse


def forward(Q: Tensor, K: Tensor, V: Tensor, args: NativeArgs) -> tuple[Tensor, Tensor, bool]:
    """Output, log-sum-exp, and whether there is NaN or infinity in the output."""
    params, references = to_params(Q, K, V, args)
    output, lse = empty_output(Q, V), Q.new_empty(Q.shape[:3], dtype=torch.float32)
    result, nonfinite = ForwardResult(output.data_ptr(), native_library.strides(output), lse.data_ptr()), c_int32()
    result.nonfinite = addressof(nonfinite)
    native = native_library.require_library().native
    units = native.transom_forward_units(byref(params), byref(result))
    native_library.call_in_chunks(
        native.transom_forward, units, count_products(params, Q.shape[3] + V.shape[3]), params, result
    )
    del references
    return output, lse, bool(nonfinite.value)


def forward_nonfinite(Q: Tensor, K: Tensor, V: Tensor, args: NativeArgs) -> Tensor:
    """The output for values with NaN or infinity, which count only for rows that give them weight: 0 · NaN is NaN."""
    kinds = torch.cat([V.isnan(), V.isposinf(), V.isneginf()], dim=-1).to(V.dtype)
    nan, above, below = (forward(Q, K, kinds, args)[0] > 0).chunk(3, dim=-1)
    return mark_nonfinite(forward(Q, K, zero_nonfinite(V), args)[0], nan, above, below)


@attention_operator.register_fake
def _(Q: Tensor, K: Tensor, V: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return empty_output(Q, V), Q.new_empty(Q.shape[:3], dtype=torch.float32)


@torch.library.custom_op(
    "transom::attention_backward",
    mutates_args=(),
    schema=(
        "(Tensor Q, Tensor K, Tensor V, Tensor output, Tensor lse, Tensor of_output,"
        f" {NATIVE_ARGS}) -> (Tensor, Tensor, Tensor)"
    ),
)
def attention_backward(
    Q: Tensor, K: Tensor, V: Tensor, output: Tensor, lse: Tensor, grad_output: Tensor, *args: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of Q, K and V, in their dtype."""
    return backward_checked(Q, K, V, NativeArgs(*args), output, lse, grad_output)


def backward_checked(
    Q: Tensor, K: Tensor, V: Tensor, args: NativeArgs, *outputs: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of Q, K and V; a NaN or infinity in K reaches only rows that give it weight."""
    gradients, nonfinite = backward(Q, K, V, args, *outputs)
    if nonfinite and not K.isfinite().all():
        gradients, _ = backward(Q, zero_nonfinite(K), V, args, *outputs)  # 0 · NaN of a masked key would be NaN
    dQ, dK, dV = (gradient.to(Q.dtype) for gradient in gradients)
    return dQ, dK, dV


def backward(Q: Tensor, K: Tensor, V: Tensor, args: NativeArgs, *outputs: Tensor) -> tuple[list[Tensor], bool]:
    """The gradients of Q, K and V in float32, and whether there is NaN or infinity in that of Q.

    `outputs` are the output, the log-sum-exp and the gradient of the output.
    """
    params, references = to_params(Q, K, V, args)
    dense = [x.contiguous() for x in outputs]
    gradients = [torch.empty(x.shape) for x in (Q, K, V)]
    native = native_library.require_library().native
    partial = torch.empty(native.transom_backward_partial_floats(byref(params)))
    nonfinite = c_int32()
    pointers = (tensor.data_ptr() for tensor in (*dense, *gradients, partial))
    backward_params = BackwardParams(*pointers, addressof(nonfinite))
    units = native.transom_backward_units(byref(params))
    products = count_products(params, 3 * Q.shape[3] + 2 * V.shape[3])
    native_library.call_in_chunks(native.transom_backward, units, products, params, backward_params)
    del references
    return gradients, bool(nonfinite.value)


@attention_backward.register_fake
def _(Q: Tensor, K: Tensor, V: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    dQ, dK, dV = (x.new_empty(x.shape) for x in (Q, K, V))
    return dQ, dK, dV


def save_context(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    Q, K, V, *flat = inputs
    args = NativeArgs(*flat)
    ctx.numbers = args.numbers
    ctx.save_for_backward(Q, K, V, *output, *args.tensors)


def autograd_backward(ctx: Any, grad_output: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    Q, K, V, output, lse, *tensors = ctx.saved_tensors
    args = (*tensors, *ctx.numbers)
    gradients = torch.ops.transom.attention_backward(Q, K, V, output, lse, grad_output, *args)
    return (*gradients, *(None for _ in args))


attention_operator.register_autograd(autograd_backward, setup_context=save_context)


class NativeAttentionFunction(torch.autograd.Function):
    """The same for plain tensors, without the operators: those take longer than a small attention."""

    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, V: Tensor, args: NativeArgs) -> tuple[Tensor, Tensor]:
        output, lse = forward_checked(Q, K, V, args)
        ctx.numbers = args.numbers
        ctx.save_for_backward(Q, K, V, output, lse, *args.tensors)
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)
        return output, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        Q, K, V, output, lse, *tensors = ctx.saved_tensors
        grad_output = grads[0]
        if grad_output is None:
            return None, None, None, None
        return (*backward_checked(Q, K, V, NativeArgs(*tensors, *ctx.numbers), output, lse, grad_output), None)


def native_attention(Q: Tensor, K: Tensor, V: Tensor, args: NativeArgs) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp, by the operator only if the tensors need it."""
    if not are_plain_tensors(Q, K, V):
        return torch.ops.transom.attention(Q, K, V, *args)
    if torch.is_grad_enabled() and (Q.requires_grad or K.requires_grad or V.requires_grad):
        return NativeAttentionFunction.apply(Q, K, V, args)  # pyright: ignore[reportReturnType]
    return forward_checked(Q, K, V, args)


def are_plain_tensors(*tensors: Tensor) -> bool:
    """Whether nothing traces or replaces operations on them."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0:  # pyright: ignore[reportAttributeAccessIssue]
        return False
    return all(type(x) is Tensor or type(x) is torch.nn.Parameter for x in tensors)


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp (not; −∞ for fully masked rows)."""
    output, lse = native_attention(problem.Q, problem.K, problem.V, to_native_args(problem))
    return output.to(problem.Q.dtype), lse.detach()
