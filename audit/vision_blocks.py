"""Attention blocks of vision models, as libraries for images write them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class VisionAttention(nn.Module):
    """Self-attention over patches with one projection for Q, K and V; fused, or by hand."""

    def __init__(self, d_model: int = 24, heads: int = 3, fused: bool = True, qk_norm: bool = False) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.q_norm = nn.LayerNorm(d_model // heads) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(d_model // heads) if qk_norm else nn.Identity()

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        Q, K, V = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.q_norm(Q), self.k_norm(K), V

    def weights(self, Q: Tensor, K: Tensor) -> Tensor:
        return (Q * Q.shape[-1] ** -0.5 @ K.mT).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        Q, K, V = self.project(x)
        out = F.scaled_dot_product_attention(Q, K, V) if self.fused else self.weights(Q, K) @ V
        return self.proj(out.transpose(1, 2).flatten(2))


class VisionBlock(nn.Module):
    """A block with attention, layer scale and a feed-forward."""

    def __init__(self, attention: nn.Module, d_model: int = 24) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attn = nn.LayerNorm(d_model), nn.LayerNorm(d_model), attention
        self.mlp = nn.Sequential(nn.Linear(d_model, 37), nn.GELU(), nn.Linear(37, d_model))
        self.gamma = nn.Parameter(torch.full((d_model,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.gamma * self.attn(self.norm1(x))
        return x + self.gamma * self.mlp(self.norm2(x))


class TalkingHeadsAttention(VisionAttention):
    """Heads are mixed before and after the softmax."""

    def __init__(self) -> None:
        super().__init__(fused=False)
        self.before, self.after = nn.Linear(3, 3), nn.Linear(3, 3)

    def weights(self, Q: Tensor, K: Tensor) -> Tensor:
        scores = self.before((Q @ K.mT).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.after(scores.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ClassAttention(nn.Module):
    """The class token alone attends to all tokens."""

    def __init__(self, d_model: int = 24, heads: int = 3, fused: bool = True) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        Q = self.q(x[:, :1]).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        K, V = (map_(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for map_ in (self.k, self.v))
        out = F.scaled_dot_product_attention(Q, K, V) if self.fused else (Q @ K.mT / 8**0.5).softmax(-1) @ V
        return torch.cat([out.transpose(1, 2).flatten(2), x[:, 1:]], 1)


class WindowAttention(VisionAttention):
    """Attention inside windows of 4 × 4 patches, with a learned bias for each relative position."""

    def __init__(self, fused: bool, shifted: bool = False) -> None:
        super().__init__(fused=fused)
        self.bias = nn.Parameter(torch.randn(3, 16, 16))
        self.shift = 2 if shifted else 0

    def forward(self, x: Tensor) -> Tensor:
        batch, _, width = x.shape
        grid = x.unflatten(1, (8, 8)).roll((-self.shift, -self.shift), (1, 2))
        windows = grid.unflatten(2, (2, 4)).unflatten(1, (2, 4)).transpose(2, 3).reshape(batch * 4, 16, width)
        Q, K, V = self.project(windows)
        if self.fused:
            out = F.scaled_dot_product_attention(Q, K, V, attn_mask=self.bias)
        else:
            out = (Q @ K.mT * Q.shape[-1] ** -0.5 + self.bias).softmax(-1) @ V
        out = self.proj(out.transpose(1, 2).flatten(2)).reshape(batch, 2, 2, 4, 4, width)
        return out.transpose(2, 3).reshape(batch, 8, 8, width).roll((self.shift, self.shift), (1, 2)).flatten(1, 2)


class SpatialReductionAttention(nn.Module):
    """Keys and values come from a smaller image."""

    def __init__(self, d_model: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.kv = nn.Linear(d_model, d_model), nn.Linear(d_model, 2 * d_model)
        self.sr, self.norm = nn.Conv2d(d_model, d_model, 2, 2), nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        small = self.sr(x.mT.unflatten(-1, (8, 8))).flatten(2).mT
        K, V = self.kv(self.norm(small)).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        Q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return F.scaled_dot_product_attention(Q, K, V).transpose(1, 2).flatten(2)


class ChannelAttention(VisionAttention):
    """Cross-covariance attention: channels attend to channels."""

    def forward(self, x: Tensor) -> Tensor:
        Q, K, V = (part.mT for part in self.project(x))
        weights = (F.normalize(Q, dim=-1) @ F.normalize(K, dim=-1).mT).softmax(-1)
        return self.proj((weights @ V).permute(0, 3, 1, 2).flatten(2))


class PooledAttention(nn.Module):
    """A learned query attends to all patches and gives one vector."""

    def __init__(self, d_model: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.heads, self.latent = heads, nn.Parameter(torch.randn(1, 1, d_model))
        self.q, self.kv = nn.Linear(d_model, d_model), nn.Linear(d_model, 2 * d_model)

    def forward(self, x: Tensor) -> Tensor:
        Q = self.q(self.latent.expand(len(x), -1, -1)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        K, V = self.kv(x).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(Q, K, V).transpose(1, 2).flatten(2)


class SeparableAttention(nn.Module):
    """Linear attention of mobile networks: a softmax over tokens weighs them into one context vector."""

    def __init__(self, d_model: int = 24) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(d_model, 1 + 2 * d_model)
        self.d_model = d_model

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv_proj(x).split([1, self.d_model, self.d_model], -1)
        context = (key * query.softmax(1)).sum(1, keepdim=True)
        return value.relu() * context


class GridAttention(VisionAttention):
    """Attention over tokens that are far apart, a grid at a time (the other half of a MaxViT block)."""

    def forward(self, x: Tensor) -> Tensor:
        batch, _, width = x.shape
        grid = x.unflatten(1, (4, 2, 4, 2)).permute(0, 2, 4, 1, 3, 5).reshape(batch * 4, 16, width)
        out = super().forward(grid).reshape(batch, 2, 2, 4, 4, width)
        return out.permute(0, 3, 1, 4, 2, 5).reshape(batch, 64, width)
