"""Draws pictures of digits, 16 × 16 black and white pixels each, as text that a recipe can learn from.

    python recipes/digits/draw_digits.py out/digits/pictures.tsv

A picture is cut into 4 × 8 patches, from left to right and from top to bottom. A patch is 4 pixels high and 2 wide, and
is written as the Braille character with the same dots, a white one as ·, so 32 characters are a picture. Sizes, places,
slants and noise are random, from the seed.
"""

import argparse
import random
from pathlib import Path

SIDE = 16  # pixels
PATCH = (4, 2)  # its pixels: rows, columns
BRAILLE, WHITE = 0x2800, "·"  # Braille without a dot cannot be seen
DOTS = ((0, 3), (1, 4), (2, 5), (6, 7))  # the bit of each pixel of a patch
GLYPHS = {
    "0": ".###. #...# #...# #...# #...# #...# .###.",
    "1": "..#.. .##.. ..#.. ..#.. ..#.. ..#.. .###.",
    "2": ".###. #...# ....# ...#. ..#.. .#... #####",
    "3": ".###. #...# ....# ..##. ....# #...# .###.",
    "4": "...#. ..##. .#.#. #..#. ##### ...#. ...#.",
    "5": "##### #.... ####. ....# ....# #...# .###.",
    "6": "..##. .#... #.... ####. #...# #...# .###.",
    "7": "##### ....# ...#. ..#.. ..#.. .#... .#...",
    "8": ".###. #...# #...# .###. #...# #...# .###.",
    "9": ".###. #...# #...# .#### ....# ...#. .##..",
}


def draw_digit(digit: str, chance: random.Random) -> list[list[bool]]:
    """A digit somewhere on the picture, larger or smaller, slanted, with some pixels wrong."""
    glyph = GLYPHS[digit].split()
    wide, tall = chance.uniform(1.5, 2.3), chance.uniform(1.6, 2.1)
    slant, noise = chance.uniform(-0.25, 0.25), chance.uniform(0.0, 0.03)
    left = (SIDE - 5 * wide) / 2 + chance.uniform(-1.5, 1.5)
    top = (SIDE - 7 * tall) / 2 + chance.uniform(-0.8, 0.8)

    def is_black(row: int, column: int) -> bool:
        y = int((row + 0.5 - top) // tall)
        x = int((column + 0.5 - left - slant * (SIDE / 2 - row)) // wide)
        inside = 0 <= y < 7 and 0 <= x < 5 and glyph[y][x] == "#"
        return inside != (chance.random() < noise)

    return [[is_black(row, column) for column in range(SIDE)] for row in range(SIDE)]


def picture_as_text(picture: list[list[bool]]) -> str:
    """The patches of a picture as Braille characters."""
    tall, wide = PATCH
    patches = [
        sum(picture[top + y][left + x] << DOTS[y][x] for y in range(tall) for x in range(wide))
        for top in range(0, SIDE, tall)
        for left in range(0, SIDE, wide)
    ]
    return "".join(chr(BRAILLE + dots) if dots else WHITE for dots in patches)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="the file to write: a picture and its digit per line")
    parser.add_argument("--count", type=int, default=8000, help="pictures (8000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    digits = [chance.choice(list(GLYPHS)) for _ in range(options.count)]
    lines = [f"{picture_as_text(draw_digit(digit, chance))}\t{digit}\n" for digit in digits]
    options.path.parent.mkdir(parents=True, exist_ok=True)
    options.path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
