"""What is learned and what is computed, and what a decoder learns that may look ahead: small trainings by seed."""

import math
from collections.abc import Iterator
from typing import Any

from transom.lessons.experiments.tables import measured
from transom.lessons.steps import Step


def what_is_learned(seed: int) -> Iterator[Step]:
    """Two sentences through one attention: what differs between them, and the gradient of a loss on the first.

    The gradient reaches every tensor on its way back, computed ones too; an optimizer changes only the parameters.
    """
    import torch

    draw = torch.Generator().manual_seed(seed)
    shapes = {"embeddings": (5, 4), "W_Q": (4, 3), "W_K": (4, 3), "W_V": (4, 3)}
    parameters = {
        name: torch.randn(shape, generator=draw, dtype=torch.float64, requires_grad=True)
        for name, shape in shapes.items()
    }
    first, second = (computed(parameters, words) for words in ([0, 1, 2], [0, 3, 4]))
    gradients = torch.autograd.grad(first["context"].square().sum(), list(first.values()))
    rows = {}
    for (name, tensor), gradient in zip(first.items(), gradients, strict=True):
        difference = float((tensor - second[name]).detach().abs().max())
        rows[name] = (difference, float(name in parameters), float(gradient.norm()))
    columns = ("difference between the sentences", "is a parameter", "gradient")
    yield measured("learned", "what is learned, and what is computed", columns, rows)


def computed(parameters: dict[str, Any], words: list[int]) -> dict[str, Any]:
    """Every tensor of an attention over these words, the parameters among them."""
    from transom.equations import attention

    x = parameters["embeddings"][words]
    projected = {letter: x @ parameters[f"W_{letter}"] for letter in "QKV"}
    scores = attention.scaled(attention.scores(projected["Q"], projected["K"]), projected["Q"].shape[-1])
    weights = attention.softmax(scores)
    context = attention.context(weights, projected["V"])
    return {**parameters, **projected, "scores": scores, "weights": weights, "context": context}


def look_ahead(updates: int, seed: int) -> Iterator[Step]:
    """A small writer trained with the causal mask, and one without: its loss in training, and what it writes.

    The text counts in a circle, but a quarter of its steps go anywhere: nobody who does not look ahead can get below
    the entropy of those.
    """
    rows = {word: trained(causal, updates, seed) for word, causal in (("with the mask", True), ("without", False))}
    yield measured("writer", "what a writer learns that may look ahead", ("loss", "floor", "written right"), rows)


SIGNS, LENGTH, NOISE = 7, 11, 0.25
RATE, MOMENTUM = 0.4, 0.9  # plain descent with momentum


def trained(causal: bool, updates: int, seed: int) -> tuple[float, float, float]:
    """Its loss on new text, the least one can reach without looking ahead, and how often its next sign is right."""
    import torch
    from torch.nn.functional import cross_entropy

    draw = torch.Generator().manual_seed(seed)
    model = writer(draw)
    parameters = list(model.parameters())
    pushes = [torch.zeros_like(one) for one in parameters]
    for _ in range(updates):
        signs = text(48, draw)
        loss = cross_entropy(said(model, signs[:, :-1], causal).flatten(0, 1), signs[:, 1:].flatten())
        for one, push, gradient in zip(parameters, pushes, torch.autograd.grad(loss, parameters), strict=True):
            push.mul_(MOMENTUM).add_(gradient)
            one.data.sub_(RATE * push)
    with torch.no_grad():
        signs = text(512, draw)
        loss = float(cross_entropy(said(model, signs[:, :-1], causal).flatten(0, 1), signs[:, 1:].flatten()))
        # In writing there is nothing ahead: only what is already there is fed in.
        written = said(model, signs[:, :5], causal)[:, -1].argmax(dim=-1)
        right = float((written == (signs[:, 4] + 1) % SIGNS).double().mean())
    own, other = 1 - NOISE + NOISE / SIGNS, NOISE / SIGNS
    return loss, -own * math.log(own) - (SIGNS - 1) * other * math.log(other), right


def text(rows: int, draw: Any) -> Any:
    """Signs that count on, but now and then jump."""
    import torch

    signs = [torch.randint(SIGNS, (rows,), generator=draw)]
    for _ in range(LENGTH):
        jumps = torch.rand(rows, generator=draw) < NOISE
        anywhere = torch.randint(SIGNS, (rows,), generator=draw)
        signs.append(torch.where(jumps, anywhere, (signs[-1] + 1) % SIGNS))
    return torch.stack(signs, dim=1)


def writer(draw: Any, d_model: int = 16) -> Any:
    """Signs and places as vectors, one self-attention with a residual, and a chance for each next sign."""
    import torch
    from torch import nn

    from transom.layers import SelfAttention

    shapes = {"signs": (SIGNS, d_model), "places": (LENGTH, d_model), "out": (d_model, SIGNS)}
    parts = {name: nn.Parameter(torch.randn(shape, generator=draw) / 5) for name, shape in shapes.items()}
    model = nn.Module()
    for name, part in parts.items():
        model.register_parameter(name, part)
    model.attention = SelfAttention(d_model)
    with torch.no_grad():
        for W in (model.attention.W_Q, model.attention.W_K, model.attention.W_V):
            W.weight.copy_(torch.randn(d_model, d_model, generator=draw) / math.sqrt(d_model))
    return model


def said(model: Any, signs: Any, causal: bool) -> Any:
    """Logits of the next sign at every place."""
    x = model.signs[signs] + model.places[: signs.shape[1]]
    return (x + model.attention(x, causal=causal)) @ model.out
