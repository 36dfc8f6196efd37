"""The influence of heads on a text: how far its log-probability is estimated to change without each."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from transom.lens.ablation.ablated_runs import logits_of
from transom.lens.attribution.influence import influence
from transom.lens.metrics.head_sums import HeadSums

INFLUENCE = "influence"
UNKNOWN = "gradients do not lead to its output"
NOTHING_FOLLOWS = "nothing follows its only token"


def add_influence(sums: HeadSums, model: nn.Module, inputs: object, following: Sequence[int]) -> None:
    """Add |change of the text's log-probability without the head|, by one backward pass, to sums over texts.

    `following` are the tokens that the first rows of the logits predict; the mean is over all of them, in nats a token.
    """
    if not following:
        for layer in sums.layers.values():
            layer.missing.setdefault(INFLUENCE, NOTHING_FOLLOWS)
        return

    def log_probability(result: object) -> Tensor:
        logs = logits_of(result)[:, : len(following)].double().log_softmax(dim=-1)
        written = torch.tensor(list(following), device=logs.device)
        return logs.gather(2, written.expand(len(logs), -1)[..., None]).sum(dim=(1, 2))

    found = influence(model, inputs, log_probability)
    for name, layer in sums.layers.items():
        if name in found.names:
            changes = found[name].per_head()[0].abs().double().tolist()
            layer.add(INFLUENCE, changes, [len(following)] * layer.heads, name)
        else:
            layer.missing[INFLUENCE] = UNKNOWN
