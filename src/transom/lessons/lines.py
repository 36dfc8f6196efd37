"""Where in a TOML file a setting stands: tomllib gives values without their lines."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]  # ("claim", 2, "value"): the value of the third [[claim]]
SKIPPED = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)  # strings and comments, in which a bracket is just a sign


@dataclass(frozen=True)
class Statement:
    """One `key = value`, or one [header], from its first sign to its last."""

    path: Path
    start: int
    end: int


def statements(text: str) -> Iterator[Statement]:
    """Every statement of a TOML text that tomllib has read without complaint."""
    header: Path = ()
    counts: dict[Path, int] = {}
    for start, end in spans(text):
        piece = text[start:end]
        if piece.startswith("["):
            header = headed(piece, counts)
            yield Statement(header, start, end)
        else:
            yield Statement(header + keyed(piece), start, end)


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each statement: it goes on while a bracket is open."""
    start, depth, place = None, 0, 0
    while place < len(text):
        skipped = SKIPPED.match(text, place)
        sign = text[place]
        if skipped and not (sign == "#" and depth == 0):
            start = place if start is None and sign != "#" else start
            place = skipped.end()
            continue
        if sign in "\n#" and depth == 0:
            if start is not None:
                yield start, place
            start = None
            place = skipped.end() if skipped else place + 1
            continue
        depth += (sign in "[{") - (sign in "]}")
        start = place if start is None and not sign.isspace() else start
        place += 1
    if start is not None:
        yield start, len(text)


def headed(piece: str, counts: dict[Path, int]) -> Path:
    """The path of [a.b] or [[a.b]]; the tables of a list are counted from 0."""
    several = piece.startswith("[[")
    words = names(tomllib.loads(piece))
    path: Path = ()
    for place, word in enumerate(words):
        path = (*path, word)
        last = place == len(words) - 1
        if last and several:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def keyed(piece: str) -> Path:
    """The path of a.b in `a.b = value`."""
    skip = re.compile(r'"(?:\\.|[^"\\])*"|\'[^\']*\'|[^=]')
    place = 0
    while piece[place] != "=":
        found = skip.match(piece, place)
        place = found.end() if found else place + 1
    return tuple(names(tomllib.loads(f"{piece[:place]}= 0")))


def names(table: Any) -> list[str]:
    """The keys down to the innermost table, of which each holds one."""
    words: list[str] = []
    while table and isinstance(table, dict | list):
        if isinstance(table, list):
            table = table[0]
            continue
        word, table = next(iter(table.items()))
        words.append(word)
    return words


@dataclass(frozen=True)
class Source:
    """The text of a lesson, and where each of its settings stands."""

    name: str
    text: str
    places: dict[Path, Statement]

    def at(self, path: Path) -> str:
        """`file, line 12` of a setting, or of the nearest table around it."""
        statement = self.statement(path)
        line = 1 if statement is None else self.text.count("\n", 0, statement.start) + 1
        return f"{self.name}, line {line}"

    def start_of(self, path: Path) -> int:
        """Where in the text a setting begins."""
        statement = self.statement(path)
        return 0 if statement is None else statement.start

    def statement(self, path: Path) -> Statement | None:
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path)


def source(name: str, text: str) -> Source:
    """The text with its places; the first statement of a path counts."""
    places: dict[Path, Statement] = {}
    for statement in statements(text):
        for length in range(len(statement.path), 0, -1):
            places.setdefault(statement.path[:length], statement)
    return Source(name, text, places)
