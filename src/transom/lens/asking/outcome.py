"""What is read of a model's output, and how far one reading is from another: logit, probability, divergence."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transom.names import Misfit, spelled

Output = Callable[[Any], Tensor] | None


def reading(output: Output) -> Callable[[Any], Tensor]:
    """What gives, of a model's result, logits (batch, vocabulary) or one number per sequence (batch), in float64."""

    def read(result: Any) -> Tensor:
        found = last_logits(result) if output is None else output(result)
        if not isinstance(found, Tensor) or found.dim() not in (1, 2) or not found.is_floating_point():
            came = spelled(found, "") if isinstance(found, Tensor) else type(found).__name__
            raise Misfit(
                "output must give logits (batch, vocabulary) or a number per sequence (batch), but it gave"
                f" {came}; pick one position, as in lambda result: result.logits[:, -1]"
            )
        return found.double()

    return read


def logits_of(result: Any) -> Tensor:
    """The logits of a result: the tensor it is, or holds under that name."""
    found = result if isinstance(result, Tensor) else getattr(result, "logits", None)
    if not isinstance(found, Tensor) or found.dim() not in (2, 3):
        came = spelled(found, "") if isinstance(found, Tensor) else type(result).__name__
        raise Misfit(
            f"the model gives no logits (batch, vocabulary) or (batch, token, vocabulary), but {came}; say what to"
            " measure, as in output=lambda result: result.last_hidden_state[:, 0].norm(dim=-1)"
        )
    return found


def last_logits(result: Any) -> Tensor:
    """Those of the last position, or of the whole sequence where there is one answer."""
    logits = logits_of(result)
    return logits if logits.dim() == 2 else logits[:, -1]


def divergence(whole: Float[Tensor, "... vocabulary"], without: Float[Tensor, "... vocabulary"]) -> Tensor:
    """KL(with ‖ without) in nats: how surprised one is who believed in all edges."""
    p, q = torch.log_softmax(whole, dim=-1), torch.log_softmax(without, dim=-1)
    terms = p.exp() * (p - q)
    return torch.where(p == -torch.inf, 0.0, terms).sum(dim=-1).clamp_min(0.0)
