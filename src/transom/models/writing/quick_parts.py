"""The attentions of quick steps: queries of all rows of a prompt, over keys and values that these share."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from transom.equations.blocks import Block
from transom.layers import MultiHeadAttention
from transom.models.writing.bare import bare, joined
from transom.models.writing.rows import Rows

Vectors = Float[Tensor, "rows d_model"]
Queries = Float[Tensor, "batch heads token d_head"]
Held = Float[Tensor, "batch kv_heads keys d_head"]
Mask = Float[Tensor, "#batch #heads #token keys"]
MANY = 4  # prompts, from which on attention is two products
ROOM = 32  # steps of new keys and values; doubled when it is full


class OwnPast:
    """One self-attention, with the keys and values of all that was written."""

    def __init__(self, layer: MultiHeadAttention, K: Tensor, V: Tensor, rows: Rows, beams: int) -> None:
        self.heads, self.kv_heads, self.d_head = layer.heads, layer.kv_heads, layer.d_head
        self.project, self.close = joined(layer), bare(layer.W_O)
        self.positions = layer.positions if layer.positions.enters == "attention" else None
        self.rows, self.length = rows, K.shape[2]
        # Keys and values in one tensor, written by one copy; the heads of all prompts lie behind each other.
        self.held = K.new_empty((2, len(K), self.kv_heads, self.length + ROOM * beams, self.d_head))
        self.held[0, :, :, : self.length], self.held[1, :, :, : self.length] = K, V

    def __call__(self, x: Vectors) -> Vectors:
        entries, times = self.rows.entries, self.rows.times
        heads, kv_heads = self.heads, self.kv_heads
        folded = self.project(x).view(entries, times, heads + 2 * kv_heads, self.d_head).transpose(1, 2)
        if self.positions is not None:
            turned = self.positions.turned(folded[:, : heads + kv_heads], self.rows.here)
            folded = torch.cat([turned, folded[:, heads + kv_heads :]], dim=1)
        self.write(folded.narrow(1, heads, 2 * kv_heads))
        K, V = self.held.narrow(3, 0, self.length).unbind()
        return self.close(attended(folded.narrow(1, 0, heads), K, V, self.mask()))

    def write(self, new: Float[Tensor, "batch heads token d_head"]) -> None:
        """Put new keys and values, the ones behind the others in each entry, behind those that are held."""
        entries, _, token, d_head = new.shape
        length = self.length + token
        if length > self.held.shape[3]:
            room = self.held.new_empty((*self.held.shape[:3], 2 * length, d_head))
            room[:, :, :, : self.length] = self.held[:, :, :, : self.length]
            self.held = room
        both = new.view(entries, 2, self.kv_heads, token, d_head).transpose(0, 1)
        self.held.narrow(3, self.length, token).copy_(both)
        self.length = length

    def mask(self) -> Mask | None:
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
        self.held = self.held[:, entries]

    def keep(self, kept: Int[Tensor, "batch keys"]) -> None:
        """Go on with these keys and values alone."""
        places = kept[None, :, None, :, None].expand(2, -1, self.kv_heads, -1, self.d_head)
        self.held, self.length = self.held.gather(3, places), kept.shape[1]


class Source:
    """One cross-attention, with the keys and values of its source."""

    def __init__(self, layer: MultiHeadAttention, K: Tensor, V: Tensor, mask: Tensor | None, rows: Rows) -> None:
        self.heads, self.d_head = layer.heads, layer.d_head
        self.project, self.close = bare(layer.W_Q), bare(layer.W_O)
        self.K, self.V, self.mask, self.rows = K.contiguous(), V.contiguous(), mask, rows

    def __call__(self, x: Vectors) -> Vectors:
        Q = self.project(x).view(self.rows.entries, self.rows.times, self.heads, self.d_head).transpose(1, 2)
        return self.close(attended(Q, self.K, self.V, self.mask))

    def keep(self, kept: Int[Tensor, "batch keys"]) -> None:
        """A source stays whole."""

    def select(self, entries: Int[Tensor, " any"]) -> None:
        self.K, self.V = self.K[entries], self.V[entries]
        self.mask = None if self.mask is None else self.mask[entries]


def attended(Q: Queries, K: Held, V: Held, mask: Mask | None) -> Float[Tensor, "rows d_out"]:
    """What the heads found, side by side."""
    entries, heads, times, d_head = Q.shape
    if entries < MANY or Q.device.type != "cpu" or Q.dtype not in (torch.float32, torch.float64):
        found = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, enable_gqa=heads != K.shape[1])
        return found.transpose(1, 2).reshape(entries * times, heads * d_head)
    # A few queries over a short past for each of many prompts: two small products take half the time of the fused
    # kernel, which goes from one to the next. Heads that share keys are queries of one product.
    K, V = K.flatten(0, 1), V.flatten(0, 1)
    queries = Q.reshape(len(K), heads * entries // len(K) * times, d_head)
    scores = torch.baddbmm(Q.new_empty(()), queries, K.mT, beta=0, alpha=d_head**-0.5)
    if mask is not None:
        scores.view(entries, heads, times, K.shape[1]).add_(mask)
    found = torch.bmm(scores.softmax(dim=2), V).view(entries, heads, times, d_head)
    return found.transpose(1, 2).reshape(entries * times, heads * d_head)
