"""Direct logit attribution, which adds up to the logit under a receipt, and the logit lens by layer."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.files.terminal import escape_controls
from transom.lens.attribution.residual_stream import (
    ResidualLayout,
    StreamPart,
    StreamRecord,
    TakenApart,
    record_stream,
    take_apart,
)
from transom.lens.capture.output_projection import find_module
from transom.names import Misfit, check_index

ROUNDING = 16.0  # times ε and the sum of all products: how far a sum of parts may be from the model's logit
SHOWN = 20  # parts in a table; the others are summed

Spell = Callable[[list[int]], Sequence[str]]


@dataclass(frozen=True)
class LogitPart:
    """A part of the model, and what it added to the logit."""

    kind: str
    layer: int | None
    head: int | None
    name: str
    value: float


@dataclass(frozen=True)
class SumReceipt:
    """How far the parts are from the logit of the model's own output, and how far they may be by rounding."""

    difference: float
    tolerance: float

    @property
    def holds(self) -> bool:
        return self.difference <= self.tolerance

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'fails'}: {self.difference:.1e} of at most {self.tolerance:.1e}"


@dataclass(frozen=True)
class LogitAttribution:
    """A logit as a sum: every part of the model with what it added, the largest first.

    value     the logit of the model's own output, or its difference to that of `against`
    """

    parts: list[LogitPart]
    value: float
    target: int
    against: int | None
    receipt: SumReceipt
    tokens: tuple[str, ...] = ()  # target and against as text, if they are known

    def to_dict(self) -> dict[str, Any]:
        receipt = {"holds": self.receipt.holds, **asdict(self.receipt)}
        explained = {"target": self.target, "against": self.against, "tokens": list(self.tokens), "value": self.value}
        return {**explained, "receipt": receipt, "parts": [asdict(part) for part in self.parts]}

    def json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def summary(self) -> str:
        """One line: what is explained, and the receipt."""
        names = [f"{word!r}" for word in self.tokens] or [f"token id {number}" for number in self.ids()]
        what = f"the logit of {names[0]}" if len(names) == 1 else f"the logit of {names[0]} minus that of {names[1]}"
        return f"{what} is {self.value:+.4f}, the sum of {len(self.parts)} parts; the receipt {self.receipt}"

    def ids(self) -> list[int]:
        return [self.target] if self.against is None else [self.target, self.against]

    def __str__(self) -> str:
        lines = [self.summary(), f"{'adds':>9}  part"]
        for part in self.parts[:SHOWN]:
            lines.append(f"{part.value:>+9.4f}  {describe_part(part)}")
        rest = self.parts[SHOWN:]
        if rest:
            lines.append(f"{sum(part.value for part in rest):>+9.4f}  {len(rest)} other parts")
        return escape_controls("\n".join(lines))


def describe_part(part: LogitPart) -> str:
    if part.kind == "head":
        return f"layer {part.layer}, head {part.head}  {part.name}"
    return part.kind if part.layer is None else f"layer {part.layer}, {part.kind}  {part.name}"


@dataclass(frozen=True)
class LensRow:
    """What the stream after so many blocks would say: its likeliest tokens, and the target's logit, chance and rank."""

    blocks: int
    tokens: list[int]
    probabilities: list[float]
    logit: float
    probability: float
    rank: int
    words: list[str]


@dataclass(frozen=True)
class LogitLens:
    """The logit lens (nostalgebraist 2020) of one token: from the embedding to the last block."""

    rows: list[LensRow]
    target: int

    def to_dict(self) -> dict[str, Any]:
        return {"target": self.target, "rows": [asdict(row) for row in self.rows]}

    def __str__(self) -> str:
        lines = [f"{'blocks':>6}{'logit':>10}{'chance':>9}{'rank':>7}  likeliest"]
        for row in self.rows:
            words = row.words or list(map(str, row.tokens))
            said = "  ".join(f"{word!r} {chance:.2f}" for word, chance in zip(words, row.probabilities, strict=True))
            lines.append(f"{row.blocks:>6}{row.logit:>10.3f}{row.probability:>9.4f}{row.rank:>7}  {said}")
        return escape_controls("\n".join(lines))


def attribute_logit(
    model: nn.Module,
    inputs: object,
    layout: ResidualLayout,
    target: int | None = None,
    against: int | None = None,
    row: int = -1,
    spell: Spell | None = None,
) -> LogitAttribution:
    """What each part of the model added to one logit, directly: through the last norm and W_U, by no later part."""
    record = record_stream(model, inputs, layout, row)
    taken = take_apart(model, record, layout)
    target = choose_token(target, record.logits)
    direction, bias = unembedding_row(layout, target)
    value = float(record.logits[target])
    if against is not None:
        against = check_index(against, "vocabulary", len(record.logits))
        other, other_bias = unembedding_row(layout, against)
        direction, bias, value = direction - other, bias - other_bias, value - float(record.logits[against])
    numbers = taken.vectors @ direction
    numbers[1] += bias
    products = float((taken.vectors.abs() @ direction.abs()).sum()) + abs(bias)
    eps = max(torch.finfo(dtype).eps for dtype in (record.logits.dtype, torch.float32))  # many norms use float32
    tolerance = ROUNDING * eps * products
    receipt = SumReceipt(abs(float(numbers.sum()) - value), tolerance)
    if not receipt.holds:
        raise Misfit(
            f"the parts of a logit must add up to it, but they are off by {receipt.difference:.1e} of at most"
            f" {tolerance:.1e}; this model adds something that its layout does not name, so nothing of it is shown"
        )
    named = [name_part(part, number) for part, number in zip(taken.parts, numbers.tolist(), strict=True)]
    parts = sorted(named, key=lambda part: -abs(part.value))
    words = () if spell is None else tuple(spell([target] if against is None else [target, against]))
    return LogitAttribution(parts, value, target, against, receipt, words)


def logit_lens(
    model: nn.Module,
    inputs: object,
    layout: ResidualLayout,
    target: int | None = None,
    row: int = -1,
    k: int = 3,
    spell: Spell | None = None,
) -> LogitLens:
    """What the model would say after each block, if the last norm and W_U followed at once."""
    record = record_stream(model, inputs, layout, row)
    taken = take_apart(model, record, layout)
    target = choose_token(target, record.logits)
    rows = []
    for blocks, logits in enumerate(lens_logits(model, record, taken, layout)):
        chances = logits.softmax(dim=-1)
        top = chances.topk(min(k, len(chances)))
        rank = int((logits > logits[target]).sum())
        words = [] if spell is None else list(spell(top.indices.tolist()))
        said = (top.indices.tolist(), top.values.tolist(), float(logits[target]), float(chances[target]), rank, words)
        rows.append(LensRow(blocks, *said))
    return LogitLens(rows, target)


def lens_logits(
    model: nn.Module, record: StreamRecord, taken: TakenApart, layout: ResidualLayout
) -> list[Float[Tensor, " vocabulary"]]:
    """The logits of the stream after each block, through the model's own closing norm."""
    found, W_U = [], layout.W_U.detach()
    for stream in taken.after_blocks:
        x = stream
        for step in layout.closing:
            norm: Any = find_module(model, step.path)
            with torch.no_grad():
                x = norm(x.to(record.logits.dtype)[None, None])[0, 0].double()
        logits = W_U.double() @ (layout.scale * x)
        found.append(logits if layout.b_U is None else logits + layout.b_U.detach().double())
    return found


def choose_token(target: int | None, logits: Tensor) -> int:
    return int(logits.argmax()) if target is None else check_index(target, "vocabulary", len(logits))


def unembedding_row(layout: ResidualLayout, token: int) -> tuple[Float[Tensor, " d_model"], float]:
    """The row of W_U, scaled, and the bias of one token."""
    bias = 0.0 if layout.b_U is None else float(layout.b_U[token].detach())
    return layout.scale * layout.W_U[token].detach().double(), bias


def name_part(part: StreamPart, value: float) -> LogitPart:
    return LogitPart(part.kind, part.layer, part.head, part.name, value)
