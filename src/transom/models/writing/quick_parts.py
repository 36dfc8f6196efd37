"""The attentions of quick steps: queries of all rows of a prompt, over keys and values that these share."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from transom.equations.blocks import Block
from transom.layers import MultiHeadAttention
from transom.models.writing.bare import bare, joined
from transom.models.writing.rows import Rows

Vectors = Float[Tensor, "batch token d_model"]
ROOM = 32  # for new keys and values; doubled when it is full


class OwnPast:
    """One self-attention, with the keys and values of all that was written."""

    def __init__(self, layer: MultiHeadAttention, K: Tensor, V: Tensor, rows: Rows) -> None:
        self.heads, self.kv_heads, self.d_head = layer.heads, layer.kv_heads, layer.d_head
        self.project, self.close = joined(layer), bare(layer.W_O)
        self.positions = layer.positions if layer.positions.enters == "attention" else None
        self.rows, self.length = rows, K.shape[2]
        # Keys and values side by side, so that they are written by one copy: (batch, 2 · kv_heads, room, d_head).
        self.held = K.new_empty((len(K), 2 * self.kv_heads, self.length + ROOM, self.d_head))
        self.held[:, : self.kv_heads, : self.length], self.held[:, self.kv_heads :, : self.length] = K, V

    def __call__(self, x: Vectors) -> Vectors:
        batch, token = x.shape[:2]
        heads, kv_heads = self.heads, self.kv_heads
        folded = self.project(x).view(batch, token, heads + 2 * kv_heads, self.d_head).transpose(1, 2)
        if self.positions is not None:
            turned = self.positions.turned(folded[:, : heads + kv_heads], self.rows.here)
            folded = torch.cat([turned, folded[:, heads + kv_heads :]], dim=1)
        self.write(folded.narrow(1, heads, 2 * kv_heads))
        held = self.held.narrow(2, 0, self.length)
        K, V = held.narrow(1, 0, kv_heads), held.narrow(1, kv_heads, kv_heads)
        return self.close(attended(folded.narrow(1, 0, heads), K, V, self.mask()))

    def write(self, new: Float[Tensor, "batch heads token d_head"]) -> None:
        """Put new keys and values behind the others."""
        length = self.length + new.shape[2]
        if length > self.held.shape[2]:
            room = self.held.new_empty((*self.held.shape[:2], 2 * length, self.d_head))
            room[:, :, : self.length] = self.held[:, :, : self.length]
            self.held = room
        self.held.narrow(2, self.length, new.shape[2]).copy_(new)
        self.length = length

    def mask(self) -> Float[Tensor, "#batch #heads #token keys"] | None:
        """What is added to the scores: −∞ where a row may not look, and what the positions say."""
        allowed = self.rows.allowed()
        bias = None if self.positions is None else self.positions.bias(self.held.device)
        if bias is None:
            return allowed
        last = Block((1, self.heads, 1, self.rows.position + 1), device=self.held.device)
        # (heads, prompt, key) of what is added at each key's position, seen as the scores are.
        added = bias.added(last)[0, :, 0, self.rows.places].to(self.held.dtype).transpose(0, 1)[:, :, None]
        return added if allowed is None else added + allowed

    def select(self, entries: Int[Tensor, " any"]) -> None:
        self.held = self.held[entries]

    def keep(self, kept: Int[Tensor, "batch keys"]) -> None:
        """Go on with these keys and values alone."""
        places = kept[:, None, :, None].expand(-1, self.held.shape[1], -1, self.d_head)
        self.held, self.length = self.held.gather(2, places), kept.shape[1]


class Source:
    """One cross-attention, with the keys and values of its source."""

    def __init__(self, layer: MultiHeadAttention, K: Tensor, V: Tensor, mask: Tensor | None) -> None:
        self.heads, self.d_head = layer.heads, layer.d_head
        self.project, self.close = bare(layer.W_Q), bare(layer.W_O)
        self.K, self.V, self.mask = K, V, mask

    def __call__(self, x: Vectors) -> Vectors:
        Q = self.project(x).view(x.shape[0], x.shape[1], self.heads, self.d_head).transpose(1, 2)
        return self.close(attended(Q, self.K, self.V, self.mask))

    def keep(self, kept: Int[Tensor, "batch keys"]) -> None:
        """A source stays whole."""

    def select(self, entries: Int[Tensor, " any"]) -> None:
        self.K, self.V = self.K[entries], self.V[entries]
        self.mask = None if self.mask is None else self.mask[entries]


def attended(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None) -> Float[Tensor, "batch token any"]:
    """What the heads found, side by side."""
    shared = Q.shape[1] != K.shape[1]
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, enable_gqa=shared).transpose(1, 2).flatten(2)
