"""What one head was made from, and what became of it: X, its W_Q, W_K and W_V, and W_O; each proved by its numbers.

The model runs once more. A projection is known by what it gives, W_O by what it takes, and neither is believed before
X W + b, worked out in float64, is what the attention used; what cannot be proved is left out, and a note says so.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.equations.heads import unfold
from transom.layers.positions import Rotary
from transom.lens.asked import inside
from transom.lens.asking.overheard import Overheard, Ran, overheard, rows_of
from transom.lens.labels import is_cross
from transom.lens.sight import Sight

ROUNDING = 32 * torch.finfo(torch.float32).eps  # of the magnitudes that are summed up
BEFORE = "X is what came into this attention, after all that stands before it: positions, norm, earlier layers."
NO_OUTPUT = (
    "The steps end at the weighted sum: no projection was found that takes the heads joined and gives an output."
)
ONLY_WEIGHTS = "Only scores and weights can be shown: the model's softmax was seen, but not its Q, K and V."
OTHER_RUN = "The steps begin at Q: the model did not do the same when it ran again."


@dataclass(frozen=True, eq=False)
class Origin:
    """What is known of one head's surroundings.

    embedding      what Q is made from; of self-attention K and V too
    at_embedding   what K and V are made from, where it is something else
    parameters     W_Q, W_K, W_V (d_model, d_head) and b_Q, b_K, b_V of this head, W_O (heads · d_value, d_out) and b_O
    output         what W_O gave in the model
    notes          what is left out, and why
    """

    embedding: Float[Tensor, "queries d_model"] | None = None
    at_embedding: Float[Tensor, "keys any"] | None = None
    parameters: dict[str, Tensor] = field(default_factory=dict)
    output: Float[Tensor, "queries d_out"] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Made:
    """One of Q, K and V as x W + b."""

    x: Tensor
    W: Tensor
    b: Tensor | None


def origin(
    model: nn.Module, run: Callable[[], object], name: str, sight: Sight, head: int = 0, batch: int = 0
) -> Origin:
    """What a head of the attention called `name` was made from; `run` runs the model as it ran when it was watched."""
    batches, heads = sight.problem.whole[:2]
    batch, head = inside(batch, "batch", batches), inside(head, "heads", heads)
    if sight.V.shape[3] == 0:
        return Origin(notes=(ONLY_WEIGHTS,))
    with torch.no_grad():
        heard = overheard(model, run, name)
        again = heard.sight
        if again is None or again.problem.whole != sight.problem.whole:
            return Origin(notes=(OTHER_RUN,))
        kv_head = head // sight.problem.group
        found: dict[str, Made] = {}
        for letter, place in (("Q", head), ("K", kv_head), ("V", kv_head)):
            used, now = getattr(sight, letter)[batch, place], getattr(again, letter)[batch, place]
            one = made(heard.before, used, now, (batch, batches))
            if one is not None:
                found[letter] = one
        output, joined = joined_by(heard.after, sight, batch)
        return gathered(name, sight, head, found, output, joined, heard)


def gathered(
    name: str, sight: Sight, head: int, found: dict[str, Made], output: Tensor | None, joined: dict, heard: Overheard
) -> Origin:
    """All that was proved, in one."""
    source = found.get("K", found.get("V"))
    if source is not None and "V" in found and not torch.equal(found["V"].x, source.x):
        del found["V"]  # keys with positions added, values without: there is one X for both
    at = None if source is None else source.x
    alone = sight.problem.whole[2] == sight.problem.whole[3] and not is_cross(name)
    own = found["Q"].x if "Q" in found else at if alone else None
    same = own is not None and at is not None and own.shape == at.shape and torch.equal(own, at)
    parameters = dict(joined)
    for letter, one in found.items():
        parameters[f"W_{letter}"] = one.W
        if one.b is not None:
            parameters[f"b_{letter}"] = one.b
    notes = notes_of(name, sight, head, found, heard.module)
    if own is not None or at is not None:
        notes.insert(0, BEFORE)
    if output is None:
        notes.append(NO_OUTPUT)
    return Origin(own, None if same else at, parameters, output, tuple(notes))


def notes_of(name: str, sight: Sight, head: int, found: dict[str, Made], module: nn.Module | None) -> list[str]:
    """Which of Q, K and V are given as they were used, and which heads share theirs."""
    missing = [letter for letter in "QKV" if letter not in found]
    notes = []
    if missing:
        them = ", ".join(missing[:-1]) + " and " + missing[-1] if len(missing) > 1 else missing[0]
        are, it = ("are", "them") if len(missing) > 1 else ("is", "it")
        why = f"no projection in {name} gives {it} as X W + b (positions, a norm or a factor may come after it)"
        if isinstance(getattr(module, "positions", None), Rotary) and set(missing) == {"Q", "K"}:
            why = "rotary positions turn them after the projection"
        notes.append(f"{them} {are} shown as the model used {it}: {why}.")
    group = sight.problem.group
    if group > 1:
        notes.append(f"{group} heads share each K and V; head {head} uses those of key–value head {head // group}.")
    return notes


def made(ran: list[Ran], used: Tensor, now: Tensor, batch: tuple[int, int]) -> Made | None:
    """The projection that gave one head's Q, K or V: the last of those that ran, if there are several."""
    tokens, width = used.shape
    for one in reversed(ran):
        x, out = rows_of(one.x, *batch, tokens), rows_of(one.output, *batch, tokens)
        if x is None or out is None or width == 0:
            continue
        for first in range(0, out.shape[1] - width + 1, width):
            columns = slice(first, first + width)
            if not close(out[:, columns], now):
                continue
            W, b = one.map()
            W, b = W[:, columns], None if b is None else b[columns]
            if proved(x, W, b, used):
                return Made(x, W, b)
    return None


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two are the same but for rounding."""
    return float((one - other).abs().max()) <= 1e-5 * float(other.abs().max())


def proved(x: Tensor, W: Tensor, b: Tensor | None, used: Tensor) -> bool:
    """Whether x W + b in float64 is what was used, but for rounding in float32."""
    x, W = x.double(), W.double()
    values, sizes = x @ W, x.abs() @ W.abs()
    if b is not None:
        values, sizes = values + b.double(), sizes + b.double().abs()
    return values.shape == used.shape and bool(((values - used.double()).abs() <= ROUNDING * sizes + 1e-12).all())


def joined_by(after: Ran | None, sight: Sight, batch: int) -> tuple[Tensor | None, dict[str, Tensor]]:
    """The output of the heads joined, and W_O and b_O, where they give it."""
    batches, _, queries, _ = sight.problem.whole
    given = None if after is None else rows_of(after.output, batch, batches, queries)
    if after is None or given is None:
        return None, {}
    W, b = after.map()
    heads = unfold(sight.output)[batch]
    if heads.shape[1] != W.shape[0] or not proved(heads, W, b, given):
        return None, {}
    return given, {"W_O": W} if b is None else {"W_O": W, "b_O": b}
