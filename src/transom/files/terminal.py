"""Text made safe for a terminal: whatever a file or a model holds is shown, and steers nothing.

A control sequence in a token, a file name or a layer's name could clear the screen, hide text, or make a terminal
answer as if a person had typed. Every text that is printed passes `escape_controls`.
"""

import json
import re
from functools import cache
from typing import Any
from unicodedata import category

# Controls (C0, DEL, C1), formatting (bidi among it), halves of surrogate pairs, line and paragraph separators.
STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
JOINERS = "\u200c\u200d"  # of Persian, Indic scripts and emoji: they steer nothing
NOT_PLAIN = re.compile(r"[^ -~]")  # everything that a typewriter has not
# What Transom itself colours by (show/colours.py), and nothing else of the kind.
OWN_COLOURS = re.compile(r"(\x1b\[(?:0|1|2|38;5;\d{1,3}(?:;48;5;\d{1,3})?)m)")


@cache
def is_steering(sign: str) -> bool:
    """Whether a sign could steer a terminal or the order of the text around it."""
    return category(sign) in STEERING and sign not in JOINERS


def code(sign: str) -> str:
    """What stands for a sign that is not shown itself."""
    return f"‹U+{ord(sign):04X}›"


def escape_controls(text: str, keep: str = "\n\t") -> str:
    """A text as a terminal may show it: signs that would steer it come as ‹U+001B›, except those in `keep`."""

    def shown(found: re.Match[str]) -> str:
        sign = found[0]
        return sign if sign in keep or not is_steering(sign) else code(sign)

    return NOT_PLAIN.sub(shown, text)


def escape_all_but_colours(text: str) -> str:
    """The same for a picture of Transom's own: its colours stay.

    What it shows of files and models was made visible before it was coloured.
    """
    parts = OWN_COLOURS.split(text)  # text and colour in turn
    return "".join(part if place % 2 else escape_controls(part) for place, part in enumerate(parts))


def to_safe_json(data: Any, indent: int | None = 2) -> str:
    """Data as JSON that steers no terminal: the same data, with such signs as the escapes that JSON has for them."""

    def escaped(found: re.Match[str]) -> str:
        sign = found[0]
        if sign == "\n" or not is_steering(sign):
            return sign
        return "\\u007f" if sign == "\x7f" else json.dumps(sign)[1:-1]

    return NOT_PLAIN.sub(escaped, json.dumps(data, indent=indent, ensure_ascii=False))
