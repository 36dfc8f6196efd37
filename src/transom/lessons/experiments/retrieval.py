"""Finding one thing again, near and far, among few and many."""

from collections.abc import Iterator

import numpy as np

from transom.lessons.experiments.tables import measured
from transom.lessons.made import softmax_of
from transom.lessons.steps import Step

DISTANCES = (1, 10, 100, 1000)
CROWDS = (10, 100, 1000, 10_000)


def retrieval(width: int, sharpness: float, decay: float, seed: int) -> Iterator[Step]:
    """The weight on the one key that matches, at growing distance: attention beside a memory that fades.

    width       numbers in a key; keys are random and one long
    sharpness   the score of the key that matches
    decay       what is left of a fading memory after each token
    """
    keys = unit(np.random.default_rng(seed).standard_normal((max(DISTANCES) + 1, width)))
    attention, fading = [], []
    for distance in DISTANCES:
        placed = keys.copy()
        placed[[-1 - distance, 0]] = placed[[0, -1 - distance]]  # the same keys, the wanted one at this distance
        weights = softmax_of((sharpness * placed @ keys[0])[None])[0]
        attention.append(weights[-1 - distance])
        fading.append((1.0 - decay) * decay**distance)
    rows = {"attention": attention, "fading memory": fading}
    far = [f"{distance} tokens" for distance in DISTANCES]
    yield measured("found", "weight on the token that is looked for", far, rows)
    yield crowded(width, sharpness, seed)


def crowded(width: int, sharpness: float, seed: int) -> Step:
    """The same with more and more other keys: what they take together grows with their number."""
    draw, found = np.random.default_rng(seed + 1), []
    for crowd in CROWDS:
        keys = unit(draw.standard_normal((crowd, width)))
        found.append(softmax_of((sharpness * keys @ keys[0])[None])[0, 0])
    among = [f"among {crowd}" for crowd in CROWDS]
    return measured("crowd", "weight on it among more and more tokens", among, {"attention": found})


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)
