"""The second part of the tour: a translation, where one head looked for it, and whether that mattered."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from transom.show.visible import visible

if TYPE_CHECKING:
    from torch import Tensor

SENTENCE = "We are going home."  # of two dozen short ones tried, the one with the arrow that matters most
SHADES = "░▒▓█"  # weights up to ¼, ½, ¾, 1


@dataclass(frozen=True)
class Look:
    """One head of cross-attention while a sentence was translated, and what came of it without one arrow."""

    source: str
    target: str
    sources: list[str]  # tokens looked at
    reads: list[str]  # tokens that look, a row each
    targets: list[str]  # tokens written, each by the row that looked for it
    layer: int
    head: int
    weights: list[list[float]]
    receipt: dict[str, Any]
    row: int  # of the arrow that was knocked out
    column: int
    before: float  # the chance of the row's token with the arrow …
    after: float  # … and without it
    instead: str  # what would be written then


def told(look: Look) -> Iterator[Text]:
    """The translation, the head as a picture, and the arrow knocked out, in words and numbers."""
    place, rows = f"layer {look.layer}, head {look.head}", [called(look, row) for row in range(len(look.reads))]
    sources = list(map(visible, look.sources))
    yield Text()
    yield Text(f"5  The translator that comes with Transom: “{look.source}” → “{look.target}”")
    yield Text(f"   Where {place} looked, the head it needs most here (in brackets: what comes next):")
    wide, margin = [max(3, len(token)) for token in sources], max(11, *map(len, rows))
    heads = "  ".join(f"{token:<{width}}" for token, width in zip(sources, wide, strict=True))
    yield Text(f"   {'from ↓ at →':<{margin}}  {heads}".rstrip())
    for name, weights in zip(rows, look.weights, strict=True):
        row = "  ".join(f"{heat(weight) * 3:<{width}}" for weight, width in zip(weights, wide, strict=True))
        yield Text.assemble("   ", (f"{name:<{margin}}", "bold"), "  ", (row.rstrip(), "cyan"))
    yield from knocked_out(look)


def called(look: Look, row: int) -> str:
    """A row by the token it reads, and in brackets the one that comes next: as in `see` and on the page."""
    return f"{visible(look.reads[row])} ({visible(look.targets[row])})"


def knocked_out(look: Look) -> Iterator[Text]:
    token, at, instead = look.targets[look.row].strip(), visible(look.sources[look.column]), look.instead.strip()
    weight = look.weights[look.row][look.column]
    then = "it would still be written" if instead == token else f"“{instead}” would be written"
    yield Text(f"   Knock out the arrow “{called(look, look.row)}” → “{at}” (weight {weight:.2f}; · is a space):")
    yield Text(f"   the chance of “{token}” goes from {look.before:.3f} to {look.after:.3f}, and {then}.")


def heat(weight: float) -> str:
    """A weight as a block: the darker, the more."""
    return SHADES[max(0, math.ceil(weight * len(SHADES)) - 1)]


def heats(weights: Sequence[float], width: int) -> str:
    return "  ".join(heat(weight) * width for weight in weights)


def looked() -> Look:
    """Translate the sentence, find the head and the arrow that matter most, and knock the arrow out."""
    import torch

    from transom.lens import watch
    from transom.lens.asking.matter import most_telling, told_first
    from transom.models import EncoderDecoder
    from transom.models.embedded import embedded
    from transom.run.texts import ready, translated

    found = ready(embedded(), "encoder_decoder")
    model, tokenizer = found.model, found.tokenizer
    assert isinstance(model, EncoderDecoder)
    target = translated(model, tokenizer, [SENTENCE])[0]
    source = torch.tensor([[*tokenizer.encode(SENTENCE), tokenizer.end]])
    written = [*tokenizer.encode(target), tokenizer.end]
    fed = torch.tensor([[tokenizer.start, *written[:-1]]])

    def chances() -> "Tensor":
        with torch.no_grad():
            return torch.softmax(model(source, fed)[0], dim=-1)

    with watch(model) as trace:
        whole = chances()[range(len(written)), written].log()
    name, head, *_ = most_telling(model, {"source": source, "target": fed}, told_first(trace))
    sight = trace[name]
    weights = sight.weights(batch=0, head=head)
    row, column, changed = strongest_effect(model, (name, head), weights, chances, written)
    return Look(
        SENTENCE,
        target,
        tokenizer.pieces(source[0].tolist()),
        tokenizer.pieces(fed[0].tolist()),
        tokenizer.pieces(written),
        int(name.split(".")[2]),
        head,
        weights.tolist(),
        {**asdict(sight.receipt()), "holds": sight.receipt().holds},
        row,
        column,
        float(whole[row].exp()),
        float(changed[row, written[row]]),
        tokenizer.pieces([int(changed[row].argmax())])[0],
    )


def strongest_effect(
    model: Any, place: tuple[str, int], weights: "Tensor", chances: Callable[[], "Tensor"], written: list[int]
) -> tuple[int, int, "Tensor"]:
    """Of each row's strongest arrow, the one whose loss costs its token most; and all chances without it."""
    from transom.lens import knock_out

    before, (layer, head) = chances(), place
    tried = {}
    for row, token in enumerate(written):
        column = int(weights[row].argmax())
        with knock_out(model, layer=layer, head=head, query=row, key=column):
            after = chances()
        tried[row, column] = (float(before[row, token] - after[row, token]), after)
    (row, column), (_, after) = max(tried.items(), key=lambda one: one[1][0])
    return row, column, after
