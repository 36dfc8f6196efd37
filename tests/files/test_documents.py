"""JSON and TOML: bounded before they are parsed, and never another error than Misfit."""

import ast
import json
import random
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

import transom
from transom.files.documents import (
    DEEPEST,
    MOST_PARTS,
    MalformedDocument,
    decode_distinct_json,
    decode_json,
    decode_toml,
)
from transom.names import Misfit

DEEP = f"it nests more than {DEEPEST} deep"
BOTH = pytest.mark.parametrize("decode", [decode_json, decode_distinct_json])


class Pair(msgspec.Struct):
    left: int
    right: int


def nested(levels: int) -> object:
    found: object = 7
    for level in range(levels):
        found = [found, "]"] if level % 2 else {'"[': found}
    return found


@BOTH
@pytest.mark.parametrize(
    "found", [nested(DEEPEST), {'\\"[{': ["\\", "[" * 100, '"']}, [[]] * 500, 1.5, None, "é ", "\U0001f600"]
)
def test_json_comes_as_the_library_gives_it(decode, found):
    for text in (json.dumps(found), json.dumps(found, ensure_ascii=False)):
        assert decode(text) == decode(text.encode()) == json.loads(text)


@BOTH
@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":' * 100_000, json.dumps(nested(DEEPEST + 1)).encode()])
def test_json_that_nests_too_deep_is_not_parsed(decode, content):
    with pytest.raises(MalformedDocument, match=f"^{DEEP}$"):
        decode(content)


@BOTH
def test_json_that_is_too_long_is_not_parsed(decode):
    with pytest.raises(MalformedDocument, match=r"^it has 11 bytes, but at most 10 are allowed$"):
        decode('"123456789"', max_bytes=10)
    with pytest.raises(MalformedDocument, match=r"^it has 12 bytes, but at most 10 are allowed$"):
        decode('"ééééé"', max_bytes=10)


@BOTH
@pytest.mark.parametrize(
    "content",
    [b'"\xff"', b"\xff\xfe[\x00]\x00", b"", b"[1", b"9" * 5000, b"1e999", b"NaN", "\ud800", b'"\\ud8', b'["\\uDFff"]'],
)
def test_json_that_cannot_be_read_is_a_misfit(decode, content):
    with pytest.raises(MalformedDocument):
        decode(content)


def test_json_of_a_kind_and_with_distinct_names():
    assert decode_json('{"left": 2, "right": 3}', Pair) == Pair(2, 3)
    with pytest.raises(MalformedDocument, match=re.escape("Expected `int`, got `str` - at `$.left`")):
        decode_json('{"left": "2", "right": 3}', Pair)
    with pytest.raises(MalformedDocument, match=r"^a name comes twice$"):
        decode_distinct_json('{"left": 2, "left": 3}')


GOOD_TOML = (
    '''
top = """a "quoted" [[[[ word""" # [[[[[[
other = \'\'\'it's {{{{\'\'\'
"quoted.key".b = [[1.5, 2.25], [-3e-2]]
five = """ends in two"""""
date = 1979-05-27T07:32:00.999-07:00
[a.b.c]
d = { e.f = 1, g = 'x.y.z' }
[[list]]
long = "'''
    + "a.b[" * 1000
    + '"\n'
)


def test_toml_comes_as_the_library_gives_it():
    deepest = "a = " + "[" * DEEPEST + "]" * DEEPEST
    widest = ".".join("a" * MOST_PARTS) + " = 1"
    for text in (GOOD_TOML, deepest, widest, ""):
        assert decode_toml(text) == tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = " + "[" * (DEEPEST + 1), DEEP),
        ("a = " + "{b=" * 100_000, DEEP),
        (".".join(["a"] * 20_000) + " = 1", f"a key in it has more than {MOST_PARTS} parts"),
        ("[" + " . ".join(['"a"'] * (MOST_PARTS + 1)) + "]", f"a key in it has more than {MOST_PARTS} parts"),
        ("a = {b." + "'c'." * MOST_PARTS + "d = 1}", f"a key in it has more than {MOST_PARTS} parts"),
        ("a = 0x" + "f" * 1000, "a word in it has 1002 characters, but at most 256 are allowed"),
        ("a = 1\n" * 2**18, "it has 1572864 characters, but at most 1048576 are allowed"),
        ("a = ", "Invalid value (at end of document)"),
    ],
    ids=lambda value: value[:12],
)
def test_toml_out_of_bounds_is_refused(text, reason):
    with pytest.raises(MalformedDocument, match=f"^{re.escape(reason)}$"):
        decode_toml(text)


def test_scan_and_parser_agree_on_what_is_a_string():
    """Whatever quotes, comments and brackets come together: what tomllib takes within the bounds, the scan lets by."""
    rng, taken = random.Random(5), 0
    marks = ['"', '"""', "'", "'''", "\\", "\n", "#", "[", "]", "a", ".", "=", " ", "1", ",", "{", "}"]
    pieces = [*marks, 'b = "', "c = '''", 'd = """', '"\n', "'''\n", '"""\n', "e = 1\n"]
    for _ in range(20_000):
        text = "".join(rng.choices(pieces, k=rng.randrange(1, 14)))
        try:
            expected = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            with pytest.raises(Misfit):
                decode_toml(text)
            continue
        taken += 1
        assert decode_toml(text) == expected
    assert taken > 500


def test_brackets_that_the_scan_takes_for_a_string_never_reach_the_parser():
    """The scan may stop early only where the parser stops too: deep nesting behind any such place is an error."""
    rng = random.Random(7)
    pieces = ['"', '"""', "'", "'''", "\\", "\n", "#", "a=", '"b"', "=", " ", "1", "[", "]", '""""', "'b'", "\r\n"]
    for _ in range(5_000):
        text = "".join(rng.choices(pieces, k=rng.randrange(0, 9))) + "\nz = " + "[" * 5_000
        causes = (type(None), tomllib.TOMLDecodeError)
        try:
            taken = "[" * 5_000 in repr(decode_toml(text))
        except MalformedDocument as error:
            taken = isinstance(error.__cause__, causes)
        assert taken, text[:60]


PARSERS = {"json.loads", "json.load", "msgspec.json.decode", "tomllib.loads", "tomllib.load", "msgspec.toml.decode"}
OWN_OUTPUT = {  # what these parse was written by Transom a moment before, or has passed the door
    "lessons/toml_source.py",
    "serve/run_queries.py",
    "serve/lesson_data.py",
    "cli/heads.py",
    "training/checkpoint.py",
    "training/recipe.py",
}


def test_nothing_else_parses_json_or_toml():
    house = Path(transom.__file__).parent
    for path in house.rglob("*.py"):
        name = path.relative_to(house).as_posix()
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        used = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)} & PARSERS
        assert not used or name in {"files/documents.py", *OWN_OUTPUT}, f"{name}: {used}; use files/documents.py"
