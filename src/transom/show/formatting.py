"""How numbers and token text are written, the same in every picture."""

import math
from collections.abc import Iterable, Iterator
from typing import TypeGuard
from unicodedata import category, combining

from rich.cells import cell_len as display_width

from transom.files.terminal import escape_code

NO_NUMBER = "–"  # stands in a masked cell
LONGEST = 240  # characters of one token that are drawn; the data holds all of it
LINE_BREAKS = {"\n": r"‹\n›", "\r": r"‹\r›", "\t": r"‹\t›"}
# Letters and symbols that draw nothing: fillers of Hangul, and the empty Braille pattern.
BLANK = {"\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\u034f", "\u17b4", "\u17b5"}
MARKS = 3  # combining marks on one letter; more would climb over the lines above


def is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def to_fixed(value: int | float | None, digits: int) -> str:
    """A number to so many decimals, with a true minus sign and no −0.00; – for None."""
    if value is None:
        return NO_NUMBER
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1e7:
        return f"{value:.{max(1, digits)}e}".replace("-", "−")
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def format_significant(value: int | float) -> str:
    """A number of a table: a whole number as it is, any other to six significant digits."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return to_fixed(value, 0)
    return f"{value:.6g}".replace("-", "−")


def format_percent(share: float) -> str:
    """A share in per cent; only 0 is written as 0.0 %, and only 1 as 100.0 %."""
    if 0 < share < 0.0005:
        return "under 0.1 %"
    if 0.9995 <= share < 1 - 1e-6:
        return "over 99.9 %"
    return f"{100 * share:.1f} %"


def make_visible(token: str) -> str:
    """A token as a reader can see it: control and invisible characters as ‹U+202E›, spaces at an edge as ·."""
    if not token:
        return "‹empty›"
    if not token.strip(" "):
        return "‹space›" if len(token) == 1 else f"‹{len(token)} spaces›"
    cut = token if len(token) <= LONGEST else f"{token[:LONGEST]}…"
    before, after = len(cut) - len(cut.lstrip(" ")), len(cut) - len(cut.rstrip(" "))
    body = "".join(visible_characters(cut.strip(" ")))
    return f"{'·' * before}{body}{'·' * after}"


def visible_characters(body: str) -> Iterator[str]:
    """Each character, or the code that is shown in its place."""
    marks = MARKS  # so that a mark with no letter before it is shown by its code
    for character in body:
        if category(character) in {"Mn", "Me", "Mc"} and character not in BLANK:
            fits = marks < MARKS and (combining(character) or category(character) != "Me")
            marks += 1
            yield character if fits else escape_code(character)
            continue
        marks = 0
        printable = character == " " or (category(character)[0] not in {"C", "Z"} and character not in BLANK)
        yield LINE_BREAKS.get(character) or (character if printable else escape_code(character))


def clip(text: str, most: int) -> str:
    """A visible text in at most so many columns, with … where it was cut."""
    if display_width(text) <= most:
        return text
    start, width = "", 1
    for character in text:
        width += display_width(character)
        if width > most:
            break
        start += character
    return f"{start}…"


def short_label(token: str, most: int) -> str:
    """A token made visible, in at most so many columns."""
    return clip(make_visible(token), most)


def label_width(tokens: Iterable[str], most: int, least: int = 1) -> int:
    """The columns that the longest of these short labels takes."""
    return max((display_width(short_label(token, most)) for token in tokens), default=least)


def pad(text: str, width: int, right: bool = False) -> str:
    """A visible text, clipped or filled up to exactly so many columns."""
    text = clip(text, width)
    spaces = " " * (width - display_width(text))
    return spaces + text if right else text + spaces


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """A text on lines of at most so many columns; later lines are indented."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and display_width(lines[-1]) + 1 + display_width(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{indent if lines else ''}{clip(word, width)}")
    return lines


def join_some(texts: list[str], most: int = 4) -> str:
    """The first texts with commas between them: `a, b, c, d and 3 more`."""
    joined = ", ".join(texts[:most])
    return f"{joined} and {len(texts) - most} more" if len(texts) > most else joined


def escape_mermaid(text: str) -> str:
    """For a Mermaid label: all but letters, digits, dots and spaces as entities, #60; for <."""
    return "".join(sign if sign.isalnum() or sign in " ." or ord(sign) > 0x7F else f"#{ord(sign)};" for sign in text)


def escape_dot(text: str) -> str:
    """For a quoted DOT string: backslashes and quotes escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
