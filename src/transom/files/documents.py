"""JSON and TOML from outside: size and nesting are bounded before a parser sees them, and every failure is a Misfit.

A parser follows nesting by recursion, and `tomllib` walks all parts of a dotted key for each of its parts: a few
kilobytes could take a minute and gigabytes. So a scan in linear time comes first.
"""

import json
import re
import tomllib
from collections.abc import Callable
from decimal import InvalidOperation
from itertools import accumulate
from math import isfinite
from typing import Any, TypeVar, overload

import msgspec

from transom.names import Misfit

Kind = TypeVar("Kind")
LONGEST_JSON = LONGEST_TOML = 2**20  # bytes, unless the caller says how many; a file of settings has some hundred
DEEPEST = 64  # objects, arrays and tables inside one another
MOST_PARTS = 16  # of a dotted key
LONGEST_WORD = 256  # signs of a bare key or a number in TOML

OPENING, CLOSING = b"[{", b"]}"
NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
STEPS = {sign: (sign in OPENING) - (sign in CLOSING) for sign in OPENING + CLOSING}
HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
# A string or comment of TOML, then the opening of a string that does not end, then what the scan counts.
TOML_TOKENS = re.compile(
    r'(?P<skipped>"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*+\'{3,5}'
    r'|"(?!"")(?:[^"\\\n]|\\[^\n])*+"|\'(?!\'\')[^\'\n]*+\'|#[^\n]*+)'
    r'|(?P<unended>["\'])|(?P<word>[A-Za-z0-9_+-]++)|(?P<sign>[\[\]{}.,=\n])',
    re.DOTALL,
)


class Malformed(Misfit):
    """A document that cannot be read: the reason alone, as in “it nests more than 64 deep”, for the caller to place."""


@overload
def decode_json(content: bytes | str, *, most: int = LONGEST_JSON) -> Any: ...
@overload
def decode_json(content: bytes | str, kind: type[Kind], *, most: int = LONGEST_JSON) -> Kind: ...
def decode_json(content: bytes | str, kind: Any = Any, *, most: int = LONGEST_JSON) -> Any:
    """What a JSON text of at most `most` bytes holds, as `kind`; anything wrong with it is `Malformed`."""
    try:
        content = check_json(content, most)
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError) as error:
        raise Malformed(str(error)) from error


def decode_distinct_json(
    content: bytes | str, *, most: int = LONGEST_JSON, number: Callable[[str], float] | None = None
) -> Any:
    """What a JSON text holds in which no object has a name twice: two readers could take different ones of the two.

    Numbers must be finite, unless `number` reads what is written: `float` takes NaN and Infinity as well.
    """
    try:
        text = check_json(content, most).decode("utf-8")
        found = json.loads(
            text, object_pairs_hook=distinct, parse_constant=number or finite, parse_float=number or finite
        )
        if HALF_PAIR.search(text):
            json.dumps(found, ensure_ascii=False).encode("utf-8")  # which a lone half of a pair has no bytes in
        return found
    except Malformed:
        raise
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error


def check_json(content: bytes | str, most: int) -> bytes:
    """The content as bytes, once its size and its nesting are found to be within their bounds."""
    if len(content) > most:  # of a str too: it has at least as many bytes as signs
        raise Malformed(f"it has {len(content)} bytes, and {most} are the most")
    encoded = content.encode("utf-8") if isinstance(content, str) else content
    if len(encoded) > most:
        raise Malformed(f"it has {len(encoded)} bytes, and {most} are the most")
    if json_depth(encoded) > DEEPEST:
        raise Malformed(f"it nests more than {DEEPEST} deep")
    return encoded


def json_depth(content: bytes) -> int:
    """How deep a JSON text nests, up to the first place where it is no JSON."""
    if content.count(b"[") + content.count(b"{") <= DEEPEST:
        return 0  # it cannot nest deeper than it opens
    unescaped = content.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = unescaped.translate(None, NOT_STRUCTURE).split(b'"')[::2]
    return max(accumulate(map(STEPS.__getitem__, b"".join(outside))), default=0)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no name comes twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def finite(number: str) -> float:
    """A number of JSON, which knows neither NaN nor infinity."""
    found = float(number)
    if not isfinite(found):
        raise ValueError(f"{number[:20]} is no finite number")
    return found


def decode_toml(text: str, *, most: int = LONGEST_TOML, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The table in a TOML text of at most `most` signs; anything wrong with it is `Malformed`."""
    check_toml(text, most)
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except (ValueError, InvalidOperation, RecursionError) as error:  # a TOMLDecodeError is a ValueError
        raise Malformed(str(error)) from error


def check_toml(text: str, most: int) -> None:
    """Complain of a TOML text that is too long, nests too deep, or has a key of too many parts."""
    if len(text) > most:
        raise Malformed(f"it has {len(text)} signs, and {most} are the most")
    depth = parts = 0
    for token in TOML_TOKENS.finditer(text):
        if token["unended"]:
            return  # where the parser will stop as well
        if token["word"] and len(token["word"]) > LONGEST_WORD:
            raise Malformed(f"a word in it has {len(token['word'])} signs, and {LONGEST_WORD} are the most")
        if not (sign := token["sign"]):
            continue
        parts = parts + 1 if sign == "." else 0
        depth += (sign in "[{") - (sign in "]}")
        if depth > DEEPEST:
            raise Malformed(f"it nests more than {DEEPEST} deep")
        if parts >= MOST_PARTS:
            raise Malformed(f"a key in it has more than {MOST_PARTS} parts")
