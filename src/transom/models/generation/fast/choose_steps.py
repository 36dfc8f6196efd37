"""Choice of the decoding steps: native, in PyTorch without modules, or through the model's forward pass.

At one token the layers' checks and their caches for every row take longer than the arithmetic.
"""

from collections.abc import Iterable
from typing import cast

from torch import nn

from transom.layers import ARRANGEMENTS, Arrangement, Embedding, MultiHeadAttention, Stack
from transom.models.generation.decoding_steps import (
    CachedSteps,
    DecodingModel,
    DecodingSteps,
    StepLogits,
    has_hooks,
)
from transom.models.generation.fast.native_steps import make_native_steps
from transom.models.generation.fast.torch_steps import TorchSteps, block_function

# The parts of an attention and of a block that the fast steps compute; norms are listed by their block.
ATTENTION_PARTS = {"W_Q", "W_K", "W_V", "W_O", "norm_Q", "norm_K", "positions"}
BLOCK_PARTS = {"attention", "cross", "feed_forward", "dropout"}


def start_fastest_steps(cached: CachedSteps, num_beams: int) -> tuple[DecodingSteps, StepLogits]:
    """Read the prompts: the fastest steps that give the same results, and the first logits.

    The forward pass stays in use if a hook needs it, if the model has parts that the fast steps do not know, or if a
    source is all padding.
    """
    source_real = cached.source_real
    all_padding = source_real is not None and not bool(source_real.any(dim=1).all())
    if all_padding or has_hooks(cast("nn.Module", cached.model)) or not has_known_parts(cached.model):
        return cached, cached.first()
    # A prompt of one token is not read by a forward pass: the first native step reads it.
    short = cached.prompt.shape[1] == 1 and cached.real is None
    if short:
        cached.model.embedding.lookup(cached.prompt)  # raises an error for a token outside the vocabulary
        cached.fill_cross_caches()
    logits = None if short else cached.first()
    native = make_native_steps(cached, num_beams)
    if not isinstance(native, str):
        return native, native.next(cached.prompt[:, 0]) if logits is None else logits
    logits = cached.first() if logits is None else logits
    return TorchSteps(cached, num_beams), logits


def has_known_parts(model: DecodingModel) -> bool:
    """Whether the fast steps compute all that the forward pass does: nobody changed its layers or added to them.

    A block may combine its parts by an equation of its own: `combine` may use the parts it is given, the block's norms
    and its numbers, and no other module. Norms, feed-forwards, projections and positions may be of any class, since the
    fast steps call those that they do not know.
    """
    blocks = cast("Iterable[Arrangement]", model.stack.blocks)
    return type(model.embedding) is Embedding and type(model.stack) is Stack and all(map(is_known_block, blocks))


def is_known_block(block: Arrangement) -> bool:
    parts = BLOCK_PARTS | {f"norm_{part}" for part in block.normed}
    attentions = [attention for attention in (block.attention, block.cross) if attention is not None]
    return (
        type(block).forward is Arrangement.forward
        and set(block._modules) <= parts
        and all(type(one) is MultiHeadAttention and set(one._modules) <= ATTENTION_PARTS for one in attentions)
        and (type(block) in ARRANGEMENTS.values() or combines_given_parts(block))
    )


def combines_given_parts(block: Arrangement) -> bool:
    """Whether the equation of a block works on vectors alone, tried with parts that do nothing."""
    x = block.attention.W_O.weight.new_zeros(1, block.d_model)
    cross = None if block.cross is None else nn.Identity()
    try:
        block_function(block, nn.Identity(), cross)(x)
    except Exception:  # whatever it needs, the forward pass has it
        return False
    return True
