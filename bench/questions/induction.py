"""Are the heads found that are known to be there?

A model of two attention layers learns to continue a repeated random sequence. That takes a previous-token head and,
above it, an induction head, which attends to what followed an earlier copy (Olsson et al. 2022, arXiv 2209.11895).
`transom.heads` must find both. Knocking them out, or only their edges, must destroy the ability; knocking out as many
edges beside them must not. One layer alone must fail, and a replay must show when the ability appeared.

    python -m bench induction [--json] [--quick]
"""

import tempfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transom
from bench.measuring.instruments import machine_info, note, print_answer
from transom.lens import Recorder

VOCABULARY, HALF, D_MODEL, HEADS = 61, 19, 32, 2
ROWS, UPDATES, RATE, WARM_UP = 32, 800, 1e-2, 50
RECORD_EVERY = 40  # updates between two frames of the replay
SHARE = 0.5  # a head counts if its measure is at least this share of the strongest head's


class Attention(nn.Module):
    """A residual attention layer; positions are added only for queries and keys, so values depend on tokens alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(D_MODEL)
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(D_MODEL, D_MODEL, bias=False) for _ in range(4))
        self.positions = nn.Parameter(torch.randn(2 * HALF, D_MODEL) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(x)
        placed = tokens + self.positions[: x.shape[1]]
        Q, K, V = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (self.W_Q(placed), self.W_K(placed), self.W_V(tokens))
        )
        return x + self.W_O(F.scaled_dot_product_attention(Q, K, V, is_causal=True).transpose(1, 2).flatten(2))


class AttentionOnly(nn.Module):
    """Embedding, attention layers, and the output layer."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, D_MODEL)
        self.layers = nn.ModuleList(Attention() for _ in range(layers))
        self.norm, self.output = nn.LayerNorm(D_MODEL), nn.Linear(D_MODEL, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def repeated_tokens(rows: int, half: int, draws: torch.Generator) -> Tensor:
    """Random tokens, repeated once."""
    first = torch.randint(0, VOCABULARY, (rows, half), generator=draws)
    return torch.cat([first, first], dim=1)


def second_half(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and right tokens of the second half, which the first half determines."""
    half = tokens.shape[1] // 2
    return logits[:, half:-1].flatten(0, 1), tokens[:, half + 1 :].flatten()


def train(layers: int, seed: int, updates: int, on_update: Callable[[nn.Module, int, float], None]) -> AttentionOnly:
    """Train a model to continue repeated sequences of many lengths; `on_update` is called after each update."""
    torch.manual_seed(seed)
    model, draws = AttentionOnly(layers), torch.Generator().manual_seed(seed + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.0)
    for update in range(1, updates + 1):
        half = int(torch.randint(HALF // 2, HALF + 1, (), generator=draws))
        tokens = repeated_tokens(ROWS, half, draws)
        loss = F.cross_entropy(*second_half(model(tokens), tokens))
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, update / WARM_UP, 1.1 - update / updates)
        optimizer.step()
        on_update(model, update, float(loss.detach()))
    return model.eval()


def probe_tokens() -> Tensor:
    """Sequences that are not in the training data."""
    return repeated_tokens(64, HALF, torch.Generator().manual_seed(7))


def accuracy(model: nn.Module) -> float:
    """The share of the second half that is predicted correctly."""
    tokens = probe_tokens()
    with torch.no_grad():
        logits, right = second_half(model(tokens), tokens)
    return float((logits.argmax(dim=-1) == right).float().mean())


def measure_heads(model: nn.Module) -> Any:
    """A table of every head of a model on the probe tokens."""
    tokens = probe_tokens()
    with torch.no_grad(), transom.watch(model) as trace:
        model(tokens)
    return transom.heads(trace, tokens=tokens)


@dataclass(frozen=True)
class Part:
    """The heads of one layer that count by a measure, and the others."""

    layer: str
    measure: str
    heads: list[int]
    others: list[int]


def find_part(table: Any, layer: str, measure: str) -> Part:
    rows = [row for row in table if row.layer == layer]
    strongest = max(row[measure] for row in rows)
    heads = [row.head for row in rows if row[measure] >= SHARE * strongest]
    return Part(layer, measure, heads, [row.head for row in rows if row.head not in heads])


def accuracy_without(model: nn.Module, layer: str, heads: list[int]) -> float:
    """The accuracy with these heads knocked out."""
    if not heads:
        return accuracy(model)
    with transom.knock_out(model, layer=layer, head=heads):
        return accuracy(model)


def accuracy_without_edges(model: nn.Module, layer: str, back: int) -> float:
    """The accuracy when no head of a layer may attend to the token `back` places before."""
    rows = range(back, 2 * HALF)
    with transom.knock_out(model, edges=[(layer, None, row, row - back) for row in rows]):
        return accuracy(model)


def read_learning_curve(path: Path) -> list[dict[str, float]]:
    """For each frame of a replay: the loss, and the strongest induction and previous-token head."""
    replay = transom.lens.Replay.load(path)
    losses = dict(zip(*replay.losses.points(), strict=True))
    found = []
    for number, update in enumerate(replay.updates):
        table = transom.heads(replay.at(number), ["previous", "induction"])
        near = min(losses, key=lambda one: abs(one - update))
        best = {name: table.sorted(name, 1).rows[0][name] for name in table.measures}
        found.append({"update": update, "loss": losses[near], **best})
    return found


def measure(seed: int = 0, updates: int = UPDATES) -> dict[str, Any]:
    """Train both models, measure their heads, and knock them out."""
    with tempfile.TemporaryDirectory() as folder:
        words = [[str(token) for token in probe_tokens()[0].tolist()]]
        recorder = Recorder(Path(folder) / "replay.safetensors", lambda model: model(probe_tokens()[:1]), (words, None))

        def record(model: nn.Module, update: int, loss: float) -> None:
            recorder.add_loss(update, loss)
            if update == 1 or update % RECORD_EVERY == 0:
                recorder.record(model, update)

        two = train(2, seed, updates, record)
        recorder.save()
        course = read_learning_curve(recorder.path)
    one = train(1, seed, updates, lambda model, update, loss: None)
    table = measure_heads(two)
    parts = [find_part(table, "layers.0", "previous"), find_part(table, "layers.1", "induction")]
    return {
        "machine": machine_info(),
        "seed": seed,
        "updates": updates,
        "two layers": accuracy(two),
        "one layer": accuracy(one),
        "heads": table.to_dicts(),
        "one layer's heads": measure_heads(one).to_dicts(),
        "knocked out": [
            {
                "layer": found.layer,
                "measure": found.measure,
                "heads": found.heads,
                "without them": accuracy_without(two, found.layer, found.heads),
                "without the others": accuracy_without(two, found.layer, found.others) if found.others else None,
                "without its arrows": accuracy_without_edges(two, found.layer, back),
                "without those beside": accuracy_without_edges(two, found.layer, back + 2),
            }
            for found, back in zip(parts, (1, HALF - 1), strict=True)
        ],
        "course": course,
    }


def run(options: Namespace) -> int:
    updates = 100 if options.quick else UPDATES
    note(f"two layers and one layer, {updates} updates each …")
    found = measure(updates=updates)
    print_answer(options, found, render_table(found))
    return 0


def render_table(found: dict[str, Any]) -> str:
    lines = [
        f"\nAre the heads found that are known to be there?  ({found['updates']} updates)",
        f"accuracy in the second half: two layers {found['two layers']:.3f}, one layer {found['one layer']:.3f}",
    ]
    for row in found["heads"]:
        numbers = f"previous {row['previous']:.3f}, induction {row['induction']:.3f}"
        lines.append(f"{row['layer']} head {row['head']}: {numbers}")
    for one in found["knocked out"]:
        lines += [
            f"without the {one['measure']} heads {one['heads']} of {one['layer']}: {one['without them']:.3f}",
            f"   with all heads, without their arrows: {one['without its arrows']:.3f}"
            f", without as many two places beside: {one['without those beside']:.3f}",
        ]
    for step in found["course"]:
        numbers = "  ".join(f"{name} {step[name]:.3f}" for name in ("loss", "previous", "induction"))
        lines.append(f"update {step['update']:>4}  {numbers}")
    return "\n".join(lines)
