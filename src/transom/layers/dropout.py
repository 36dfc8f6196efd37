"""Dropout with one random byte per number.

PyTorch draws a 64-bit random number for each, which on a CPU takes a good part of every training step of a small
model. One byte each is eight times fewer, and rounds the share to a multiple of 1/256.
"""

import torch
from torch import Tensor, nn

from transom.layers.checks import check_share

STEPS = 256


class Dropout(nn.Module):
    """In training, set numbers to 0 with probability `share` and scale up the others, so that the mean stays."""

    def __init__(self, share: float) -> None:
        super().__init__()
        check_share("dropout", share)
        self.share = share
        self.dropped = min(STEPS - 1, round(share * STEPS)) or (1 if share > 0.0 else 0)  # of 256

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.dropped == 0:
            return x
        mask = random_bytes(x) >= self.dropped
        # Scaled by the rounded share, so that the mean is exact.
        return x * mask.to(x.dtype).mul_(STEPS / (STEPS - self.dropped))

    def extra_repr(self) -> str:
        return f"{self.share}"


def random_bytes(like: Tensor) -> Tensor:
    """A random byte for each number, from torch's generator of that device."""
    integers = torch.empty((like.numel() + 7) // 8, dtype=torch.int64, device=like.device).random_(-(2**63), None)
    return integers.view(torch.uint8)[: like.numel()].view(like.shape)
