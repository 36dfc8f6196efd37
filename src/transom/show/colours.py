"""Colours that everyone can tell apart: maps whose lightness runs one way, categories after Okabe and Ito."""

from collections.abc import Sequence

from transom.names import Misfit

RGB = tuple[int, int, int]

INK, FAINT, RULE, PAPER = "#1b1f24", "#57606a", "#d0d7de", "#ffffff"
MASKED = "#e6e8eb"

# Control points, evenly spaced, straight lines between them.
MAPS: dict[str, Sequence[RGB]] = {
    # white to navy: zero is paper, so that what is there stands out, also in print
    "blues": [(255, 255, 255), (222, 235, 247), (166, 203, 229), (92, 156, 205), (32, 102, 168), (8, 48, 107)],
    # Nuñez, Anderton and Renslow 2018: made to look alike with and without red–green blindness
    "cividis": [(0, 32, 77), (49, 68, 107), (102, 105, 112), (149, 143, 120), (203, 186, 105), (255, 234, 70)],
    # Smith and van der Walt 2015
    "viridis": [(68, 1, 84), (65, 68, 135), (42, 120, 142), (34, 168, 132), (122, 209, 81), (253, 231, 37)],
    # two ends for the two signs, paper for zero: blue and orange, which nobody confuses
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
# Okabe and Ito 2008; no two alike for any kind of colour blindness. The yellow is left out: too faint on paper.
CATEGORIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
ARROW, OTHER = CATEGORIES[0], CATEGORIES[1]


def known(name: str) -> str:
    """The name of a map, if it is one."""
    if name not in MAPS:
        raise Misfit(f"colours must be one of {', '.join(MAPS)}, but got {name!r}; blues is the default")
    return name


def colour(name: str, share: float) -> RGB:
    """The colour of a map at a share from 0 to 1."""
    points = MAPS[name]
    place = min(max(share, 0.0), 1.0) * (len(points) - 1)
    left = min(int(place), len(points) - 2)
    part = place - left
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(points[left], points[left + 1], strict=True))
    return red, green, blue


def hexed(rgb: RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def luminance(rgb: RGB) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (one / 255 for one in rgb)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: RGB, other: RGB) -> float:
    """How well one colour is read on the other; 4.5 is enough for text."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink_on(rgb: RGB) -> str:
    """Black or white, whichever is read better."""
    return "#000000" if contrast(rgb, (0, 0, 0)) >= contrast(rgb, (255, 255, 255)) else "#ffffff"


def painted(text: str, rgb: RGB) -> str:
    """A text on a coloured ground in a terminal of 256 colours."""
    ink = 16 if ink_on(rgb) == "#000000" else 231
    return f"\x1b[38;5;{ink};48;5;{nearest(rgb)}m{text}\x1b[0m"


def inked(text: str, rgb: RGB) -> str:
    return f"\x1b[38;5;{nearest(rgb)}m{text}\x1b[0m"


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m"


def dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m"


def nearest(rgb: RGB) -> int:
    """The nearest of the 6 × 6 × 6 colours, or of the 24 greys."""
    steps = (0, 95, 135, 175, 215, 255)
    cube = [min(range(6), key=lambda one: abs(steps[one] - part)) for part in rgb]
    grey = min(23, max(0, round((sum(rgb) / 3 - 8) / 10)))
    by_cube = sum((steps[one] - part) ** 2 for one, part in zip(cube, rgb, strict=True))
    by_grey = sum((8 + 10 * grey - part) ** 2 for part in rgb)
    return 232 + grey if by_grey < by_cube else 16 + 36 * cube[0] + 6 * cube[1] + cube[2]
