"""Sinks: keys that take much of the attention and say little. They may be hidden, and the figure says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transom.names import Misfit
from transom.show.look import Look, counted
from transom.show.numbers import percent
from transom.show.visible import visible


@dataclass(frozen=True)
class Sinks:
    """Which keys are hidden, and whether the others are divided by what is left of each row."""

    hidden: tuple[int, ...] = ()
    renormalised: bool = False

    def kept(self, size: int) -> list[int]:
        return [key for key in range(size) if key not in self.hidden]

    def without(self, weights: Any) -> Any:
        """(rows, keys) weights without the hidden columns."""
        left = weights[:, self.kept(weights.shape[1])]
        if not self.renormalised:
            return left
        total = left.sum(dim=1, keepdim=True)
        return left / total.masked_fill(total == 0, 1.0)

    def notes(self, look: Look) -> list[str]:
        """What the figure says about it."""
        if not self.hidden:
            return []
        taken = look.sight.received()[look.batch, look.head, list(self.hidden)].double().sum()
        names = ", ".join(f"“{visible(look.keys[key])}” (key {key})" for key in self.hidden[:4])
        names += f" and {len(self.hidden) - 4} more" if len(self.hidden) > 4 else ""
        share = percent(float(taken) / max(1, len(look.rows)))
        rest = (
            "each row is divided by what is left, so it sums to 1 again"
            if self.renormalised
            else "the other weights are as they are, so rows sum to less than 1"
        )
        return [f"Hidden: {names}, which took {share} of this head's attention; {rest}."]


def sinks(look: Look, hide: Sequence[int] | int, renormalise: bool) -> Sinks:
    """What to hide, checked."""
    size = len(look.keys)
    hidden = tuple(sorted({counted(key, "keys", size) for key in ([hide] if isinstance(hide, int) else hide)}))
    if renormalise and not hidden:
        raise Misfit("renormalise divides by what hidden keys leave, but none is hidden; hide=[0] hides the first")
    if hidden and len(hidden) == size:
        raise Misfit(f"there should be a key left to draw, but all keys={size} are hidden; hide fewer")
    return Sinks(hidden, renormalise)
