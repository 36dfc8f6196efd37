"""A small decoder that finds a value by its key in a text of any length, trained in a minute or two from a seed.

A text is noise with four pairs of a key and its value somewhere in it, and ends with one of the keys; what follows is
its value. Layer 0 sees a token and the one before it, layer 1 everything, and there are no other positions: so a length
that it was not trained on is nothing new but for the number of keys that share the weight.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import transom
from bench.measuring.instruments import note
from bench.planted_facts import place_by_points, place_of
from transom.models import Decoder, DecoderConfig

KEYS, VALUES, NOISE, PAIRS = 16, 16, 32, 4
STAGES = [(16, 64, 300), (64, 64, 150), (256, 16, 100), (1024, 4, 80)]  # tokens, texts at once, updates
RATE, WARM_UP = 3e-3, 50
PASSAGE, REFINE = 50, 4  # tokens of a passage; passages that are knocked out truly


def new_copier() -> Decoder:
    return Decoder(
        DecoderConfig(
            vocabulary=KEYS + VALUES + NOISE,
            layers=2,
            d_model=64,
            heads=2,
            d_hidden=64,
            positions="none",
            arrangement="pre_norm",
            sliding_window=2,
            sliding_layers=(0,),
            dropout=0.0,
            padding=None,
        )
    )


def draw_texts(count: int, length: int, draws: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Texts, the value that follows each, and where its pair stands."""
    tokens = torch.randint(KEYS + VALUES, KEYS + VALUES + NOISE, (count, length), generator=draws)
    keys = torch.rand(count, KEYS, generator=draws).topk(PAIRS).indices
    values = KEYS + torch.randint(VALUES, (count, PAIRS), generator=draws)
    starts = 2 * torch.rand(count, (length - 1) // 2, generator=draws).topk(PAIRS).indices
    tokens.scatter_(1, starts, keys).scatter_(1, starts + 1, values)
    tokens[:, -1] = keys[:, 0]
    return tokens, values[:, 0], starts[:, 0]


def train_copier(seed: int) -> Decoder:
    """Longer texts stage by stage."""
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed)
    model = new_copier().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for length, count, updates in STAGES:
        losses = []
        for update in range(updates):
            optimizer.param_groups[0]["lr"] = RATE * min(1.0, (update + 1) / WARM_UP)
            tokens, values, _ = draw_texts(count, length, draws)
            loss = F.cross_entropy(model.logits(model.hidden(tokens)[:, -1]), values)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        note(f"copier: {updates} updates with {length} tokens, loss {sum(losses[-50:]) / len(losses[-50:]):.3f}")
    return model.eval()


def find_copied(
    lengths: Sequence[int], texts: Sequence[int], seed: int, points: int
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """For each length, what the model says of its texts, and where the passage with the pair stands."""
    model, draws = train_copier(seed), torch.Generator().manual_seed(seed + 1)
    for length, count in zip(lengths, texts, strict=True):
        tokens, values, places = draw_texts(count, length, draws)
        rows = []
        for text, value, place in zip(tokens, values.tolist(), places.tolist(), strict=True):
            found = transom.influence(model, text[None])
            spans = {str(start): (start, min(start + PASSAGE, length - 1)) for start in range(0, length - 1, PASSAGE)}
            row: dict[str, Any] = {"right": found.target == value, "passages": len(spans)}
            if row["right"]:
                planted = str(place - place % PASSAGE)
                row |= place_of(found.sources(spans, refine=REFINE), planted)
                again = transom.influence(model, text[None], points=points) if points > 1 else None
                row |= {} if again is None else place_by_points(again, spans, planted)
            rows.append(row)
            note(f"{length} tokens: {row}")
        yield length, rows
