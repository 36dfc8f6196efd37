"""The second part of the tour: a translation, where one head looked for it, and whether that mattered."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

if TYPE_CHECKING:
    from torch import Tensor

SENTENCE = "I know where she lives."
SHADES = "░▒▓█"  # weights up to ¼, ½, ¾, 1


@dataclass(frozen=True)
class Look:
    """One head of cross-attention while a sentence was translated, and what came of it without one arrow."""

    source: str
    target: str
    sources: list[str]  # tokens looked at
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
    place = f"layer {look.layer}, head {look.head}"
    yield Text()
    yield Text(f"5  The translator that comes with Transom: “{look.source}” → “{look.target}”")
    yield Text(f"   Where {place} looked, the head it needs most here (the receipt holds):")
    wide, margin = [max(3, len(token.strip())) for token in look.sources], max(map(len, look.targets)) + 2
    heads = "  ".join(f"{token.strip():<{width}}" for token, width in zip(look.sources, wide, strict=True))
    yield Text(f"   {'from ↓ at →':<{max(margin, 11)}}  {heads}".rstrip())
    for token, weights in zip(look.targets, look.weights, strict=True):
        row = "  ".join(f"{heat(weight) * 3:<{width}}" for weight, width in zip(weights, wide, strict=True))
        yield Text.assemble("   ", (f"{token.strip():<{max(margin, 11)}}", "bold"), "  ", (row.rstrip(), "cyan"))
    yield from knocked_out(look)


def knocked_out(look: Look) -> Iterator[Text]:
    token, at, instead = look.targets[look.row].strip(), look.sources[look.column].strip(), look.instead.strip()
    weight = look.weights[look.row][look.column]
    then = "it would still be written" if instead == token else f"“{instead}” would be written"
    yield Text(f"   Knock out the arrow “{token}” → “{at}” (weight {weight:.2f}): the chance of “{token}” goes from")
    yield Text(f"   {look.before:.3f} to {look.after:.3f}, and {then}.")


def heat(weight: float) -> str:
    """A weight as a block: the darker, the more."""
    return SHADES[max(0, math.ceil(weight * len(SHADES)) - 1)]


def heats(weights: Sequence[float], width: int) -> str:
    return "  ".join(heat(weight) * width for weight in weights)


def looked() -> Look:
    """Translate the sentence, find the head and the arrow that matter most, and knock the arrow out."""
    import torch

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

    whole = chances()[range(len(written)), written].log()
    layer, head = most_needed(model, lambda: float((whole - chances()[range(len(written)), written].log()).sum()))
    sight = seen(model, layer, chances)
    weights = sight.weights(batch=0, head=head)
    row, column, changed = strongest_effect(model, layer, head, weights, chances, written)
    return Look(
        SENTENCE,
        target,
        tokenizer.pieces(source[0].tolist()),
        tokenizer.pieces(written),
        layer,
        head,
        weights.tolist(),
        {**asdict(sight.receipt()), "holds": sight.receipt().holds},
        row,
        column,
        float(whole[row].exp()),
        float(changed[row, written[row]]),
        tokenizer.pieces([int(changed[row].argmax())])[0],
    )


def cross(layer: int) -> str:
    """The path of a layer's cross-attention."""
    return f"decoder.blocks.{layer}.cross"


def most_needed(model: Any, lost: Callable[[], float]) -> tuple[int, int]:
    """The layer and head of cross-attention without which the translation loses most of its log-probability."""
    from transom.lens import knock_out

    found = {}
    for layer, block in enumerate(model.decoder.blocks):
        for head in range(block.cross.heads):
            with knock_out(model, layer=cross(layer), head=head):
                found[layer, head] = lost()
    return max(found, key=lambda place: found[place])


def seen(model: Any, layer: int, act: Callable[[], object]) -> Any:
    """The cross-attention of a layer, kept for looking while `act` runs the model."""
    from transom.lens import watch

    with watch(model, layers=cross(layer)) as trace:
        act()
    return trace[cross(layer)]


def strongest_effect(
    model: Any, layer: int, head: int, weights: "Tensor", chances: Callable[[], "Tensor"], written: list[int]
) -> tuple[int, int, "Tensor"]:
    """Of each row's strongest arrow, the one whose loss costs its token most; and all chances without it."""
    from transom.lens import knock_out

    before = chances()
    tried = {}
    for row, token in enumerate(written):
        column = int(weights[row].argmax())
        with knock_out(model, layer=cross(layer), head=head, query=row, key=column):
            after = chances()
        tried[row, column] = (float(before[row, token] - after[row, token]), after)
    (row, column), (_, after) = max(tried.items(), key=lambda one: one[1][0])
    return row, column, after
