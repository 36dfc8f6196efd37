"""One thing to draw for each view, with labels that can be chosen; small, prime sizes, all different."""

from functools import cache
from typing import Any

import numpy as np
import torch

import transom
from transom.lens import Trace
from transom.lessons import steps_of
from transom.show import draw

HEADS, TOKENS, WIDTH = 3, 5, 7
HEAD = 1
WORDS = ("the", "quick", "fox", "jumps", "over")


@cache
def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(11)
    Q, K, V = (torch.randn(1, HEADS, TOKENS, WIDTH, generator=made, dtype=torch.float64) for _ in range(3))
    return 2 * Q, K, V


@cache
def sight() -> transom.Sight:
    return transom.sight(*tensors(), causal=True)


def trace(words: tuple[str, ...] = WORDS) -> Trace:
    found = Trace(list(words))
    for number in range(2):
        Q, K, V = tensors()
        found.add(f"blocks.{number}.attention", transom.sight(Q * (number + 1), K, V, causal=True))
    return found


def stages(words: tuple[str, ...] = WORDS) -> list[tuple[str, Any]]:
    made = np.random.default_rng(13)
    return [(word, made.normal(size=WIDTH)) for word in words]


def curves(words: tuple[str, ...] = WORDS) -> dict[str, list[tuple[float, float]]]:
    return {word: [(float(x), 3.0 + number + 1.0 / (x + 1)) for x in range(11)] for number, word in enumerate(words)}


def small_config() -> Any:
    """A decoder whose every size is another prime, or twice one."""
    from transom.models import DecoderConfig

    sizes = {"d_model": 22, "heads": 2, "d_hidden": 13, "vocabulary": 17, "layers": 3}
    return DecoderConfig(**sizes, arrangement="pre_norm", tying="none")


# What each view draws, with labels that a test may choose.
SAMPLES: dict[str, Any] = {
    "steps": lambda words=WORDS: (steps_of(sight(), 0, HEAD, words), {}),
    "sequence": lambda words=WORDS: (sight(), {"tokens": words, "head": HEAD, "rows": [2, 4]}),
    "arrows": lambda words=WORDS: (sight(), {"tokens": words, "head": HEAD}),
    "matrix": lambda words=WORDS: (trace(words), {"head": HEAD, "layer": "blocks.0.attention"}),
    "heads": lambda words=WORDS: (trace(words), {"model": words[0]}),
    "rows": lambda words=WORDS: (sight(), {"tokens": words, "head": HEAD, "rows": 3}),
    "context": lambda words=WORDS: (stages(words), {"token": words[0]}),
    "histogram": lambda words=WORDS: (sight(), {"tokens": words, "head": HEAD, "bins": 5, "model": words[0]}),
    "entropy": lambda words=WORDS: (sight(), {"model": words[0]}),
    "curves": lambda words=WORDS: (curves(words), {"title": words[0]}),
    "vectors": lambda words=WORDS: (sight(), {"tokens": words, "head": HEAD, "row": 3}),
    "fold": lambda words=WORDS: (trace(words), {"layer": 0}),
    "architecture": lambda words=WORDS: (small_config(), {"model": words[0]}),
}


@cache
def sample(view: str, words: tuple[str, ...] = WORDS) -> Any:
    thing, options = SAMPLES[view](words)
    return draw(view, thing, **options)


@cache
def formed(view: str, form: str) -> str:
    """A sample in one of its forms: svg, html, text."""
    return getattr(sample(view), form)()
