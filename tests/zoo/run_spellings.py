"""The same attention, run in other ways: threads, compilers, nested tensors, functions of one's own."""

from functools import partial
from threading import Thread

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from zoo.plain_spellings import matmul
from zoo.spellings import BATCH, HEADS, spelling


@spelling("exact")
def in_another_thread(Q, K, V):
    results: list[Tensor] = []

    def work():
        with torch.set_grad_enabled(False):
            results.append(matmul(Q, K, V))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    return results[0]


@spelling("exact")
def checkpointed(Q, K, V):
    return checkpoint(matmul, Q, K, V, use_reentrant=False)


@spelling("exact")
def mapped_over_the_batch(Q, K, V):
    return torch.vmap(matmul)(Q, K, V)


@spelling("exact")
def under_autocast(Q, K, V):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        return matmul(Q, K, V)


class OwnFunction(torch.autograd.Function):
    """Attention with a backward pass of its own."""

    @staticmethod
    def forward(ctx, Q, K, V):
        return matmul(Q, K, V)

    @staticmethod
    def backward(ctx, gradient):
        return None, None, gradient


@spelling("exact")
def own_autograd_function(Q, K, V):
    return OwnFunction.apply(Q, K, V)


@torch.library.custom_op("spellings::attention", mutates_args=())
def own_operator_of(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return matmul(Q, K, V)


@spelling("exact")
def own_operator(Q, K, V):
    return own_operator_of(Q, K, V)


@spelling("exact")
def jagged_nested_tensor(Q, K, V):
    q, k, v = (
        torch.nested.nested_tensor(list(x.transpose(1, 2)), layout=torch.jagged).transpose(1, 2) for x in (Q, K, V)
    )
    return torch.stack(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).unbind()).transpose(1, 2)


@spelling("exact")
def strided_nested_tensor(Q, K, V):
    q, k, v = (torch.nested.nested_tensor(list(x)) for x in (Q, K, V))
    return F.scaled_dot_product_attention(q, k, v).to_padded_tensor(0.0)


@spelling("exact")
def fused_with_three_axes(Q, K, V):
    q, k, v = (x.flatten(0, 1) for x in (Q, K, V))
    return F.scaled_dot_product_attention(q, k, v).unflatten(0, (BATCH, HEADS))


@spelling("exact")
def fused_with_five_axes(Q, K, V):
    return F.scaled_dot_product_attention(Q[None], K[None], V[None])[0]


@spelling("exact")
def fused_chunks_of_queries(Q, K, V):
    return torch.cat([F.scaled_dot_product_attention(part, K, V) for part in Q.split(3, 2)], 2)


compiled = torch.compile(matmul, backend="aot_eager")  # the compiler's graph, run operator by operator


@spelling("exact")
def compiled_by_hand(Q, K, V):
    return compiled(Q, K, V)


@spelling("exact")
def partly_applied(Q, K, V):
    return partial(matmul, Q)(K, V)
