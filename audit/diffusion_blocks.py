"""Attention blocks of diffusion models, as libraries for image generation write them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CrossAttention(nn.Module):
    """to_q, to_k, to_v, to_out; how the attention itself is computed is a part of its own."""

    def __init__(self, process: str = "fused", d_model: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.heads, self.process = heads, process
        self.to_q, self.to_k, self.to_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.to_out = nn.Sequential(nn.Linear(d_model, d_model), nn.Dropout(0.0))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        context = x if context is None else context
        Q, K, V = self.to_q(x), self.to_k(context), self.to_v(context)
        return self.to_out(getattr(self, self.process)(Q, K, V))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def fused(self, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(self.split(Q), self.split(K), self.split(V)).transpose(1, 2).flatten(2)

    def added(self, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        """Batch and heads in one axis, scores by baddbmm."""
        q, k, v = (self.split(x).flatten(0, 1) for x in (Q, K, V))
        empty = torch.empty(q.shape[0], q.shape[1], k.shape[1])
        weights = torch.baddbmm(empty, q, k.mT, beta=0, alpha=q.shape[-1] ** -0.5).softmax(-1)
        return (weights @ v).unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2)

    def sliced(self, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        """One slice of batch and heads after the other, into one output."""
        q, k, v = (self.split(x).flatten(0, 1) for x in (Q, K, V))
        out = torch.zeros(q.shape[0], q.shape[1], v.shape[2])
        for first in range(0, len(q), 2):
            part = slice(first, first + 2)
            out[part] = (q[part] @ k[part].mT * q.shape[-1] ** -0.5).softmax(-1) @ v[part]
        return out.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2)

    def linear(self, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        """Linear attention with rectified Q and K."""
        q, k, v = (self.split(x) for x in (Q.relu(), K.relu(), V))
        total = q @ k.sum(-2, keepdim=True).mT
        return ((q @ (k.mT @ v)) / (total + 1e-6)).transpose(1, 2).flatten(2)


class DenoisingBlock(nn.Module):
    """Self-attention, cross-attention to a text, a feed-forward."""

    def __init__(self, process: str = "fused", d_model: int = 24) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.attn1, self.attn2 = CrossAttention(process), CrossAttention(process)
        self.ff = nn.Sequential(nn.Linear(d_model, 37), nn.GELU(), nn.Linear(37, d_model))

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class ImageAttention(nn.Module):
    """One head over all pixels, as in an autoencoder: a group norm, convolutions or linear maps, a residual."""

    def __init__(self, by_convolution: bool, channels: int = 24) -> None:
        super().__init__()
        self.group_norm = nn.GroupNorm(4, channels)
        self.q, self.k, self.v, self.proj_out = (
            nn.Conv2d(channels, channels, 1) if by_convolution else nn.Linear(channels, channels) for _ in range(4)
        )
        self.by_convolution = by_convolution

    def forward(self, image: Tensor) -> Tensor:
        h = self.group_norm(image)
        if not self.by_convolution:
            Q, K, V = (map_(h.flatten(2).mT)[:, None] for map_ in (self.q, self.k, self.v))
            out = self.proj_out(F.scaled_dot_product_attention(Q, K, V)[:, 0]).mT
            return image + out.reshape(image.shape)
        q, k, v = (map_(h).flatten(2) for map_ in (self.q, self.k, self.v))
        weights = torch.bmm(q.mT, k).mul(q.shape[1] ** -0.5).softmax(2)
        return image + self.proj_out(torch.bmm(v, weights.mT).reshape(image.shape))


class JointAttention(nn.Module):
    """Text and image tokens attend to all tokens of both; each has projections of its own."""

    def __init__(self, d_model: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv, self.add_qkv_proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, 3 * d_model)
        self.norm_q, self.norm_k = nn.RMSNorm(d_model // heads), nn.RMSNorm(d_model // heads)

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        both = torch.cat([self.to_qkv(image), self.add_qkv_proj(text)], 1)
        Q, K, V = both.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        out = F.scaled_dot_product_attention(self.norm_q(Q), self.norm_k(K), V)
        return out.transpose(1, 2).flatten(2)


class TemporalAttention(nn.Module):
    """Each pixel attends over the frames of a video."""

    def __init__(self, d_model: int = 24) -> None:
        super().__init__()
        self.attn = CrossAttention("fused", d_model)

    def forward(self, video: Tensor) -> Tensor:
        batch, frames, pixels, width = video.shape
        rows = video.transpose(1, 2).reshape(batch * pixels, frames, width)
        return self.attn(rows).reshape(batch, pixels, frames, width).transpose(1, 2)
