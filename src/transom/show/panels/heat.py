"""Where a number stands between the lowest and the highest, and what it looks like there."""

import math

import msgspec

from transom.names import Misfit
from transom.show.colours import RGB, colour, known
from transom.show.numbers import NOTHING, finite

SHADES = " ░▒▓█"
SCALES = ("linear", "log")
DECADES = 4  # a log scale reaches down to 1/10,000 of the highest


class Heat(msgspec.Struct, frozen=True):
    """A scale from numbers to colours: low is the first colour of the map, high the last."""

    low: float
    high: float
    colours: str = "blues"
    scale: str = "linear"

    def share(self, value: float) -> float:
        """From 0 to 1."""
        if self.scale == "log":
            return 0.0 if value <= 0 else max(0.0, 1 + math.log10(value / self.high) / DECADES)
        return 0.5 if self.high == self.low else min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def rgb(self, value: float) -> RGB:
        return colour(self.colours, self.share(value))

    def rough(self, value: float) -> RGB:
        """The colour in one of 65 steps, so that many cells share it."""
        return colour(self.colours, round(64 * self.share(value)) / 64)

    def shade(self, value: float | None) -> str:
        """A block, the darker the more; for two signs, the further from zero."""
        if value is None or math.isnan(value):
            return NOTHING
        share = self.share(value)
        share = abs(2 * share - 1) if self.colours == "diverging" else share
        return SHADES[min(len(SHADES) - 1, math.ceil(share * (len(SHADES) - 1) - 1e-9))]


def heat(values: list[float | None], colours: str = "blues", scale: str = "linear", top: float | None = None) -> Heat:
    """The scale that fits some numbers: from 0 (or the lowest) to `top` (or the highest); two signs reach alike."""
    if scale not in SCALES:
        raise Misfit(f"scale must be linear or log, but got {scale!r}; log shows small weights beside large ones")
    there = finite(values) or [0.0]
    if known(colours) == "diverging":
        far = max(abs(one) for one in there) or 1.0
        return Heat(-far, far, colours)
    high = max(there) if top is None else top
    return Heat(min(0.0, *there), high if high > 0 else 1.0, colours, scale)
