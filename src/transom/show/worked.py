"""The steps of a lesson looked at like a Sight: weights, scores and values of each head, as computed there."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from torch import Tensor

SCORES = ("masked", "biased", "capped", "scaled", "scores")  # the last that is there is what the softmax took


class Worked:
    """One layer of Steps, for the views that draw a Sight. Its numbers are computed, so they need no receipt."""

    def __init__(self, steps: Any, layer: int) -> None:
        self.steps, self.layer = steps, layer
        self.rows, self.columns = tuple(steps.tokens), tuple(steps.at_tokens)
        self.places = sorted({step.head or 0 for step in steps if step.name == "weights" and step.layer == layer})
        if not self.places:
            known = ", ".join(steps.names) or "none"
            raise Misfit(
                f"this view draws attention, so it needs a step `weights`, but there are {known}; draw `steps`"
            )

    def stacked(self, name: str) -> "Tensor":
        """(1, heads, rows, columns) of a step."""
        import torch

        return torch.stack([torch.from_numpy(self.steps[name, head, self.layer].values) for head in self.places])[None]

    @cached_property
    def all_weights(self) -> "Tensor":
        return self.stacked("weights")

    @cached_property
    def all_scores(self) -> "Tensor":
        found = [name for name in SCORES if any(step.name == name and step.layer == self.layer for step in self.steps)]
        if not found:
            raise Misfit("this view draws scores, but these steps have none; draw `matrix` or `steps`")
        return self.stacked(found[0])

    @cached_property
    def V(self) -> "Tensor":
        return self.stacked("V")

    @property
    def whole(self) -> tuple[int, int, int, int]:
        batch, heads, rows, columns = self.all_weights.shape
        return batch, heads, rows, columns

    def weights(self, batch: int, head: int, rows: Any = None, keys: Any = None) -> "Tensor":
        return part(self.all_weights[batch, head], rows, keys)

    def scores(self, batch: int, head: int, rows: Any = None, keys: Any = None) -> "Tensor":
        return part(self.all_scores[batch, head], rows, keys)

    def entropy(self) -> "Tensor":
        import torch

        return torch.special.entr(self.all_weights).sum(dim=-1)

    def peak(self) -> "Tensor":
        return self.all_weights.amax(dim=-1)

    def received(self) -> "Tensor":
        return self.all_weights.sum(dim=-2)


def part(matrix: "Tensor", rows: Any, keys: Any) -> "Tensor":
    """The rows and keys asked for: an index drops its axis."""
    chosen = matrix if rows is None else matrix[rows]
    return chosen if keys is None else chosen[..., keys]


def attentions(steps: Any) -> list[tuple[str, Worked]]:
    """Each layer of Steps that attends, under its name."""
    layers = sorted({step.layer for step in steps if step.name == "weights"})
    alone = len(layers) < 2
    return [("" if alone else f"layer {layer}", Worked(steps, layer)) for layer in layers] or [("", Worked(steps, 0))]


def steps_in(thing: Any) -> Any:
    """The Steps of what came: themselves, or those of a lesson; None of anything else."""
    from transom.lessons import Lesson, Steps

    return thing if isinstance(thing, Steps) else thing.steps() if isinstance(thing, Lesson) else None
