"""Choice of the decoding steps: native, in PyTorch without modules, or through the model's forward pass.

At one token the layers' checks and their caches for every row take longer than the arithmetic.
"""

from typing import cast

from torch import nn

from transom.models.generation.decoding_steps import CachedSteps, DecodingSteps, StepLogits, has_hooks
from transom.models.generation.fast.native_steps import make_native_steps
from transom.models.generation.fast.torch_steps import TorchSteps


def start_fastest_steps(cached: CachedSteps, num_beams: int) -> tuple[DecodingSteps, StepLogits]:
    """Read the prompts: the fastest steps that give the same results, and the first logits.

    The forward pass stays in use if a hook needs it, or if a source is all padding.
    """
    source_real = cached.source_real
    all_padding = source_real is not None and not bool(source_real.any(dim=1).all())
    if all_padding or has_hooks(cast("nn.Module", cached.model)):
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
