"""Damage for valid samples: flipped bits, cuts and splices for bytes; other types and wild values for data and text."""

import json
import random
from typing import Any

WILD_NUMBERS = [0, -1, 1, 2, 7, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308, 1e-320]
WILD_STRINGS = ["", " ", "a", "\x00", "\x1b[2J", "é", "\ud7ff", "\U0010ffff", "../x", "/etc/passwd", "nan", "x" * 5000]
WILD_TEXT = [
    "[" * 300,
    "{" * 300,
    "a." * 40,
    '"""',
    "'''",
    "\\",
    "\x00",
    "\ufeff",
    "=",
    "\n",
    "#",
    ",",
    "1e999",
    "0x" + "f" * 300,
]
WILD_TEXT += [
    "nan",
    "-inf",
    "1979-05-27",
    "true",
    "[]",
    "{}",
    '""',
    "9" * 30,
    "-0",
    "1_000",
    "é",
    "\u202e",
    "[[claim]]\n",
    "[a]\n",
]
WILD_BYTES = [
    b"\x00",
    b"\xff",
    b"\x1f\x8b",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b'"',
    b"[" * 200,
    b"{" * 200,
    b"9" * 400,
]


def damage_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to four changes at random places; now and then none."""
    found = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3, 4])):
        place = rng.randrange(len(found) + 1)
        kind = rng.randrange(7)
        if kind == 0 and place < len(found):
            found[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del found[place:]
        elif kind == 2:
            found[place:place] = rng.choice(WILD_BYTES)
        elif kind == 3:
            del found[place : place + rng.choice([1, 2, 8, 64])]
        elif kind == 4:
            start = rng.randrange(len(found) + 1)
            found[place:place] = found[start : start + rng.choice([1, 8, 64, 512])]
        elif kind == 5:
            found[place : place + 8] = rng.choice([0, 1, 2**31, 2**63, 2**64 - 1]).to_bytes(8, "little")
        else:
            found[place : place + 1] = bytes([rng.randrange(256)])
    return bytes(found)


def damage_text(text: str, rng: random.Random) -> str:
    """One to three changes that keep most of a text's lines and words as they are."""
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        kind, lines = rng.randrange(6), text.split("\n")
        line = rng.randrange(len(lines))
        if kind == 0:
            lines[line] = rng.choice(lines)
        elif kind == 1:
            del lines[line]
        elif kind == 2:
            name, equals, _ = lines[line].partition("=")
            lines[line] = f"{name}{equals}{rng.choice(WILD_TEXT)}"
        elif kind == 3:
            lines[line] = json.dumps(rng.choice(WILD_STRINGS)) + lines[line]
        else:
            place = rng.randrange(len(lines[line]) + 1)
            end = place if kind == 4 else place + rng.randrange(9)
            lines[line] = lines[line][:place] + rng.choice(WILD_TEXT) + lines[line][end:]
        text = "\n".join(lines)
    return text


def damage_data(data: Any, rng: random.Random) -> Any:
    """One to three values anywhere in JSON data changed, dropped, doubled, or put under another name."""
    found = json.loads(json.dumps(data))
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        holders = list(containers(found))
        if not holders:
            return wild_value(rng)
        holder = rng.choice(holders)
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            continue
        key, kind = rng.choice(keys), rng.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice([*keys, *WILD_STRINGS])] = holder.pop(key)
        elif kind == 2:
            holder[key] = [holder[key]] * rng.choice([0, 1, 2, 5])
        elif kind == 3:
            holder[key] = holder[rng.choice(keys)]
        else:
            holder[key] = near_value(holder[key], rng) if kind == 4 else wild_value(rng)
        found = json.loads(json.dumps(found))  # what was doubled is no longer the same object
    return found


def containers(data: Any) -> list[Any]:
    """Every object and list of JSON data, the outermost first."""
    if not isinstance(data, dict | list):
        return []
    inner = data.values() if isinstance(data, dict) else data
    return [data, *(one for value in inner for one in containers(value))]


def near_value(value: Any, rng: random.Random) -> Any:
    """A value of the same kind, which may pass a first check."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + rng.choice([-1, 1, 2, 1000, -value])
    if isinstance(value, str):
        place = rng.randrange(len(value) + 1)
        return value[:place] + rng.choice(WILD_STRINGS) + value[place + 1 :]
    return wild_value(rng)


def wild_value(rng: random.Random) -> Any:
    nested: Any = rng.choice([0, "x", []])
    for _ in range(rng.choice([1, 2, 70])):
        nested = [nested] if rng.random() < 0.5 else {"a": nested}
    return rng.choice([None, True, False, rng.choice(WILD_NUMBERS), rng.choice(WILD_STRINGS), [], {}, nested])


def damage_json(content: bytes, rng: random.Random) -> bytes:
    """A JSON file with its data changed, or its bytes."""
    if rng.random() < 0.3:
        return damage_bytes(content, rng)
    return json.dumps(damage_data(json.loads(content), rng), ensure_ascii=rng.random() < 0.5).encode("utf-8", "replace")


def split_tensors(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and numbers of a valid safetensors file."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def join_tensors(header: Any, numbers: bytes) -> bytes:
    text = json.dumps(header).encode("utf-8", "replace")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + numbers
