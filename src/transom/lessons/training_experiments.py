"""Experiments that train a small model: what it learns, and what happens if it may look ahead."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from transom.lessons.step_builders import table_step
from transom.lessons.steps import Step

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def what_is_learned(seed: int) -> Iterator[Step]:
    """Two sentences through one attention: what differs between them, and the gradient of a loss on the first.

    The gradient reaches every tensor on its way back, computed ones too; an optimizer changes only the parameters.
    """
    import torch

    rng = torch.Generator().manual_seed(seed)
    shapes = {"embeddings": (5, 4), "W_Q": (4, 3), "W_K": (4, 3), "W_V": (4, 3)}
    parameters = {
        name: torch.randn(shape, generator=rng, dtype=torch.float64, requires_grad=True)
        for name, shape in shapes.items()
    }
    first, second = (compute_attention(parameters, ids) for ids in ([0, 1, 2], [0, 3, 4]))
    gradients = torch.autograd.grad(first["context"].square().sum(), list(first.values()))
    rows = {}
    for (name, tensor), gradient in zip(first.items(), gradients, strict=True):
        difference = float((tensor - second[name]).detach().abs().max())
        rows[name] = (difference, float(name in parameters), float(gradient.norm()))
    columns = ("difference", "is a parameter", "gradient")
    yield table_step("learned", "what is learned, and what is computed", columns, rows)


def compute_attention(parameters: "dict[str, Tensor]", ids: list[int]) -> "dict[str, Tensor]":
    """Every tensor of an attention over these tokens, the parameters among them."""
    from transom.equations import attention

    x = parameters["embeddings"][ids]
    projected = {letter: x @ parameters[f"W_{letter}"] for letter in "QKV"}
    scores = attention.scale_scores(attention.scores(projected["Q"], projected["K"]), projected["Q"].shape[-1])
    weights = attention.softmax(scores)
    context = attention.context(weights, projected["V"])
    return {**parameters, **projected, "scores": scores, "weights": weights, "context": context}


def look_ahead(updates: int, seed: int) -> Iterator[Step]:
    """A small language model trained with the causal mask, and one without: its loss, and what it generates.

    The text counts in a circle, but a quarter of its steps are random: a model that does not look ahead cannot get
    below the entropy of those.
    """
    models = {"with the mask": True, "without": False}
    rows = {name: train_language_model(causal, updates, seed) for name, causal in models.items()}
    yield table_step("writer", "what a writer learns that may look ahead", ("loss", "floor", "written right"), rows)


VOCABULARY, LENGTH, NOISE = 7, 11, 0.25
RATE, MOMENTUM = 0.4, 0.9  # of plain gradient descent


def train_language_model(causal: bool, updates: int, seed: int) -> tuple[float, float, float]:
    """Its loss on new text, the least possible without looking ahead, and how often its next token is right."""
    import torch

    rng = torch.Generator().manual_seed(seed)
    model = language_model(rng)
    parameters = list(model.parameters())
    velocities = [torch.zeros_like(parameter) for parameter in parameters]
    for _ in range(updates):
        gradients = torch.autograd.grad(next_token_loss(model, sample_text(48, rng), causal), parameters)
        for parameter, velocity, gradient in zip(parameters, velocities, gradients, strict=True):
            velocity.mul_(MOMENTUM).add_(gradient)
            parameter.data.sub_(RATE * velocity)
    with torch.no_grad():
        ids = sample_text(512, rng)
        loss = float(next_token_loss(model, ids, causal))
        # In generation there is nothing ahead: the model sees only the tokens so far.
        generated = next_logits(model, ids[:, :5], causal)[:, -1].argmax(dim=-1)
        right = float((generated == (ids[:, 4] + 1) % VOCABULARY).double().mean())
    likely, other = 1 - NOISE + NOISE / VOCABULARY, NOISE / VOCABULARY
    return loss, -likely * math.log(likely) - (VOCABULARY - 1) * other * math.log(other), right


def sample_text(rows: int, rng: "torch.Generator") -> "Tensor":
    """Token ids that count on, but jump now and then."""
    import torch

    ids = [torch.randint(VOCABULARY, (rows,), generator=rng)]
    for _ in range(LENGTH):
        jumps = torch.rand(rows, generator=rng) < NOISE
        anywhere = torch.randint(VOCABULARY, (rows,), generator=rng)
        ids.append(torch.where(jumps, anywhere, (ids[-1] + 1) % VOCABULARY))
    return torch.stack(ids, dim=1)


def language_model(rng: "torch.Generator", d_model: int = 16) -> Any:
    """Embeddings of tokens and positions, one self-attention with a residual, and logits of the next token."""
    import torch
    from torch import nn

    from transom.layers import SelfAttention

    model = nn.Module()
    shapes = {"tokens": (VOCABULARY, d_model), "positions": (LENGTH, d_model), "out": (d_model, VOCABULARY)}
    for name, shape in shapes.items():
        model.register_parameter(name, nn.Parameter(torch.randn(shape, generator=rng) / 5))
    model.attention = SelfAttention(d_model)
    with torch.no_grad():
        for W in (model.attention.W_Q, model.attention.W_K, model.attention.W_V):
            W.weight.copy_(torch.randn(d_model, d_model, generator=rng) / math.sqrt(d_model))
    return model


def next_logits(model: Any, ids: "Tensor", causal: bool) -> "Tensor":
    """Logits of the next token at every position."""
    x = model.tokens[ids] + model.positions[: ids.shape[1]]
    return (x + model.attention(x, causal=causal)) @ model.out


def next_token_loss(model: Any, ids: "Tensor", causal: bool) -> "Tensor":
    from torch.nn.functional import cross_entropy

    return cross_entropy(next_logits(model, ids[:, :-1], causal).flatten(0, 1), ids[:, 1:].flatten())
