"""JSON and TOML from untrusted files: size and nesting are limited before parsing; every failure is a Misfit.

A parser recurses into nested values, and `tomllib` walks all parts of a dotted key for each of its parts: a few
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
LONGEST_JSON = LONGEST_TOML = 2**20  # bytes, by default; a settings file has a few hundred
DEEPEST = 64  # objects, arrays and tables inside one another
MOST_PARTS = 16  # of a dotted key
LONGEST_WORD = 256  # characters of a bare key or a number in TOML

OPENING, CLOSING = b"[{", b"]}"
NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
DEPTH_CHANGE = {bracket: (bracket in OPENING) - (bracket in CLOSING) for bracket in OPENING + CLOSING}
HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
# A string or comment of TOML, the opening quote of a string that does not end, and what the scan counts.
TOML_TOKENS = re.compile(
    r'(?P<skipped>"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*+\'{3,5}'
    r'|"(?!"")(?:[^"\\\n]|\\[^\n])*+"|\'(?!\'\')[^\'\n]*+\'|#[^\n]*+)'
    r'|(?P<unended>["\'])|(?P<word>[A-Za-z0-9_+-]++)|(?P<mark>[\[\]{}.,=\n])',
    re.DOTALL,
)


class MalformedDocument(Misfit):
    """A document that cannot be read; the message is only the reason, such as “it nests more than 64 deep”."""


@overload
def decode_json(content: bytes | str, *, max_bytes: int = LONGEST_JSON) -> Any: ...
@overload
def decode_json(content: bytes | str, kind: type[Kind], *, max_bytes: int = LONGEST_JSON) -> Kind: ...
def decode_json(content: bytes | str, kind: Any = Any, *, max_bytes: int = LONGEST_JSON) -> Any:
    """Parse a JSON text of at most `max_bytes` bytes as `kind`; whatever is wrong raises `MalformedDocument`."""
    try:
        return msgspec.json.decode(check_json(content, max_bytes), type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError) as error:
        raise MalformedDocument(str(error)) from error


def decode_distinct_json(
    content: bytes | str, *, max_bytes: int = LONGEST_JSON, parse_number: Callable[[str], float] | None = None
) -> Any:
    """Parse a JSON text in which no object has a name twice: of two values, two readers could take different ones.

    Numbers must be finite, unless `parse_number` accepts others: `float` takes NaN and Infinity as well.
    """
    parse_number = parse_number or parse_finite
    try:
        text = check_json(content, max_bytes).decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=reject_duplicates, parse_constant=parse_number, parse_float=parse_number
        )
        if HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails for half of a surrogate pair
        return value
    except MalformedDocument:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedDocument(str(error)) from error


def check_json(content: bytes | str, max_bytes: int) -> bytes:
    """The content as bytes, after its size and its nesting were checked."""
    encoded = content.encode("utf-8") if isinstance(content, str) else content
    if len(encoded) > max_bytes:
        raise MalformedDocument(f"it has {len(encoded)} bytes, but at most {max_bytes} are allowed")
    if json_depth(encoded) > DEEPEST:
        raise MalformedDocument(f"it nests more than {DEEPEST} deep")
    return encoded


def json_depth(content: bytes) -> int:
    """How deep a JSON text nests, at least up to the point where it stops being JSON."""
    if content.count(b"[") + content.count(b"{") <= DEEPEST:
        return 0  # it cannot nest deeper than it opens
    unescaped = content.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = unescaped.translate(None, NOT_STRUCTURE).split(b'"')[::2]
    return max(accumulate(map(DEPTH_CHANGE.__getitem__, b"".join(outside))), default=0)


def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of a JSON object as a dict; a name that comes twice is an error."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a name comes twice")
    return result


def parse_finite(number: str) -> float:
    """A number of JSON, which has neither NaN nor infinity."""
    value = float(number)
    if not isfinite(value):
        raise ValueError(f"{number[:20]} is not a finite number")
    return value


def decode_toml(text: str, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Parse a TOML text; whatever is wrong with it raises `MalformedDocument`."""
    check_toml(text)
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except (ValueError, InvalidOperation, RecursionError) as error:  # a TOMLDecodeError is a ValueError
        raise MalformedDocument(str(error)) from error


def check_toml(text: str) -> None:
    """Raise an error if a TOML text is too long, nests too deep, or has a key of too many parts."""
    if len(text) > LONGEST_TOML:
        raise MalformedDocument(f"it has {len(text)} characters, but at most {LONGEST_TOML} are allowed")
    depth = parts = 0
    for token in TOML_TOKENS.finditer(text):
        if token["unended"]:
            return  # the parser will stop here too
        if token["word"] and len(token["word"]) > LONGEST_WORD:
            raise MalformedDocument(
                f"a word in it has {len(token['word'])} characters, but at most {LONGEST_WORD} are allowed"
            )
        if not (mark := token["mark"]):
            continue
        parts = parts + 1 if mark == "." else 0
        depth += (mark in "[{") - (mark in "]}")
        if depth > DEEPEST:
            raise MalformedDocument(f"it nests more than {DEEPEST} deep")
        if parts >= MOST_PARTS:
            raise MalformedDocument(f"a key in it has more than {MOST_PARTS} parts")
