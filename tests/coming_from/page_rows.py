"""The rows of docs/coming-from.md, and how the code in their middle column runs."""

import ast
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transom.cli import COMMANDS

PAGE = Path(__file__).parents[2] / "docs/coming-from.md"
ABSENT = "not there"
SPAN = re.compile(r"`([^`]+)`")

Names = Callable[[], dict[str, Any]]
CHECKS: dict[tuple[str, str], tuple[Callable[..., None], Names]] = {}


def check(section: str, *theirs: str, names: Names) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The check of some rows: called with the values of the code in their middle column, run with these names."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        for one in theirs:
            assert (section, one) not in CHECKS, f"two checks for {one}"
            CHECKS[section, one] = (function, names)
        return function

    return register


@dataclass(frozen=True)
class Row:
    """One row: the section it stands in, and its three cells."""

    section: str
    theirs: str
    ours: str
    note: str

    @property
    def key(self) -> tuple[str, str]:
        return self.section, self.theirs.replace("`", "")

    @property
    def code(self) -> list[str]:
        """The code of the middle column."""
        return SPAN.findall(self.ours)


def read_rows(text: str) -> Iterator[Row]:
    """The rows of every table, without the two lines of its head."""
    section, head = "", 0
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        if not line.startswith("| ") and not line.startswith("|--"):
            head = 0
            continue
        head += 1
        if head > 2:
            cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            assert len(cells) == 3, line
            yield Row(section, *cells)


def run_code(code: str, names: dict[str, Any]) -> Any:
    """The value of one piece of code: Python, a command, a setting of a model, or one of a recipe."""
    if code.startswith("transom "):
        return check_command(code)
    if re.match(r"\w+\.\w+ = ", code):
        return tomllib.loads(code)
    if code.startswith("with "):
        exec(code, names)
        return names["trace"]
    return eval(f"dict({code})" if re.match(r"\w+=[^=]", code) else code, names)


def check_command(code: str) -> list[str]:
    """The words of a command that exists."""
    words = shlex.split(code)[1:]
    assert words[0] in COMMANDS, code
    return words


def public_names(code: str) -> Iterator[list[str]]:
    """Every dotted name of Transom that a piece of Python mentions, as its parts behind `transom`."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"transom(\.\w+)+", ast.unparse(node)):
            yield ast.unparse(node).split(".")[1:]


def is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True
