"""Settings from outside, parsed strictly: an unknown key is an error that suggests the nearest known one."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

import msgspec

from transom.files.documents import LONGEST_JSON, MalformedDocument, decode_json
from transom.names import Misfit

Settings = TypeVar("Settings", bound=msgspec.Struct)


def suggest(name: str, known: Iterable[str]) -> str:
    """The way out for an unknown name: the known one that is most similar, or all of them."""
    names = list(known)
    similar = get_close_matches(name, names, n=1)
    return f"did you mean {similar[0]!r}?" if similar else f"there are {', '.join(names)}"


def check_choice(what: str, name: str, table: Mapping[str, object]) -> None:
    """`name` must be a key of the table."""
    if name not in table:
        raise Misfit(f"{what} must be one of {', '.join(table)}, but got {name!r}; {suggest(str(name), table)}")


def parse_settings(kind: type[Settings], settings: Mapping[str, object], where: str) -> Settings:
    """The settings as a `kind`; `where` says in an error where they come from."""
    known = [field.name for field in msgspec.structs.fields(kind)]
    for name in settings:
        if name not in known:
            raise Misfit(f"{where} has no setting {name!r}; {suggest(str(name), known)}")
    try:
        return msgspec.convert(dict(settings), kind, strict=True)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, Misfit):
            raise Misfit(f"{where}: {error.__cause__}") from error
        raise Misfit(f"{where} does not fit: {error}; correct that setting") from error


def json_kind(value: object) -> str:
    """What a value is called in JSON."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number"}
    return "null" if value is None else kinds.get(type(value), "a fraction")


def parse_json_object(content: bytes, where: str, max_bytes: int = LONGEST_JSON) -> dict[str, object]:
    """The one object in a JSON file of at most `max_bytes` bytes."""
    try:
        value = decode_json(content, max_bytes=max_bytes)
    except MalformedDocument as error:
        raise Misfit(f"{where} should be JSON, but it cannot be read ({error}); write it again") from error
    if not isinstance(value, dict):
        raise Misfit(f"{where} should hold one JSON object, but it holds {json_kind(value)}; write {{…}}")
    return value


def check_at_least(minimum: int, **numbers: int) -> None:
    """Every number, given by its name, must be `minimum` or more."""
    for name, number in numbers.items():
        if number < minimum:
            raise Misfit(f"{name} must be {minimum} or more, but got {number}; give a larger whole number")
