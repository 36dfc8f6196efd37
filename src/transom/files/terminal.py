"""Text made safe for a terminal: control characters are shown and have no effect.

A control sequence in a token, a file name or a layer's name could clear the screen, hide text, or make a terminal
send input as if a person had typed it. Every printed text passes through `escape_controls`.
"""

import json
import re
from functools import cache
from typing import Any
from unicodedata import category, normalize

# Controls (C0, DEL, C1), formatting (bidi among it), halves of surrogate pairs, line and paragraph separators.
CONTROL_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
JOINERS = "\u200c\u200d"  # of Persian, Indic scripts and emoji: they control nothing
NOT_PRINTABLE_ASCII = re.compile(r"[^ -~]")
# The colour sequences that Transom itself writes (show/colours.py), and no others.
OWN_COLOURS = re.compile(r"(\x1b\[(?:0|1|2|38;5;\d{1,3}(?:;48;5;\d{1,3})?)m)")


PLAIN = "transom.plain"  # the name of `replace_by_plain` among the error handlers of codecs
PLAIN_SIGNS = str.maketrans(
    {
        "“": '"',
        "”": '"',
        "‘": "'",
        "’": "'",
        "‹": "<",
        "›": ">",
        "→": ">",
        "←": "<",
        "↓": "v",
        "↑": "^",
        "·": ".",
        "…": ".",
    }
    | {
        "░": ".",
        "▒": ":",
        "▓": "+",
        "█": "#",
        "–": "-",
        "—": "-",
        "−": "-",
        "÷": "/",
        "×": "x",
        "√": "sqrt ",
        "ᵀ": "^T",
    }
    | {"≤": "<=", "≥": ">=", "œ": "oe", "Œ": "OE", "✕": "x", "‖": "|", "¼": "1/4", "½": "1/2", "¾": "3/4"}
)


def replace_by_plain(error: UnicodeError) -> tuple[str, int]:
    """What an encoding lacks, as plain ASCII signs: letters without their accents, of anything else a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(PLAIN_SIGNS)
    letters = (normalize("NFKD", sign).encode("ascii", "ignore").decode() or "?" for sign in lacking)
    return "".join(letters), error.end


@cache
def is_control(character: str) -> bool:
    """Whether a character could control a terminal or the order of the text around it."""
    return category(character) in CONTROL_CATEGORIES and character not in JOINERS


def escape_code(character: str) -> str:
    """The visible form of a control character."""
    return f"‹U+{ord(character):04X}›"


def escape_controls(text: str, keep: str = "\n\t") -> str:
    """The text with control characters written as ‹U+001B›, except those in `keep`."""

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        return character if character in keep or not is_control(character) else escape_code(character)

    return NOT_PRINTABLE_ASCII.sub(escape, text)


def escape_all_but_colours(text: str) -> str:
    """The same, except that the colours of Transom's own pictures stay.

    Texts from files and models were escaped before they were coloured.
    """
    parts = OWN_COLOURS.split(text)  # text and colour in turn
    return "".join(part if index % 2 else escape_controls(part) for index, part in enumerate(parts))


def to_safe_json(data: Any, indent: int | None = 2) -> str:
    """Data as JSON that is safe to print: control characters are written as JSON escapes."""

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character == "\n" or not is_control(character):
            return character
        return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]

    return NOT_PRINTABLE_ASCII.sub(escape, json.dumps(data, indent=indent, ensure_ascii=False))
