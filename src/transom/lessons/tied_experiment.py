"""An experiment: attention trained on a task that needs queries, keys and values apart, and with some of them tied."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from transom.lessons.step_builders import table_step
from transom.lessons.steps import Step

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NAMES = 3  # how many names there are, tokens in a text, and things a token can give
PARTS = ("asks for", "is called", "gives")
TIES = {"all apart": "QKV", "W_Q = W_K": "KKV", "W_K = W_V": "QKK", "all one": "KKK"}  # the matrix of Q, of K, of V
RATE = 0.1


def tied_projections(updates: int, seed: int) -> Iterator[Step]:
    """What tying W_Q, W_K and W_V costs, and what the three learn when they are apart.

    Each token asks for a name, has a name, and gives a thing: three numbers for each of them. It must say what the
    token with the name that it asks for gives.
    """
    trained = {name: train_tied(matrices, updates, seed) for name, matrices in TIES.items()}
    costs = {name: (loss, right) for name, (_, _, loss, right) in trained.items()}
    yield table_step("cost", "what tying costs", ("loss", "right"), costs)
    before, after = trained["all apart"][:2]
    rows = {}
    for letter in "QKV":
        rows[f"W_{letter} before"], rows[f"W_{letter} after"] = part_shares(before[letter]), part_shares(after[letter])
    yield table_step("use", "the share of each matrix that reads a part of the token", PARTS, rows)
    labels = [f"{part} {number + 1}" for part in PARTS for number in range(NAMES)]
    for letter in "QKV":
        for word, matrices in (("before", before), ("after", after)):
            numbers = dict(zip(labels, matrices[letter].tolist(), strict=True))
            yield table_step(f"W_{letter} {word}", f"W_{letter} {word} training", range(1, NAMES + 1), numbers)


def train_tied(matrices: str, updates: int, seed: int) -> "tuple[dict[str, Tensor], dict[str, Tensor], float, float]":
    """The three matrices before and after, the loss on new text, and how often the answer is right."""
    import torch
    from torch.nn.functional import cross_entropy

    rng = torch.Generator().manual_seed(seed)
    own = {letter: torch.randn(3 * NAMES, NAMES, generator=rng) * 0.3 for letter in "QKV"}
    before = {letter: matrix.clone() for letter, matrix in own.items()}
    used = {letter: own[name].requires_grad_() for letter, name in zip("QKV", matrices, strict=True)}
    optimizer = torch.optim.Adam({id(W): W for W in used.values()}.values(), lr=RATE)
    for _ in range(updates):
        x, targets = sample_questions(64, rng)
        optimizer.zero_grad()
        cross_entropy(attend_with(used, x).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
    with torch.no_grad():
        x, targets = sample_questions(1000, rng)
        logits = attend_with(used, x)
        loss = float(cross_entropy(logits.flatten(0, 1), targets.flatten()))
        right = float((logits.argmax(dim=-1) == targets).double().mean())
    return before, {letter: W.detach() for letter, W in used.items()}, loss, right


def attend_with(W: "dict[str, Tensor]", x: "Tensor") -> "Tensor":
    """softmax(Q Kᵀ / √d_head) V: what a token takes is its logit for each thing."""
    scores = (x @ W["Q"]) @ (x @ W["K"]).mT / math.sqrt(NAMES)
    return scores.softmax(dim=-1) @ (x @ W["V"])


def sample_questions(rows: int, rng: "torch.Generator") -> "tuple[Tensor, Tensor]":
    """Texts in which every name is there once; and what each token must say."""
    import torch

    called = torch.stack([torch.randperm(NAMES, generator=rng) for _ in range(rows)])
    asks, gives = (torch.randint(NAMES, (rows, NAMES), generator=rng) for _ in range(2))
    one_hot = torch.eye(NAMES)
    asked = (asks[:, :, None] == called[:, None, :]).int().argmax(dim=-1)
    return torch.cat([one_hot[asks], one_hot[called], one_hot[gives]], dim=-1), gives.gather(1, asked)


def part_shares(W: "Tensor") -> list[float]:
    """How much of the squares of a matrix lies in the rows that read each part of a token."""
    squares = W.square().unflatten(0, (3, NAMES)).sum(dim=(1, 2))
    return (squares / squares.sum()).tolist()
