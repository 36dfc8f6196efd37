"""Settings from outside: every name known, every type right, and the nearest name told where one is not."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

import msgspec

from transom.files.documents import LONGEST_JSON, Malformed, decode_json
from transom.names import Misfit

Settings = TypeVar("Settings", bound=msgspec.Struct)


def nearest(word: str, known: Iterable[str]) -> str:
    """The way out for an unknown word: the known one that looks most like it, or all of them."""
    names = list(known)
    alike = get_close_matches(word, names, n=1)
    return f"did you mean {alike[0]!r}?" if alike else f"there are {', '.join(names)}"


def chosen(what: str, word: str, table: Mapping[str, object]) -> None:
    """Complain unless `word` names a row of the table."""
    if word not in table:
        raise Misfit(f"{what} must be one of {', '.join(table)}, but got {word!r}; {nearest(str(word), table)}")


def settings(kind: type[Settings], given: Mapping[str, object], where: str) -> Settings:
    """The settings as `kind` holds them; `where` says in an error what they came from."""
    known = [field.name for field in msgspec.structs.fields(kind)]
    for name in given:
        if name not in known:
            raise Misfit(f"{where} has no setting {name!r}; {nearest(str(name), known)}")
    try:
        return msgspec.convert(dict(given), kind, strict=True)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, Misfit):
            raise Misfit(f"{where}: {error.__cause__}") from error
        raise Misfit(f"{where} does not fit: {error}; mend that setting") from error


def json_object(content: bytes, where: str, most: int = LONGEST_JSON) -> dict[str, object]:
    """The one object that a JSON file of at most `most` bytes holds."""
    try:
        found = decode_json(content, most=most)
    except Malformed as error:
        raise Misfit(f"{where} should be JSON, but it cannot be read ({error}); write it anew") from error
    if not isinstance(found, dict):
        raise Misfit(f"{where} should hold one JSON object, but it holds a {type(found).__name__}; write {{…}}")
    return found
