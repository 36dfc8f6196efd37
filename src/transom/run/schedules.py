"""How the learning rate goes over the updates of a run: each a share of the highest rate, from update 1 on."""

import math
from collections.abc import Callable

Schedule = Callable[[int, int, int, float], float]


def inverse_sqrt(update: int, warmup: int, updates: int, final: float) -> float:
    """Up in a line, then down with 1/√update (Vaswani et al. 2017, equation 3)."""
    return rising(update, warmup) if update < warmup else math.sqrt(max(1, warmup) / update)


def cosine(update: int, warmup: int, updates: int, final: float) -> float:
    """Up in a line, then down half a cosine to `final` (Loshchilov & Hutter 2017, equation 5)."""
    if update < warmup:
        return rising(update, warmup)
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * done(update, warmup, updates)))


def linear(update: int, warmup: int, updates: int, final: float) -> float:
    """Up in a line, then down in a line to `final`."""
    if update < warmup:
        return rising(update, warmup)
    return 1.0 - (1.0 - final) * done(update, warmup, updates)


def constant(update: int, warmup: int, updates: int, final: float) -> float:
    """Up in a line, then the same for ever."""
    return min(1.0, rising(update, warmup))


def rising(update: int, warmup: int) -> float:
    return update / max(1, warmup)


def done(update: int, warmup: int, updates: int) -> float:
    """How much of the way from the end of the warm-up to the end of the run lies behind."""
    return min(1.0, (update - warmup) / max(1, updates - warmup))


SCHEDULES: dict[str, Schedule] = {
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
}
