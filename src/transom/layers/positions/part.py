"""What a position part is: the three places where a token's position may enter, and nothing at each by default."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.equations.biases import Bias
from transom.names import Misfit

Place = Literal["the embedding", "attention", "nowhere"]
WAYS = {
    "the embedding": "hand them to Embedding(positions=…)",
    "attention": "hand them to MultiHeadAttention(positions=…)",
}
LONGEST_TABLE = 2**16  # positions beyond are worked out each time


@dataclass(frozen=True)
class Sizes:
    """What a part may need to know of the model it is built for."""

    d_model: int
    heads: int
    d_head: int
    longest: int  # tokens of the longest sequence


class Positions(nn.Module):
    """A way to say where a token stands: a part fills in `embedded`, `turned` or `bias`, and names its place."""

    enters: ClassVar[Place] = "nowhere"

    def __init__(self, **built_for: int) -> None:
        super().__init__()
        self.built_for = built_for  # the sizes that must agree with the layer it enters, by axis word

    @classmethod
    def for_sizes(cls, sizes: Sizes) -> "Positions":
        """The part as a model of these sizes needs it."""
        raise NotImplementedError

    def embedded(
        self, x: Float[Tensor, "batch token d_model"], at: Int[Tensor, "#batch token"]
    ) -> Float[Tensor, "batch token d_model"]:
        """The embedded tokens with what their positions `at` add."""
        return x

    def turned(
        self, x: Float[Tensor, "batch heads token d_head"], at: Int[Tensor, "#batch token"]
    ) -> Float[Tensor, "batch heads token d_head"]:
        """Queries or keys, changed by their positions `at`."""
        return x

    def bias(self, device: torch.device) -> Bias | None:
        """What is added to the scores; queries are the last positions of the keys."""
        return None

    def check_place(self, place: Place, **sizes: int) -> None:
        """Complain where this part would do nothing, or was built for other sizes."""
        name = type(self).__name__
        if self.enters not in ("nowhere", place):
            raise Misfit(f"{place} got {name} positions, which enter at {self.enters}; {WAYS[self.enters]}")
        for word, size in self.built_for.items():
            if sizes[word] != size:
                raise Misfit(
                    f"{name} was built for {word}={size}, but {place} has {word}={sizes[word]};"
                    f" build it for {word}={sizes[word]}"
                )

    def extra_repr(self) -> str:
        return ", ".join(f"{word}={size}" for word, size in self.built_for.items())


class Table:
    """A function of the position, worked out once for positions from 0 on and then looked up; it grows as needed.

    The formula takes the positions and the dtype to round to.
    """

    def __init__(self, formula: Callable[..., Tensor]) -> None:
        self.formula = formula
        self.rows: Tensor | None = None

    def at(self, places: Int[Tensor, "#batch token"], like: torch.dtype) -> Float[Tensor, "#batch token any"]:
        """The numbers at these positions, as exact as numbers of dtype `like` and at least as float32."""
        dtype = torch.promote_types(like, torch.float32)
        if places.numel() == 0:
            return self.formula(places, dtype=dtype)
        least, most = (int(place) for place in places.aminmax())
        if least < 0 or most >= LONGEST_TABLE:
            return self.formula(places, dtype=dtype)
        rows = self.rows
        if rows is None or len(rows) <= most or rows.device != places.device or rows.dtype != dtype:
            # Not in inference mode, whose tensors no later training could use.
            with torch.inference_mode(False):
                rows = self.formula(torch.arange(max(64, 2 * most), device=places.device), dtype=dtype)
            self.rows = rows
        return torch.nn.functional.embedding(places, rows)


def counted(token: int, start: int, device: torch.device) -> Int[Tensor, "1 token"]:
    """The positions of a run of tokens whose first stands at `start`."""
    return torch.arange(start, start + token, device=device)[None]
