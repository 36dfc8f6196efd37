"""Token text made visible: whatever a token holds, what is drawn is harmless, on one line, and tells tokens apart."""

from collections.abc import Iterator
from unicodedata import category, combining

from rich.cells import cell_len

from transom.files.terminal import code

LONGEST = 240  # signs of one token that are drawn; the data holds all of it
NAMED = {"\n": r"‹\n›", "\r": r"‹\r›", "\t": r"‹\t›"}
# Letters and symbols that draw nothing: fillers of Hangul, and the empty Braille pattern.
BLANK = {"\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\u034f", "\u17b4", "\u17b5"}
MARKS = 3  # combining marks on one letter; more would climb over the lines above


def visible(token: str) -> str:
    """A token as a reader may see it: signs that steer, hide or break lines come as ‹U+202E›, edge spaces as ·."""
    if not token:
        return "‹empty›"
    if not token.strip(" "):
        return "‹space›" if len(token) == 1 else f"‹{len(token)} spaces›"
    cut = token if len(token) <= LONGEST else f"{token[:LONGEST]}…"
    before, after = len(cut) - len(cut.lstrip(" ")), len(cut) - len(cut.rstrip(" "))
    body = "".join(signs(cut.strip(" ")))
    return f"{'·' * before}{body}{'·' * after}"


def signs(body: str) -> Iterator[str]:
    """Each sign, or what stands for it."""
    marks = MARKS  # a mark with no letter before it has nothing to stand on
    for sign in body:
        if category(sign) in {"Mn", "Me", "Mc"} and sign not in BLANK:
            standing = marks < MARKS
            marks += 1
            yield sign if standing and (combining(sign) or category(sign) != "Me") else code(sign)
            continue
        marks = 0
        yield NAMED.get(sign) or (sign if sign == " " or harmless(sign) else code(sign))


def harmless(sign: str) -> bool:
    return category(sign)[0] not in {"C", "Z"} and sign not in BLANK


def cells(text: str) -> int:
    """How many columns of a terminal a visible text takes."""
    return cell_len(text)


def clipped(text: str, most: int) -> str:
    """A visible text in at most so many columns, with … where it was cut."""
    if cells(text) <= most:
        return text
    kept, width = "", 1
    for sign in text:
        width += cells(sign)
        if width > most:
            break
        kept += sign
    return f"{kept}…"


def padded(text: str, width: int, right: bool = False) -> str:
    """A visible text, clipped and filled up to exactly so many columns."""
    text = clipped(text, width)
    filling = " " * (width - cells(text))
    return filling + text if right else text + filling


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Words on lines of at most so many columns; later lines are indented."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{indent if lines else ''}{clipped(word, width)}")
    return lines
