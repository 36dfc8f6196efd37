"""How far single arrows move what a model says, at all its positions together."""

from collections.abc import Callable, Sequence

from torch import nn

from transom.lens.edge import Edge
from transom.lens.matter import said
from transom.lens.outcome import divergence
from transom.lens.trials import Call, Trials
from transom.names import Misfit

Place = tuple[str, int, int, int]


def shifts(
    model: nn.Module,
    inputs: object,
    places: Sequence[Place],
    tokens: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[float] | None:
    """For each (layer, head, query, key) how far what is said moves without it: KL in nats, summed over positions.

    None where the model says nothing that can be compared. `tokens` is the length of its longest attention.
    """
    call = Call.of(model, inputs)
    try:
        whole = said(call())
    except Misfit:  # it gives vectors, not logits
        return None
    trials = Trials(call, said, whole, "before", tokens, progress)
    return [float(divergence(*pair).sum()) for pair in trials.run([Edge(*place) for place in places])]
