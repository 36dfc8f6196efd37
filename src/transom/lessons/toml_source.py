"""A TOML file with the line of every setting, and its tables read key by key, so that an error names file and line."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from transom.files.strict_settings import suggest
from transom.names import Misfit

Path = tuple[str | int, ...]  # ("claim", 2, "value"): the value of the third [[claim]]
STRING_OR_COMMENT = r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*'
TOKEN = re.compile(f"{STRING_OR_COMMENT}|.", re.DOTALL)  # a bracket in a string or comment means nothing


@dataclass(frozen=True)
class TomlStatement:
    """One `key = value`, or one [header]: its path, and where it starts and ends in the text."""

    path: Path
    start: int
    end: int


def statements(text: str) -> Iterator[TomlStatement]:
    """Every statement of a TOML text that tomllib has accepted."""
    header: Path = ()
    counts: dict[Path, int] = {}
    for start, end in statement_spans(text):
        statement = text[start:end]
        if statement.startswith("["):
            header = header_path(statement, counts)
            yield TomlStatement(header, start, end)
        else:
            yield TomlStatement(header + key_path(statement), start, end)


def statement_spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each statement; it goes on while a bracket is open."""
    start, depth = None, 0
    for match in TOKEN.finditer(text):
        token = match.group()
        if depth == 0 and token[0] in "\n#":
            if start is not None:
                yield start, match.start()
            start = None
            continue
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if start is None and not token.isspace():
            start = match.start()
    if start is not None:
        yield start, len(text)


def header_path(header: str, counts: dict[Path, int]) -> Path:
    """The path of [a.b] or [[a.b]]; the tables of a list are counted from 0."""
    keys = nested_keys(tomllib.loads(header))
    path: Path = ()
    for depth, key in enumerate(keys, start=1):
        path = (*path, key)
        if depth == len(keys) and header.startswith("[["):
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def key_path(statement: str) -> Path:
    """The path of a.b in `a.b = value`."""
    key = re.match(r'(?:"(?:\\.|[^"\\])*"|\'[^\']*\'|[^=])*', statement)
    assert key is not None
    return tuple(nested_keys(tomllib.loads(f"{key.group()}= 0")))


def nested_keys(table: Any) -> list[str]:
    """The keys down to the innermost value, of tables that hold one each."""
    keys: list[str] = []
    while table and isinstance(table, dict | list):
        if isinstance(table, list):
            table = table[0]
            continue
        key, table = next(iter(table.items()))
        keys.append(key)
    return keys


@dataclass(frozen=True)
class TomlSource:
    """The text of a lesson, and the statement of each path in it.

    first_line    where it begins in its file
    reads_files   whether it may name files beside it; a text that came over the network may not
    """

    name: str
    text: str
    statements: dict[Path, TomlStatement]
    first_line: int = 1
    reads_files: bool = True

    def at(self, path: Path) -> str:
        """`file, line 12` of a setting, or of the nearest table around it."""
        line = self.text.count("\n", 0, self.offset_of(path)) + self.first_line
        return f"{self.name}, line {line}"

    def offset_of(self, path: Path) -> int:
        """Where in the text a setting begins."""
        statement = self.statement(path)
        return 0 if statement is None else statement.start

    def statement(self, path: Path) -> TomlStatement | None:
        while path not in self.statements and path:
            path = path[:-1]
        return self.statements.get(path)


def index_toml(name: str, text: str, first_line: int = 1, reads_files: bool = True) -> TomlSource:
    """The text with the statement of each path; the first one counts."""
    known: dict[Path, TomlStatement] = {}
    for statement in statements(text):
        for length in range(len(statement.path), 0, -1):
            known.setdefault(statement.path[:length], statement)
    return TomlSource(name, text, known, first_line, reads_files)


LARGEST = 1e12  # of any number in a lesson: products and sums of such stay finite
FINEST = 15  # decimals: float64 has no more


@dataclass(frozen=True)
class TomlTable:
    """One table: its own settings, its path, the file it is from, and the table that fills in what it leaves out."""

    own: Mapping[str, Any]
    path: Path
    source: TomlSource
    fallback: "TomlTable | None" = None

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.own if self.fallback is None else {**self.fallback.settings, **self.own}

    def __contains__(self, name: str) -> bool:
        return name in self.settings

    def holder(self, name: str) -> "TomlTable":
        """The table that a setting is written in: this one, unless it is in the fallback alone."""
        if name in self.own or self.fallback is None or name not in self.fallback:
            return self
        return self.fallback.holder(name)

    def path_of(self, name: str) -> Path:
        return (*self.holder(name).path, name)

    def error(self, name: str | None, complaint: str) -> Misfit:
        """The complaint about a setting, or about the table, with file and line."""
        return Misfit(f"{self.source.at(self.path if name is None else self.path_of(name))}: {complaint}")

    def check_keys(self, names: Iterable[str]) -> "TomlTable":
        """Complain about an unknown setting."""
        known = list(names)
        for name in self.own:
            if name not in known:
                raise self.error(name, f"there is no setting {name!r} here; {suggest(name, known)}")
        return self

    def setting(self, name: str, default: Any, *limits: Any) -> Any:
        """A setting of the type of its default; `limits` are the least and most of a number, the choices of a text."""
        if isinstance(default, bool):
            return self.flag(name, default)
        if isinstance(default, str):
            return self.choice(name, default, limits)
        return self.integer(name, default, *limits) if isinstance(default, int) else self.number(name, default, *limits)

    def text(self, name: str, default: str | None = None, longest: int = 20_000) -> str:
        value = self.settings.get(name, default)
        if value is None:
            raise self.error(None, f'{name} must be given, but it is not; write {name} = "…"')
        if not isinstance(value, str) or len(value) > longest:
            raise self.error(name, f"{name} must be a text of at most {longest} characters, but got {quote(value)}")
        return value

    def labels(self, name: str, most: int) -> tuple[str, ...]:
        """A list of tokens."""
        value = self.settings[name]
        if not isinstance(value, list) or not value or not all(isinstance(label, str) for label in value):
            raise self.error(name, f'{name} must be a list of texts, but got {quote(value)}; write ["The", "cat"]')
        if len(value) > most or max(len(label) for label in value) > 200:
            raise self.error(
                name,
                f"{name} may have {most} tokens of 200 characters, but {len(value)} came; take fewer, shorter ones",
            )
        return tuple(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.settings.get(name, default)
        if not isinstance(value, bool):
            raise self.error(name, f"{name} must be true or false, but got {quote(value)}")
        return value

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        value = self.settings.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(name, f"{name} must be a whole number from {low} to {high}, but got {quote(value)}")
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        value = self.settings.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not low <= value <= high:
            raise self.error(name, f"{name} must be a number from {low:g} to {high:g}, but got {quote(value)}")
        return float(value)

    def choice(self, name: str, default: str, choices: Iterable[str]) -> str:
        value, known = self.settings.get(name, default), list(choices)
        if value not in known:
            listed = ", ".join(known)
            raise self.error(
                name, f"{name} must be one of {listed}, but got {quote(value)}; {suggest(str(value), known)}"
            )
        return value

    def table(self, name: str) -> "TomlTable":
        """A table inside; the one of the same name in the fallback fills in what it leaves out."""
        fallback = None if self.fallback is None or name not in self.fallback else self.fallback.table(name)
        value = self.own.get(name, {})
        if not isinstance(value, dict):
            raise self.error(name, f"{name} must be a table, but got {quote(value)}; write [{name}]")
        return TomlTable(value, (*self.path, name), self.source, fallback)

    def tables(self, name: str, most: int) -> "list[TomlTable]":
        """The tables of a list [[name]]."""
        holder = self.holder(name)
        value = holder.own.get(name, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.error(name, f"{name} must be a list of tables, but got {quote(value)}; write [[{name}]]")
        if len(value) > most:
            raise self.error(name, f"a lesson may have {most} of [[{name}]], but {len(value)} came; take fewer")
        return [TomlTable(entry, (*holder.path, name, index), self.source) for index, entry in enumerate(value)]


def quote(value: object, longest: int = 40) -> str:
    """A value as an error shows it, shortened if it is long."""
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


def parse_number(value: object) -> Decimal | None:
    """A number with its printed digits; None if it is not a number to compute with."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    exact = Decimal(value)
    if not exact.is_finite() or abs(exact.adjusted()) > 400 or not math.isfinite(float(exact)):
        return None
    return exact if abs(float(exact)) <= LARGEST else None


def count_decimals(value: Decimal) -> int:
    """How many decimals a number was printed with."""
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0  # infinity, a masked score, has none
