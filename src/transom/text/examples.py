"""What is learned from: a text to go on from, a pair, a text with its class."""

from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Line:
    """A text to go on from."""

    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and what it should become."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and the class it belongs to."""

    text: str
    label: str


Example = Line | Pair | Labelled
Some = TypeVar("Some", Line, Pair, Labelled)
