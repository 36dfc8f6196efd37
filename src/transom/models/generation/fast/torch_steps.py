"""Decoding steps in PyTorch without calling modules; the beams of a prompt share keys and values."""

from collections.abc import Callable, Iterable
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transom.equations.attention import default_scale
from transom.equations.region import Region
from transom.layers import Arrangement, MultiHeadAttention
from transom.layers.attention import normalize
from transom.models.generation.decoding_steps import CachedSteps, DecodingSteps, Logits
from transom.models.generation.fast.functional import (
    BlockParts,
    VectorMap,
    as_function,
    embed_tokens,
    fused_qkv,
    unembedding_function,
)

PRUNE_EVERY = 8  # steps between two searches for keys that no row may attend to any more


class BeamRows:
    """The rows that are generated, several for each prompt, and which keys each of them may attend to.

    The rows of a prompt share one list of keys: those of the prompt, then one of each row at every step. A row may
    attend to the prompt and to the tokens that it, or the row it continues, has generated.
    """

    def __init__(self, prompts: int, length: int, real: Bool[Tensor, "batch token"] | None, like: Tensor) -> None:
        self.prompts, self.beams = prompts, 1  # beams: rows of each prompt
        self.keys, self.position = length, length - 1  # keys of each prompt, and the position of its last token
        self.key_positions = torch.arange(length, device=like.device)[None]  # of each prompt, or of any
        self.row_positions = self.key_positions[:, -1:]
        self.real_positions = None if real is None else real.sum(dim=1, keepdim=True) - 1  # counting real tokens only
        self.mask = additive_mask(real, like)  # (row, key); None if every row may attend to every key
        self.like = like

    def select(self, rows: Int[Tensor, " batch"], prompts: Int[Tensor, " any"] | None) -> None:
        """Continue with these rows; `prompts` are those that remain, if some are finished."""
        remaining = self.prompts if prompts is None else len(prompts)
        beams = len(rows) // remaining
        if beams > 1 and self.mask is None:
            self.mask = self.like.new_zeros((self.prompts * self.beams, self.keys))
        self.mask = None if self.mask is None else self.mask[rows]
        if prompts is not None:
            self.real_positions = None if self.real_positions is None else self.real_positions[prompts]
            self.key_positions = self.key_positions if len(self.key_positions) == 1 else self.key_positions[prompts]
        self.prompts, self.beams = remaining, beams

    def step(self) -> None:
        """Advance to the next position: each row gets a new key, to which only this row may attend."""
        self.position += 1
        self.real_positions = None if self.real_positions is None else self.real_positions + 1
        if self.mask is not None:
            new = self.like.new_full((self.beams, self.beams), -torch.inf).fill_diagonal_(0.0)
            self.mask = torch.cat([self.mask, new.repeat(self.prompts, 1)], dim=1)
        self.row_positions = self.key_positions.new_full((1, self.beams), self.position)
        positions = self.row_positions.expand(len(self.key_positions), -1)
        self.key_positions = torch.cat([self.key_positions, positions], dim=1)
        self.keys += self.beams

    def prune_keys(self) -> Int[Tensor, "batch keys"] | None:
        """Drop keys that no row may attend to, and return the remaining ones; None if it is not worth it yet.

        Beams have most of their past in common, and the tokens of beams that were dropped are never read again.
        """
        if self.mask is None or self.beams == 1 or self.position % PRUNE_EVERY:
            return None
        mask = self.mask.view(self.prompts, self.beams, self.keys)
        used = (mask == 0).any(dim=1)
        most = int(used.sum(dim=1).max())
        if 4 * most > 3 * self.keys:
            return None
        remaining = used.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        self.mask = mask.gather(2, remaining[:, None].expand(-1, self.beams, -1)).flatten(0, 1)
        self.key_positions = self.key_positions.expand(self.prompts, -1).gather(1, remaining)
        self.keys = most
        return remaining

    def embedding_positions(self) -> Int[Tensor, "#batch token"]:
        """The positions of this step's tokens, counting real tokens only."""
        return self.row_positions if self.real_positions is None else self.real_positions.expand(-1, self.beams)

    def attention_mask(self) -> Float[Tensor, "batch 1 token keys"] | None:
        """The mask in the shape of the scores."""
        return None if self.mask is None else self.mask.view(self.prompts, 1, self.beams, self.keys)


Vectors = Float[Tensor, "rows d_model"]
Queries = Float[Tensor, "batch heads token d_head"]
Keys = Float[Tensor, "batch kv_heads keys d_head"]
Mask = Float[Tensor, "#batch #heads #token keys"]
MANY_PROMPTS = 4  # from here on attention is two products
ROOM = 32  # steps of new keys and values in a buffer; a full one is doubled


class SharedSelfAttention:
    """One self-attention, with the keys and values of all tokens so far."""

    def __init__(self, layer: MultiHeadAttention, K: Tensor, V: Tensor, rows: BeamRows, num_beams: int) -> None:
        self.heads, self.kv_heads, self.d_head = layer.heads, layer.kv_heads, layer.d_head
        self.norms, self.scale, self.window = (layer.norm_Q, layer.norm_K), layer.scale, layer.window
        self.project, self.project_out = fused_qkv(layer), as_function(layer.W_O)
        self.positions = layer.positions if layer.positions.enters == "attention" else None
        self.rows, self.length = rows, K.shape[2]
        # Keys and values in one tensor, so that one copy writes both.
        self.kv = K.new_empty((2, len(K), self.kv_heads, self.length + ROOM * num_beams, self.d_head))
        self.kv[0, :, :, : self.length], self.kv[1, :, :, : self.length] = K, V

    def __call__(self, x: Vectors) -> Vectors:
        prompts, beams = self.rows.prompts, self.rows.beams
        heads, kv_heads = self.heads, self.kv_heads
        qkv = self.project(x).view(prompts, beams, heads + 2 * kv_heads, self.d_head).transpose(1, 2)
        if self.norms != (None, None):
            parts = qkv.split([heads, kv_heads, kv_heads], dim=1)
            qkv = torch.cat([*map(normalize, parts[:2], self.norms), parts[2]], dim=1)
        if self.positions is not None:
            rotated = self.positions.rotate(qkv[:, : heads + kv_heads], self.rows.row_positions)
            qkv = torch.cat([rotated, qkv[:, heads + kv_heads :]], dim=1)
        self.append(qkv.narrow(1, heads, 2 * kv_heads))
        K, V = self.kv.narrow(3, 0, self.length).unbind()
        return self.project_out(attend_shared(qkv.narrow(1, 0, heads), K, V, self.mask(), self.scale))

    def append(self, new: Float[Tensor, "batch heads token d_head"]) -> None:
        """Append new keys and values, which come one behind the other along the heads."""
        prompts, _, token, d_head = new.shape
        length = self.length + token
        if length > self.kv.shape[3]:
            larger = self.kv.new_empty((*self.kv.shape[:3], 2 * length, d_head))
            larger[:, :, :, : self.length] = self.kv[:, :, :, : self.length]
            self.kv = larger
        new_kv = new.view(prompts, 2, self.kv_heads, token, d_head).transpose(0, 1)
        self.kv.narrow(3, self.length, token).copy_(new_kv)
        self.length = length

    def mask(self) -> Mask | None:
        """What is added to the scores: −∞ for keys that a row may not attend to, and the bias of the positions."""
        mask = self.add_window(self.rows.attention_mask())
        bias = None if self.positions is None else self.positions.bias(self.kv.device)
        if bias is None:
            return mask
        last_row = Region((1, self.heads, 1, self.rows.position + 1), device=self.kv.device)
        # (heads, prompt, key) of what is added at each key's position, in the shape of the scores.
        by_key = bias.materialize(last_row)[0, :, 0, self.rows.key_positions].to(self.kv.dtype)
        added = by_key.transpose(0, 1)[:, :, None]
        return added if mask is None else added + mask

    def add_window(self, mask: Mask | None) -> Mask | None:
        """The mask, with −∞ for keys before the window of this step's token too."""
        if self.window is None:
            return mask
        is_outside = self.rows.key_positions <= self.rows.position - self.window
        window = torch.zeros_like(is_outside, dtype=self.kv.dtype).masked_fill(is_outside, -torch.inf)[:, None, None]
        return window if mask is None else window + mask

    def select(self, prompts: Int[Tensor, " any"]) -> None:
        self.kv = self.kv[:, prompts]

    def keep_keys(self, keys: Int[Tensor, "batch keys"]) -> None:
        """Drop all other keys and their values."""
        indices = keys[None, :, None, :, None].expand(2, -1, self.kv_heads, -1, self.d_head)
        self.kv, self.length = self.kv.gather(3, indices), keys.shape[1]


class SharedCrossAttention:
    """One cross-attention, with the keys and values of its source."""

    def __init__(self, layer: MultiHeadAttention, K: Tensor, V: Tensor, mask: Tensor | None, rows: BeamRows) -> None:
        self.heads, self.d_head, self.norm, self.scale = layer.heads, layer.d_head, layer.norm_Q, layer.scale
        self.project, self.project_out = as_function(layer.W_Q), as_function(layer.W_O)
        self.K, self.V, self.mask, self.rows = K.contiguous(), V.contiguous(), mask, rows

    def __call__(self, x: Vectors) -> Vectors:
        Q = self.project(x).view(self.rows.prompts, self.rows.beams, self.heads, self.d_head).transpose(1, 2)
        return self.project_out(attend_shared(normalize(Q, self.norm), self.K, self.V, self.mask, self.scale))

    def select(self, prompts: Int[Tensor, " any"]) -> None:
        self.K, self.V = self.K[prompts], self.V[prompts]
        self.mask = None if self.mask is None else self.mask[prompts]


def attend_shared(Q: Queries, K: Keys, V: Keys, mask: Mask | None, scale: float | None) -> Float[Tensor, "rows d_out"]:
    """The outputs of the heads, side by side."""
    prompts, heads, beams, d_head = Q.shape
    if prompts < MANY_PROMPTS or Q.device.type != "cpu" or Q.dtype not in (torch.float32, torch.float64):
        output = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, scale=scale, enable_gqa=heads != K.shape[1])
    else:
        # A few queries over a short past for each of many prompts: two small products take half the time of the fused
        # kernel, which takes one after the other. Heads that share keys are queries of one product.
        K, V = K.flatten(0, 1), V.flatten(0, 1)
        queries = Q.reshape(len(K), heads * prompts // len(K) * beams, d_head)
        scale = default_scale(d_head) if scale is None else scale
        scores = torch.baddbmm(Q.new_empty(()), queries, K.mT, beta=0, alpha=scale)
        if mask is not None:
            scores.view(prompts, heads, beams, K.shape[1]).add_(mask)
        output = torch.bmm(scores.softmax(dim=2), V).view(prompts, heads, beams, d_head)
    return output.transpose(1, 2).reshape(prompts * beams, heads * d_head)


class TorchSteps(DecodingSteps):
    """The rows of one prompt lie side by side, as queries over common keys and values with a mask.

    So nothing is copied when beams are reordered, and a source is kept once for all of them.
    """

    def __init__(self, cached: CachedSteps, num_beams: int) -> None:
        model, cache = cached.model, cached.cache
        prompts, unembedding = len(cached.prompt), model.unembedding
        self.rows = BeamRows(prompts, cache.length, cached.real, unembedding)
        self.embedding, self.final_norm = model.embedding, as_function(model.stack.closing)
        self.unembed = unembedding_function(unembedding, prompts * num_beams, model.logits_bias)
        self.logits_scale = model.logits_scale
        source_mask = additive_mask(cached.source_real, unembedding)
        source_mask = None if source_mask is None else source_mask[:, None, None]
        self.self_attentions: list[SharedSelfAttention] = []
        self.cross_attentions: list[SharedCrossAttention] = []
        self.blocks: list[Callable[[Tensor], Tensor]] = []
        for block, block_cache in zip(cast("Iterable[Arrangement]", model.stack.blocks), cache.blocks, strict=True):
            attention = SharedSelfAttention(block.attention, *block_cache.attention.kv, self.rows, num_beams)
            self.self_attentions.append(attention)
            cross = None
            if block.cross is not None and block_cache.cross.kv is not None:
                cross = SharedCrossAttention(block.cross, *block_cache.cross.kv, source_mask, self.rows)
                self.cross_attentions.append(cross)
            self.blocks.append(block_function(block, attention, cross))

    def next(self, tokens: Int[Tensor, " batch"]) -> Logits:
        remaining = self.rows.prune_keys()
        if remaining is not None:
            for attention in self.self_attentions:
                attention.keep_keys(remaining)
        self.rows.step()
        tokens = tokens.view(self.rows.prompts, self.rows.beams)
        x = embed_tokens(self.embedding, tokens, self.rows.embedding_positions())
        for block in self.blocks:
            x = block(x)
        hidden = self.final_norm(x)
        return self.unembed(hidden if self.logits_scale == 1.0 else hidden * self.logits_scale)

    def select(self, rows: Int[Tensor, " batch"], prompts: Int[Tensor, " any"] | None = None) -> None:
        self.rows.select(rows, prompts)
        if prompts is not None:
            for attention in (*self.self_attentions, *self.cross_attentions):
                attention.select(prompts)


def block_function(block: Arrangement, attention: VectorMap, cross: VectorMap | None) -> Callable[[Tensor], Tensor]:
    """A block by its own equation, over functions in place of modules."""
    norms = {f"norm_{part}": as_function(getattr(block, f"norm_{part}", nn.Identity())) for part in block.normed}
    combine, parts, feed_forward = type(block).combine, BlockParts(block, norms), as_function(block.feed_forward)
    return lambda x: combine(parts, x, attention, cross, feed_forward)  # pyright: ignore[reportArgumentType]


def additive_mask(real: Bool[Tensor, "batch token"] | None, like: Tensor) -> Float[Tensor, "batch token"] | None:
    """0 for real tokens, −∞ for padding: what is added to the scores."""
    return None if real is None else like.new_zeros(real.shape).masked_fill(~real, -torch.inf)
