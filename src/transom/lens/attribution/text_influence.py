"""The influence of heads on a text: how far its log-probability is estimated to change without each."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from transom.lens.ablation.ablated_runs import logits_of
from transom.lens.attribution.agreement import correlation_of
from transom.lens.attribution.influence import Influence, influence


def text_influence(model: nn.Module, inputs: object, following: Sequence[int]) -> dict[str, list[float]]:
    """For each attention |change of the text's log-probability without a head| of every head, by one backward pass.

    `following` are the tokens that the first rows of the logits predict. Attentions that no gradient reaches are left
    out.
    """
    found = explain_text(model, inputs, following)
    return {name: found[name].per_head()[0].abs().double().tolist() for name in found.names}


def text_agreement(model: nn.Module, inputs: object, following: Sequence[int], heads: int) -> float | None:
    """Pearson's correlation of the estimates of the strongest heads with the changes when each is knocked out."""
    rows = explain_text(model, inputs, following).heads(refine=heads).rows[:heads]
    return correlation_of([(row.estimate, row.change) for row in rows if row.change is not None])


def explain_text(model: nn.Module, inputs: object, following: Sequence[int]) -> Influence:
    """The influence of every edge on the log-probability of a text."""

    def log_probability(result: object) -> Tensor:
        logs = logits_of(result)[:, : len(following)].double().log_softmax(dim=-1)
        written = torch.tensor(list(following), device=logs.device)
        return logs.gather(2, written.expand(len(logs), -1)[..., None]).sum(dim=(1, 2))

    return influence(model, inputs, log_probability)
