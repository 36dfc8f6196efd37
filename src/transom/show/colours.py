"""Colours for the terminal and for SVG, and the scale from a number to a colour."""

import math
from collections.abc import Sequence

import msgspec

from transom.names import Misfit
from transom.show.formatting import NO_NUMBER, is_number, to_fixed

RGB = tuple[int, int, int]

INK, FAINT, RULE, PAPER = "#1b1f24", "#57606a", "#d0d7de", "#ffffff"
MASKED_FILL = "#e6e8eb"

# Colour maps: control points, evenly spaced, straight lines between them.
MAPS: dict[str, Sequence[RGB]] = {
    # white to navy: zero is the colour of paper, so that larger numbers stand out, also in print
    "blues": [(255, 255, 255), (222, 235, 247), (166, 203, 229), (92, 156, 205), (32, 102, 168), (8, 48, 107)],
    # Nuñez, Anderton and Renslow 2018: looks the same with and without red–green blindness
    "cividis": [(0, 32, 77), (49, 68, 107), (102, 105, 112), (149, 143, 120), (203, 186, 105), (255, 234, 70)],
    # Smith and van der Walt 2015
    "viridis": [(68, 1, 84), (65, 68, 135), (42, 120, 142), (34, 168, 132), (122, 209, 81), (253, 231, 37)],
    # one colour for each sign, white for zero: blue and orange, which nobody confuses
    "diverging": [
        (166, 86, 0),
        (224, 142, 54),
        (247, 208, 160),
        (255, 255, 255),
        (164, 203, 232),
        (66, 139, 202),
        (5, 79, 140),
    ],
}
# Okabe and Ito 2008: no two look alike with any kind of colour blindness. Without the yellow, too faint on paper.
CATEGORIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
ARROW, OTHER = CATEGORIES[0], CATEGORIES[1]


def colour(name: str, share: float) -> RGB:
    """The colour of a map at a share from 0 to 1."""
    points = MAPS[name]
    position = min(max(share, 0.0), 1.0) * (len(points) - 1)
    left = min(int(position), len(points) - 2)
    part = position - left
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(points[left], points[left + 1], strict=True))
    return red, green, blue


def to_hex(rgb: RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def luminance(rgb: RGB) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    shares = [channel / 255 for channel in rgb]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: RGB, second: RGB) -> float:
    """How readable one colour is on the other; 4.5 is enough for text."""
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink_on(rgb: RGB) -> str:
    """Black or white, whichever is easier to read on this colour."""
    return "#000000" if contrast(rgb, (0, 0, 0)) >= contrast(rgb, (255, 255, 255)) else "#ffffff"


def paint_background(text: str, rgb: RGB) -> str:
    """A text on a coloured ground, in a terminal of 256 colours."""
    ink = 16 if ink_on(rgb) == "#000000" else 231
    return f"\x1b[38;5;{ink};48;5;{nearest_terminal_colour(rgb)}m{text}\x1b[0m"


def paint_text(text: str, hex_colour: str) -> str:
    """A text in a colour such as #0072B2, in a terminal of 256 colours."""
    red, green, blue = bytes.fromhex(hex_colour[1:])
    return f"\x1b[38;5;{nearest_terminal_colour((red, green, blue))}m{text}\x1b[0m"


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m"


def dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m"


def nearest_terminal_colour(rgb: RGB) -> int:
    """The nearest of the 6 × 6 × 6 colours, or of the 24 greys."""
    steps = (0, 95, 135, 175, 215, 255)
    cube = [min(range(6), key=lambda index: abs(steps[index] - channel)) for channel in rgb]
    grey = min(23, max(0, round((sum(rgb) / 3 - 8) / 10)))
    cube_error = sum((steps[index] - channel) ** 2 for index, channel in zip(cube, rgb, strict=True))
    grey_error = sum((8 + 10 * grey - channel) ** 2 for channel in rgb)
    return 232 + grey if grey_error < cube_error else 16 + 36 * cube[0] + 6 * cube[1] + cube[2]


SHADES = " ░▒▓█"
DECADES = 4  # a log scale reaches down to 1/10,000 of the highest number
STEPS = 64  # a colour map in so many steps, so that many cells share a colour


class ColourScale(msgspec.Struct, frozen=True):
    """From numbers to colours: low is the first colour of the map, high the last."""

    low: float
    high: float
    colours: str = "blues"
    scale: str = "linear"

    def share(self, value: float) -> float:
        """Where a value lies on the scale, from 0 to 1."""
        if self.scale == "log":
            return 0.0 if value <= 0 else max(0.0, 1 + math.log10(value / self.high) / DECADES)
        return 0.5 if self.high == self.low else min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def step(self, value: float) -> int:
        """The same as one of 65 steps."""
        return round(STEPS * self.share(value))

    def rgb(self, value: float) -> RGB:
        return colour(self.colours, self.share(value))

    def step_rgb(self, value: float) -> RGB:
        return colour(self.colours, self.step(value) / STEPS)

    def shade(self, value: float | None) -> str:
        """A block character, darker for a larger number; with two signs, for one further from zero."""
        if value is None or math.isnan(value):
            return NO_NUMBER
        share = self.share(value)
        share = abs(2 * share - 1) if self.colours == "diverging" else share
        return SHADES[min(len(SHADES) - 1, math.ceil(share * (len(SHADES) - 1) - 1e-9))]

    def end_labels(self, digits: int) -> tuple[str, str]:
        """The lowest and the highest number of the scale."""
        low = f"≤ {self.high / 10**DECADES:.2g}" if self.scale == "log" else to_fixed(self.low, digits)
        return low, to_fixed(self.high, digits)


def fit_scale(
    values: list[float | None], colours: str = "blues", scale: str = "linear", top: float | None = None
) -> ColourScale:
    """The scale from 0 (or the lowest number) to `top` (or the highest); the diverging map is symmetric around 0."""
    if scale not in ("linear", "log"):
        raise Misfit(f"scale must be linear or log, but got {scale!r}; log shows small weights beside large ones")
    if colours not in MAPS:
        raise Misfit(f"colours must be one of {', '.join(MAPS)}, but got {colours!r}; blues is the default")
    numbers = [value for value in values if is_number(value)] or [0.0]
    if colours == "diverging":
        largest = max(abs(number) for number in numbers) or 1.0
        return ColourScale(-largest, largest, colours)
    high = max(numbers) if top is None else top
    return ColourScale(min(0.0, *numbers), high if high > 0 else 1.0, colours, scale)
