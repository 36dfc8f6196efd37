"""A Sight: one attention kept for looking. Any weight is exp(score − L), worked out when asked for."""

from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.blocks import Block
from transom.kernels import engines, looking
from transom.kernels.problem import put
from transom.lens.asked import Asked, is_one_place, places
from transom.lens.beside import Beside
from transom.lens.kept import Kept
from transom.lens.pooled import Map, pooled
from transom.lens.positions import check_distance, first_position
from transom.lens.receipt import Receipt, checked, sampled
from transom.lens.statistics import Statistics, Top, first_of, gathered, strongest
from transom.names import Drawable, Misfit, spelled, whole_number

AXES = ("batch", "heads", "queries", "keys")
EIGHT = 8  # as many keys as top() lists unless told otherwise


class Sight(Kept, Drawable):
    """Q, K, V, the output and one log-sum-exp per row: from these every score and weight follows, exactly.

    Weights are those before dropout. Nothing of size queries × keys is made unless it is asked for.
    """

    eight: Top | None = None  # the strongest keys of each row, where they were found along with the output
    place: tuple[str, Beside] | None = None  # its name in a trace, and the words there; of the last it was added to

    @property
    def Q(self) -> Float[Tensor, "batch heads queries d_head"]:
        return self.problem.Q

    @property
    def K(self) -> Float[Tensor, "batch kv_heads keys d_head"]:
        return self.problem.K

    @property
    def V(self) -> Float[Tensor, "batch kv_heads keys d_value"]:
        return self.problem.V

    def __repr__(self) -> str:
        return f"Sight{spelled(self.problem.whole, ' '.join(AXES))}"

    def weights(self, batch: Asked = None, head: Asked = None, rows: Asked = None, keys: Asked = None) -> Tensor:
        """The weights asked for: each axis by an index (which drops it), a slice or a list; all of it by default."""
        return self.dropped(self.block_weights(self.asked(batch, head, rows, keys)), (batch, head, rows, keys))

    def scores(self, batch: Asked = None, head: Asked = None, rows: Asked = None, keys: Asked = None) -> Tensor:
        """The scores asked for: scaled, capped and biased, before the softmax; −∞ where a row may not look."""
        with torch.no_grad():
            found = self.problem.scores(self.asked(batch, head, rows, keys))
        return self.dropped(found, (batch, head, rows, keys))

    def entropy(self) -> Float[Tensor, "batch heads queries"]:
        """How spread out each row looks, in nats: 0 for one key alone, log n for n keys alike."""
        return self.statistics.entropy

    def peak(self) -> Float[Tensor, "batch heads queries"]:
        """The largest weight of each row."""
        return self.statistics.peak

    def distance(self) -> Float[Tensor, "batch heads queries"]:
        """How far away each row looks, on average: Σⱼ weight · |position − position of j|.

        The queries are the last of the keys, unless a causal mask tells otherwise. To another sequence there is none.
        """
        found = self.statistics
        check_distance(found.distance, found.received.shape[2])
        return found.distance

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """How much attention each key got, summed over all rows."""
        return self.statistics.received

    def top(self, k: int = 8) -> Top:
        """The k strongest keys of each row: `.weights`, `.keys`, and the `.mass` they cover."""
        number = whole_number(k)
        if number is None or number < 1:
            raise Misfit(f"top needs k of 1 or more, but got {k}; top(8) lists the eight strongest keys of each row")
        k = number
        if self.eight is not None and k <= EIGHT:
            return first_of(self.eight, min(k, self.K.shape[2]))
        with torch.no_grad():
            return strongest(self, k)

    def map(
        self,
        head: int,
        cells: int = 256,
        pool: Literal["max", "mean", "sum"] = "max",
        rows: slice | None = None,
        keys: slice | None = None,
        batch: int = 0,
    ) -> Map:
        """A head's attention over a window, pooled exactly into at most cells × cells."""
        with torch.no_grad():
            return pooled(self, head, cells, pool, (rows, keys), batch)

    def receipt(self, rows: int | None = None) -> Receipt:
        """How far the weights are from making the output, and the tolerance that is held to; by some rows if asked."""
        number = None if rows is None else whole_number(rows)
        if rows is not None and (number is None or number < 1):
            raise Misfit(f"a receipt tries 1 row or more, but got rows={rows}; leave it out to try all of them")
        with torch.no_grad():
            return checked(self) if number is None else sampled(self, number)

    @cached_property
    def statistics(self) -> Statistics:
        """Entropy, peak, distance and received, from one pass over the weights."""
        with torch.no_grad():
            return gathered(self)

    def asked(self, *axes: Asked) -> Block:
        whole, device = self.problem.whole, self.Q.device
        batch, head, rows, keys = (
            places(one, axis, size, device) for one, axis, size in zip(axes, AXES, whole, strict=True)
        )
        return self.problem.block().narrowed(batch=batch, heads=head, rows=rows, columns=keys)

    @staticmethod
    def dropped(found: Tensor, axes: tuple[Asked, ...]) -> Tensor:
        """Without the axes that were asked for by one index."""
        return found[tuple(0 if is_one_place(one) else slice(None) for one in axes)]


def sight(Q: Tensor, K: Tensor, V: Tensor, at_once: bool = False, **same: object) -> Sight:
    """The same attention as `attend(Q, K, V, …)`, kept for looking; `sight.output` is what `attend` gives.

    at_once   entropy, peak, distance, received and the eight strongest keys are found along with the output: for little
              more than the output alone where the native engine runs. The output then sends no gradient back.
    """
    if not isinstance(at_once, bool):
        raise Misfit(
            f"at_once must be True or False, but got {type(at_once).__name__}; give masks and all else that attend"
            " takes by name: sight(Q, K, V, allowed=mask)"
        )
    problem = put(Q, K, V, **same)  # pyright: ignore[reportArgumentType]
    if not at_once or not looking.looks(problem):
        return Sight(problem, *engines.solve(problem))
    with torch.no_grad():
        output, lse, found = looking.solved(problem, EIGHT, first_position(problem))
    seen = Sight(problem, output, lse)
    seen.statistics = Statistics(found.entropy, found.peak, found.distance, found.received)
    seen.eight = Top(found.top_weights, found.top_keys, found.top_weights.sum(dim=-1))
    return seen
