"""The steps of a lesson with the interface of a Sight: weights, scores and values of each head."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from torch import Tensor

SCORES = (
    "masked",
    "biased",
    "capped",
    "scaled",
    "scores",
)  # the first of these that a lesson has went into the softmax


class StepsSight:
    """One layer of a lesson's Steps with the interface of a Sight. Its numbers are computed, so it has no receipt."""

    def __init__(self, steps: Any, layer: int) -> None:
        self.steps, self.layer = steps, layer
        self.rows, self.columns = tuple(steps.tokens), tuple(steps.at_tokens)
        self.head_numbers = sorted({step.head or 0 for step in steps if step.name == "weights" and step.layer == layer})
        if not self.head_numbers:
            names = ", ".join(steps.names) or "none"
            raise Misfit(
                f"this view draws attention, so it needs a step `weights`, but there are {names}; draw `steps`"
            )

    def stack_heads(self, name: str) -> "Tensor":
        """(1, heads, rows, columns) of a step."""
        import torch

        heads = [torch.from_numpy(self.steps[name, head, self.layer].values) for head in self.head_numbers]
        return torch.stack(heads)[None]

    @cached_property
    def all_weights(self) -> "Tensor":
        return self.stack_heads("weights")

    @cached_property
    def all_scores(self) -> "Tensor":
        names = {step.name for step in self.steps if step.layer == self.layer}
        score_names = [name for name in SCORES if name in names]
        if not score_names:
            raise Misfit("this view draws scores, but these steps have none; draw `rows` or `steps`")
        return self.stack_heads(score_names[0])

    def has_step(self, name: str) -> bool:
        return any(step.name == name and step.layer == self.layer for step in self.steps)

    def raw_scores(self, batch: int, head: int, rows: Any) -> "Tensor":
        """Scores before they are scaled."""
        return self.stack_heads("scores")[batch, head, rows]

    def softmax_word(self) -> str:
        """What the softmax takes, in a word."""
        changed = self.has_step("biased") or self.has_step("capped")
        return "scaled" if self.has_step("scaled") and not changed else "score"

    @cached_property
    def Q(self) -> "Tensor":
        return self.stack_heads("rotated_Q" if self.has_step("rotated_Q") else "Q")

    @cached_property
    def K(self) -> "Tensor":
        return self.stack_heads("rotated_K" if self.has_step("rotated_K") else "K")

    @cached_property
    def V(self) -> "Tensor":
        return self.stack_heads("V")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.all_weights.shape)

    @property
    def full(self) -> "StepsSight":
        """Itself: it has all its weights."""
        return self

    def weights(self, batch: int, head: int, rows: Any = None) -> "Tensor":
        return self.all_weights[batch, head, slice(None) if rows is None else rows]

    def scores(self, batch: int, head: int, rows: Any = None) -> "Tensor":
        return self.all_scores[batch, head, slice(None) if rows is None else rows]

    def entropy(self) -> "Tensor":
        import torch

        return torch.special.entr(self.all_weights).sum(dim=-1)

    def peak(self) -> "Tensor":
        return self.all_weights.amax(dim=-1)

    def received(self) -> "Tensor":
        return self.all_weights.sum(dim=-2)


def find_steps(thing: Any) -> Any:
    """Steps themselves, or those of a lesson; None for anything else."""
    from transom.lessons import Lesson, Steps

    return thing if isinstance(thing, Steps) else thing.steps() if isinstance(thing, Lesson) else None
