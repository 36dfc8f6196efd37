"""How heads are folded out of one wide matrix, look each by itself, and are put side by side again."""

from typing import Any

from transom.names import Misfit, count_noun
from transom.show.panels.fold_diagram import FoldDiagram, Rows
from transom.show.picture import Picture, Source, Table
from transom.show.selected_head import find_attention, receipt_summary, trace_labels

HEADS, TOKENS, NUMBERS = 4, 6, 4  # that are drawn


def fold(thing: Any, *, layer: str | int | None = None, batch: int = 0, digits: int = 2, model: str = "") -> Picture:
    """Q of all heads as one matrix, cut into a block for each head; what each head finds; the blocks side by side."""
    name, sight = find_attention(thing, layer)
    receipt = receipt_summary(sight, name)
    if sight.shape[1] < 2:
        raise Misfit("folding needs several heads, but there is one; draw `steps`")
    Q, sums = sight.Q[batch].detach().double(), head_outputs(sight, batch, min(sight.shape[2], TOKENS))
    heads, tokens, d_head = Q.shape
    labels = trace_labels(thing, name, sight, batch, False)[0] or [str(number) for number in range(tokens)]
    shown = min(heads, HEADS), min(tokens, TOKENS), min(d_head, NUMBERS)
    panel = FoldDiagram(
        tokens=tuple(labels[: shown[1]]), wide=blocks(Q, shown), sums=blocks(sums, shown), digits=digits
    )
    parts = zip(("heads", "tokens", "numbers of a head"), shown, (heads, tokens, d_head), strict=True)
    notes = [f"Of {count} {noun}, {few} are drawn." for noun, few, count in parts if few < count]
    rows = [
        (head, labels[row], column + 1, float(Q[head, row, column]))
        for head in range(shown[0])
        for row in range(shown[1])
        for column in range(shown[2])
    ]
    return Picture(
        view="fold",
        title=f"Fold and unfold: {count_noun(heads, 'head')} of {d_head} numbers",
        panels=(panel,),
        source=Source(model=model, layer=name, receipt=receipt),
        notes=tuple(notes),
        table=Table(("head", "token", "number", "Q"), tuple(rows)),
    )


def head_outputs(sight: Any, batch: int, tokens: int) -> Any:
    """(heads, tokens, d_value): what each head found for the first tokens."""
    import torch

    V = sight.V[batch].detach().double()
    group = sight.shape[1] // len(V)
    return torch.stack(
        [
            sight.weights(batch=batch, head=head, rows=list(range(tokens))).double() @ V[head // group]
            for head in range(sight.shape[1])
        ]
    )


def blocks(x: Any, shown: tuple[int, int, int]) -> tuple[Rows, ...]:
    """The part of (heads, tokens, numbers) that is drawn, as plain data."""
    part = x[: shown[0], : shown[1], : shown[2]]
    return tuple(tuple(map(tuple, head)) for head in part.tolist())
