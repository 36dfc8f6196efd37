"""Dropout with one random byte per number.

PyTorch draws a 64-bit random number for each; in the training of a small model on a CPU that is a good part of every
step. One byte each is eight times fewer, and settles the share dropped to a 256th.
"""

import torch
from torch import Tensor, nn

from transom.layers.checks import check_dropout

STEPS = 256


class Dropout(nn.Module):
    """While training, numbers set to 0 with probability `share`, the others scaled up so that the mean stays."""

    def __init__(self, share: float) -> None:
        super().__init__()
        check_dropout(share)
        self.share = share
        self.dropped = min(STEPS - 1, round(share * STEPS)) or (1 if share > 0.0 else 0)  # of 256

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.dropped == 0:
            return x
        kept = random_bytes(x) >= self.dropped
        # Scaled by what is really kept, so that the mean is right to the last digit.
        return x * kept.to(x.dtype).mul_(STEPS / (STEPS - self.dropped))

    def extra_repr(self) -> str:
        return f"{self.share}"


def random_bytes(like: Tensor) -> Tensor:
    """A random byte for each number, from torch's generator of that device."""
    words = torch.empty((like.numel() + 7) // 8, dtype=torch.int64, device=like.device).random_(-(2**63), None)
    return words.view(torch.uint8)[: like.numel()].view(like.shape)
