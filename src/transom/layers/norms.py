"""Norms, each built by `NORMS[name](d_model)`: PyTorch's own (the equations are in `transom.equations.norms`)."""

from collections.abc import Callable
from functools import partial

from torch import nn

Norm = Callable[[int], nn.Module]

# RMSNorm's own ε follows the dtype, so that the same parameters would mean another function in half precision.
NORMS: dict[str, Norm] = {"layer": nn.LayerNorm, "rms": partial(nn.RMSNorm, eps=1e-5)}
