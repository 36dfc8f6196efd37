"""A table of a lesson file, asked setting by setting: what does not fit is told with file and line."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from transom.files.strict import nearest
from transom.lessons.lines import Path, Source
from transom.names import Misfit

LARGEST = 1e12  # of any number in a lesson: products and sums of such stay finite
FINEST = 15  # decimals: float64 has no more to give


@dataclass(frozen=True)
class Table:
    """One table: its settings, where it stands, the file it is from, and the table that fills what it leaves out."""

    own: Mapping[str, Any]
    path: Path
    source: Source
    below: "Table | None" = None

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.own if self.below is None else {**self.below.settings, **self.own}

    def __contains__(self, name: str) -> bool:
        return name in self.settings

    def wrong(self, name: str | None, complaint: str) -> Misfit:
        """The complaint about a setting, or about the table, with file and line."""
        if name is not None and name not in self.own and self.below is not None and name in self.below:
            return self.below.wrong(name, complaint)
        return Misfit(f"{self.source.at(self.path if name is None else (*self.path, name))}: {complaint}")

    def place_of(self, name: str) -> Path:
        """The path of a setting where it stands: in this table, or in the one that fills what this one leaves out."""
        if name in self.own or self.below is None:
            return (*self.path, name)
        return self.below.place_of(name)

    def known(self, names: Iterable[str]) -> "Table":
        """Complain about a setting that does not exist."""
        listed = list(names)
        for name in self.own:
            if name not in listed:
                raise self.wrong(name, f"there is no setting {name!r} here; {nearest(name, listed)}")
        return self

    def words(self, name: str, default: str | None = None, longest: int = 20_000) -> str:
        value = self.settings.get(name, default)
        if value is None:
            raise self.wrong(None, f'{name} must be given, but it is not; write {name} = "…"')
        if not isinstance(value, str) or len(value) > longest:
            raise self.wrong(name, f"{name} must be a text of at most {longest} signs, but got {shown(value)}")
        return value

    def labels(self, name: str, most: int) -> tuple[str, ...]:
        """A list of tokens."""
        value = self.settings[name]
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise self.wrong(name, f'{name} must be a list of texts, but got {shown(value)}; write ["The", "cat"]')
        if len(value) > most or max(len(one) for one in value) > 200:
            raise self.wrong(
                name, f"{name} may have {most} tokens of 200 signs, but {len(value)} came; a lesson is to be read"
            )
        return tuple(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.settings.get(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, f"{name} must be true or false, but got {shown(value)}")
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        value = self.settings.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, f"{name} must be a whole number from {low} to {high}, but got {shown(value)}")
        return value

    def real(self, name: str, default: float, low: float, high: float) -> float:
        value = self.settings.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not low <= value <= high:
            raise self.wrong(name, f"{name} must be a number from {low:g} to {high:g}, but got {shown(value)}")
        return float(value)

    def choice(self, name: str, default: str, known: Iterable[str]) -> str:
        value = self.settings.get(name, default)
        listed = list(known)
        if value not in listed:
            raise self.wrong(
                name,
                f"{name} must be one of {', '.join(listed)}, but got {shown(value)}; {nearest(str(value), listed)}",
            )
        return value

    def table(self, name: str) -> "Table":
        """A table inside; what it leaves out is filled by the one of the same name below."""
        below = None if self.below is None or name not in self.below else self.below.table(name)
        value = self.own.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(name, f"{name} must be a table, but got {shown(value)}; write [{name}]")
        return Table(value, (*self.path, name), self.source, below)

    def tables(self, name: str) -> "list[Table]":
        if name not in self.own and self.below is not None:
            return self.below.tables(name)
        value = self.own.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(name, f"{name} must be a list of tables, but got {shown(value)}; write [[{name}]]")
        return [Table(one, (*self.path, name, place), self.source) for place, one in enumerate(value)]


def shown(value: object, longest: int = 40) -> str:
    """A value as an error may show it, also a long one."""
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


def printed(value: object) -> Decimal | None:
    """A number with its printed digits; None if it is none, or not one to compute with."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    exact = Decimal(value)
    if not exact.is_finite() or abs(exact.adjusted()) > 400 or not math.isfinite(float(exact)):
        return None
    return exact if abs(float(exact)) <= LARGEST else None


def decimals(value: Decimal) -> int:
    """How many decimals a number was printed with."""
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0  # infinity, for what is masked, has none
