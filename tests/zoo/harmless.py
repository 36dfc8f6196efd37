"""Layers that are no attention, though some part of them looks like it: a table of how to build each.

Each takes (batch, tokens, d_model) and returns one tensor. In NOTED are those that `watch` may mention as a weak hint.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, EXPERTS = 14, 4
LAYERS: dict[str, Callable[[], nn.Module]] = {}
NOTED: dict[str, str] = {}


class Maps(nn.Module):
    """A function of an input and of some linear maps; `maps` gives the width of each one's output."""

    def __init__(self, function: Callable[..., Tensor], widths: tuple[int, ...], class_name: str) -> None:
        super().__init__()
        self.function = function
        self.maps = nn.ModuleList(nn.Linear(WIDTH, width) for width in widths)
        self.__class__ = type(class_name, (Maps,), {})

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.maps)


def layer(
    *widths: int, class_name: str = "Layer", noted: str = ""
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Put a function into the table, under its name in words, with linear maps to these widths."""

    def add(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        name = function.__name__.replace("_", " ").strip()
        LAYERS[name] = lambda: Maps(function, widths, class_name)
        if noted:
            NOTED[name] = noted
        return function

    return add


# Pooling.


@layer()
def mean_pooling(x):
    return x.mean(1)


@layer()
def max_pooling(x):
    return x.amax(1)


@layer()
def generalised_mean_pooling(x):
    return x.abs().clamp(min=1e-6).pow(3).mean(1).pow(1 / 3)


@layer(1)
def softmax_pooling(x, score):
    return (score(x).softmax(1) * x).sum(1)


@layer(1, class_name="AttentionPooling", noted="its class is named after attention")
def softmax_pooling_by_name(x, score):
    return (score(x).softmax(1).mT @ x)[:, 0]


@layer(5)
def soft_assignment_to_clusters(x, assign):
    """NetVLAD: tokens are assigned to learned centres, and their residuals are summed."""
    weights = assign(x).softmax(-1)
    return weights.mT @ x - weights.sum(1)[..., None] * assign.weight


@layer()
def log_sum_exp_pooling(x):
    return x.logsumexp(1)


@layer()
def statistics_pooling(x):
    return torch.cat([x.mean(1), x.std(1)], -1)


@layer(1)
def soft_argmax(x, heat):
    weights = heat(x)[..., 0].softmax(-1)
    return (weights * torch.arange(x.shape[1])).sum(-1)


# Gates.


@layer(28)
def gated_linear_unit(x, map_):
    return F.glu(map_(x), -1)


@layer(14, 14)
def swiglu(x, gate, up):
    return F.silu(gate(x)) * up(x)


@layer(14)
def sigmoid_gate(x, gate):
    return x * gate(x).sigmoid()


@layer(14, 14)
def highway(x, gate, change):
    g = gate(x).sigmoid()
    return g * change(x).relu() + (1 - g) * x


@layer(14, class_name="SqueezeExcite")
def squeeze_and_excite(x, excite):
    return x * excite(x.mean(1, keepdim=True)).sigmoid()


@layer(class_name="EfficientChannelGate")
def efficient_channel_gate(x):
    kernel = torch.ones(1, 1, 3) / 3
    return x * F.conv1d(x.mean(1)[:, None], kernel, padding=1).sigmoid()


@layer(14, 14, 2)
def selective_kernel(x, one, other, choose):
    weights = choose(x.mean(1)).softmax(-1)
    return weights[:, 0, None, None] * one(x) + weights[:, 1, None, None] * other(x)


@layer(1, class_name="SpatialGate")
def spatial_gate(x, map_):
    return x * map_(x).sigmoid()


@layer(28)
def feature_wise_modulation(x, map_):
    scale, shift = map_(x.mean(1, keepdim=True)).chunk(2, -1)
    return x * (1 + scale) + shift


@layer(14)
def softmax_gate_over_channels(x, gate):
    return x * gate(x).softmax(-1)


@layer(14)
def gated_residual(x, map_):
    return x + torch.tanh(map_(x)) * 0.1


# Experts.


def run_experts(x: Tensor, experts: tuple[nn.Module, ...]) -> Tensor:
    return torch.stack([expert(x) for expert in experts], -2)


@layer(EXPERTS, 14, 14, 14, 14)
def soft_mixture_of_experts(x, router, *experts):
    return (router(x).softmax(-1)[..., None] * run_experts(x, experts)).sum(-2)


@layer(EXPERTS, 14, 14, 14, 14)
def mixture_by_matrix_product(x, router, *experts):
    return (router(x).softmax(-1)[..., None, :] @ run_experts(x, experts))[..., 0, :]


@layer(EXPERTS, 14, 14, 14, 14)
def top_two_router(x, router, *experts):
    weights, chosen = router(x).softmax(-1).topk(2, -1)
    weights = weights / weights.sum(-1, keepdim=True)
    outputs = run_experts(x, experts).gather(-2, chosen[..., None].expand(-1, -1, -1, WIDTH))
    return (weights[..., None] * outputs).sum(-2)


@layer(EXPERTS, 14, 14, 14, 14)
def router_with_index_add(x, router, *experts):
    flat = x.flatten(0, 1)
    weights, chosen = router(flat).softmax(-1).max(-1)
    out = torch.zeros_like(flat)
    for number, expert in enumerate(experts):
        rows = (chosen == number).nonzero()[:, 0]
        out.index_add_(0, rows, expert(flat[rows]) * weights[rows, None])
    return out


@layer(EXPERTS, 14, 14, 14, 14)
def sigmoid_router(x, router, *experts):
    weights = router(x).sigmoid()
    return (weights[..., None] * run_experts(x, experts)).sum(-2)


@layer(EXPERTS)
def router_with_capacity(x, router):
    """Tokens are dispatched to experts by a one-hot product, and combined by their probabilities."""
    weights, chosen = router(x).softmax(-1).max(-1)
    place = F.one_hot(chosen, EXPERTS).to(x.dtype)
    inside = torch.einsum("bte,btd->bed", place, x).relu()
    return torch.einsum("bte,bed->btd", place * weights[..., None], inside)


@layer(EXPERTS)
def experts_choose_tokens(x, router):
    weights, tokens = router(x).softmax(-1).mT.topk(3, -1)
    chosen = x.gather(1, tokens.flatten(1)[..., None].expand(-1, -1, WIDTH)).unflatten(1, (EXPERTS, 3))
    return (chosen.relu() * weights[..., None]).sum(2)


@layer(EXPERTS)
def load_balancing_loss(x, router):
    weights = router(x).softmax(-1)
    share = F.one_hot(weights.argmax(-1), EXPERTS).to(x.dtype).mean((0, 1))
    return EXPERTS * (share * weights.mean((0, 1))).sum()
