"""A small model and a training loop of few lines, for one process or several."""

import math
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transom.equations.masks import padding
from transom.layers import Embedding, FeedForward, MultiHeadAttention, PreNorm, Sinusoidal, Stack
from transom.training.checkpoint import Checkpoints
from transom.training.checkpoint_files import Checkpoint
from transom.training.distributed import World
from transom.training.training_state import (
    model_tensors,
    optimizer_settings,
    optimizer_tensors,
    restore_model,
    restore_optimizer,
)

VOCABULARY, D_MODEL, STEPS, KEPT = 29, 13, 5, 3


class Toy(nn.Module):
    """Three blocks between an embedding and the same embedding on the way back."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding(VOCABULARY, D_MODEL, padding=0, positions=Sinusoidal(D_MODEL))
        self.stack = Stack(block, layers=3)

    def hidden(self, tokens: Tensor) -> Tensor:
        return self.stack(self.embedding(tokens), allowed=padding(tokens != 0), causal=True)

    def logits(self, tokens: Tensor) -> Tensor:
        return self.embedding.logits(self.hidden(tokens))


def block() -> PreNorm:
    return PreNorm(MultiHeadAttention(D_MODEL, heads=3, d_head=5), FeedForward(D_MODEL, 17))


def summed_loss(model: Toy, tokens: Tensor) -> Tensor:
    """The loss of each next token, added up, by other ways into the model than its forward."""
    logits = model.logits(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0, reduction="sum")


def batch(step: int, number: int, part: slice) -> Tensor:
    """The rows of a global batch that a process takes, as long as its own longest; in step 2 there is but one row."""
    chance = torch.Generator().manual_seed(100 * step + number)
    lengths = torch.randint(3, 11, (1 if step == 2 else 7,), generator=chance).tolist()
    rows = [torch.randint(1, VOCABULARY, (length,), generator=chance) for length in lengths][part]
    tokens = torch.zeros(len(rows), max(map(len, rows), default=2), dtype=torch.int64)
    for row, found in zip(tokens, rows, strict=True):
        row[: len(found)] = found
    return tokens


class Run(NamedTuple):
    """A model on its way, in one world."""

    world: World
    model: Toy
    wrapped: nn.Module
    optimizer: torch.optim.Optimizer


def begun(world: World, sharding: str, seed: int = 37) -> Run:
    torch.manual_seed(seed)
    model = Toy().double()
    wrapped = world.wrap(model, sharding)
    matrices = [parameter for parameter in wrapped.parameters() if parameter.dim() == 2]
    vectors = [parameter for parameter in wrapped.parameters() if parameter.dim() == 1]
    decaying = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return Run(world, model, wrapped, torch.optim.AdamW(decaying, lr=0.01, fused=True))


def updated(run: Run, step: int) -> tuple[float, float]:
    """One update over two global batches; gives the mean loss and the gradient's norm."""
    world, _, wrapped, optimizer = run
    batches = [batch(step, number, world.part) for number in range(2)]
    targets = world.all_sum(sum(int((tokens[:, 1:] != 0).sum()) for tokens in batches))
    total = 0.0
    for number, tokens in enumerate(batches):
        with world.no_sync(wrapped, number == 0):
            loss = world.forward(wrapped, summed_loss, tokens)
            (loss * (world.size / targets)).backward()
        total += float(loss.detach())
    norm = world.full(nn.utils.clip_grad_norm_(wrapped.parameters(), 0.5))
    assert not world.any(not (math.isfinite(total) and math.isfinite(float(norm))))
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return world.all_sum(total) / targets, float(norm)


def keep(run: Run, folder: Path, step: int) -> None:
    """A checkpoint of whole tensors, written by the process that leads."""
    tensors = {
        "model": run.world.gather_tensors(model_tensors(run.model)),
        "optimizer": run.world.gather_tensors(optimizer_tensors(run.model, run.optimizer)),
    }
    if run.world.leads:
        with Checkpoints(folder) as checkpoints:
            checkpoints.save(step, tensors, {"optimizer": optimizer_settings(run.optimizer)})
    run.world.wait("checkpoint", seconds=20)


def take(run: Run, checkpoint: Checkpoint) -> None:
    restore_model(run.model, checkpoint.tensors["model"])
    restore_optimizer(run.model, run.optimizer, checkpoint.tensors["optimizer"], checkpoint.state["optimizer"])


def trained(run: Run, folder: Path, first: int = 0) -> list[tuple[float, float]]:
    """All steps from the `first` on, with a checkpoint after KEPT of them and at the end."""
    found = []
    for step in range(first, STEPS):
        found.append(updated(run, step))
        if step + 1 in (KEPT, STEPS):
            keep(run, folder, step + 1)
    return found
