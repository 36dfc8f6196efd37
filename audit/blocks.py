"""Blocks that the audit judges beside models: PyTorch's own layers, and those of image and diffusion libraries."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from audit.diffusion_blocks import CrossAttention, DenoisingBlock, ImageAttention, JointAttention, TemporalAttention
from audit.subject import Subject, seed_all
from audit.vision_blocks import (
    ChannelAttention,
    ClassAttention,
    GridAttention,
    PooledAttention,
    SeparableAttention,
    SpatialReductionAttention,
    TalkingHeadsAttention,
    VisionAttention,
    VisionBlock,
    WindowAttention,
)

D_MODEL, HEADS, TOKENS = 24, 3, 11


@dataclass
class Block:
    """How to build a module, and what it is called with."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    options: dict[str, Any] = field(default_factory=dict)


def tokens(count: int = TOKENS) -> Tensor:
    return torch.randn(2, count, D_MODEL)


def once(count: int = TOKENS) -> Callable[[], tuple[Any, ...]]:
    return lambda: (tokens(count),)


def thrice() -> tuple[Any, ...]:
    x = tokens()
    return x, x, x


def crossed() -> tuple[Any, ...]:
    memory = tokens(7)
    return tokens(), memory, memory


def mha(**options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.MultiheadAttention(D_MODEL, HEADS, **({"batch_first": True} | options))


def encoder_layer(**options: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(D_MODEL, HEADS, 37, batch_first=True, **options)


PADDING = torch.arange(TOKENS)[None] >= torch.tensor([[TOKENS], [7]])
CAUSAL = nn.Transformer.generate_square_subsequent_mask(TOKENS)

# PyTorch's own.
TORCH = {
    "MultiheadAttention": Block(mha(), thrice, {"need_weights": False}),
    "MultiheadAttention, weights asked for": Block(mha(), thrice),
    "MultiheadAttention, weights per head": Block(mha(), thrice, {"average_attn_weights": False}),
    "MultiheadAttention, sequence first": Block(mha(batch_first=False), thrice),
    "MultiheadAttention, to a memory": Block(mha(), crossed, {"need_weights": False}),
    "MultiheadAttention, keys of other widths": Block(
        mha(kdim=5, vdim=7), lambda: (tokens(), torch.randn(2, 13, 5), torch.randn(2, 13, 7))
    ),
    "MultiheadAttention, bias and zero keys": Block(mha(add_bias_kv=True, add_zero_attn=True), thrice),
    "MultiheadAttention, padded": Block(mha(), thrice, {"key_padding_mask": PADDING, "need_weights": False}),
    "MultiheadAttention, causal": Block(mha(), thrice, {"attn_mask": CAUSAL, "need_weights": False}),
    "TransformerEncoder": Block(lambda: nn.TransformerEncoder(encoder_layer(), 2), once()),
    "TransformerEncoder, padded": Block(
        lambda: nn.TransformerEncoder(encoder_layer(), 2), once(), {"src_key_padding_mask": PADDING}
    ),
    "TransformerEncoder, norm first": Block(
        lambda: nn.TransformerEncoder(encoder_layer(norm_first=True), 2, enable_nested_tensor=False), once()
    ),
    "TransformerEncoder, causal": Block(
        lambda: nn.TransformerEncoder(encoder_layer(), 2, enable_nested_tensor=False),
        once(),
        {"mask": CAUSAL, "is_causal": True},
    ),
    "TransformerDecoder": Block(
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(D_MODEL, HEADS, 37, batch_first=True), 2),
        lambda: (tokens(7), tokens()),
    ),
    "Transformer": Block(
        lambda: nn.Transformer(D_MODEL, HEADS, 2, 2, 37, batch_first=True), lambda: (tokens(), tokens(7))
    ),
}
VISION = {
    "ViT block, fused": Block(lambda: VisionBlock(VisionAttention()), once()),
    "ViT block, by hand": Block(lambda: VisionBlock(VisionAttention(fused=False)), once()),
    "ViT block, normalised Q and K": Block(lambda: VisionBlock(VisionAttention(qk_norm=True)), once()),
    "talking heads": Block(lambda: VisionBlock(TalkingHeadsAttention()), once()),
    "class attention, fused": Block(lambda: VisionBlock(ClassAttention()), once()),
    "class attention, by hand": Block(lambda: VisionBlock(ClassAttention(fused=False)), once()),
    "window attention, fused": Block(lambda: VisionBlock(WindowAttention(True)), once(64)),
    "window attention, shifted, by hand": Block(lambda: VisionBlock(WindowAttention(False, True)), once(64)),
    "grid attention": Block(lambda: VisionBlock(GridAttention()), once(64)),
    "spatial reduction": Block(lambda: VisionBlock(SpatialReductionAttention()), once(64)),
    "channel attention": Block(lambda: VisionBlock(ChannelAttention()), once()),
    "attention pooling": Block(PooledAttention, once()),
    "separable attention": Block(lambda: VisionBlock(SeparableAttention()), once()),
}
DIFFUSION = {
    "denoising block, fused": Block(DenoisingBlock, lambda: (tokens(16), tokens(7))),
    "denoising block, baddbmm": Block(lambda: DenoisingBlock("added"), lambda: (tokens(16), tokens(7))),
    "denoising block, sliced": Block(lambda: DenoisingBlock("sliced"), lambda: (tokens(16), tokens(7))),
    "denoising block, linear": Block(lambda: DenoisingBlock("linear"), lambda: (tokens(16), tokens(7))),
    "cross-attention alone": Block(CrossAttention, lambda: (tokens(), tokens(7))),
    "autoencoder attention, convolutions": Block(lambda: ImageAttention(True), lambda: (torch.randn(2, 24, 4, 5),)),
    "autoencoder attention, linear maps": Block(lambda: ImageAttention(False), lambda: (torch.randn(2, 24, 4, 5),)),
    "joint attention of text and image": Block(JointAttention, lambda: (tokens(16), tokens(7))),
    "temporal attention": Block(TemporalAttention, lambda: (torch.randn(2, 5, 6, D_MODEL),)),
}
BLOCKS: dict[str, Block] = {
    f"{library}: {name}": block
    for library, blocks in (("torch.nn", TORCH), ("vision", VISION), ("diffusion", DIFFUSION))
    for name, block in blocks.items()
}


def build_block(block: Block) -> Subject:
    """A block with random parameters, in evaluation mode."""
    seed_all()
    model = block.build().eval()
    size = sum(parameter.numel() for parameter in model.parameters())
    return Subject(model, block.options, block.inputs(), notes={"class": type(model).__name__, "parameters": size})
