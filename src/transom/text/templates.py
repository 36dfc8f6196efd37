"""Pairs made from templates: `I met {name}.` with a name from a list, or with a number that was made up."""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from transom.files.strict_settings import suggest
from transom.files.untrusted_files import read_numbered_lines, require_file
from transom.names import Misfit
from transom.text.corpora import Pair, read_tsv

Item = TypeVar("Item")
Slots = dict[str, list[Pair]]  # the values of each slot, as the source and as the target write them
SLOT = re.compile(r"\{([a-z_]+)(\d*)\}")
DEEPEST = 4  # slots inside values of slots
CONSONANTS = "b c d f g h j k l m n p r s t v w z br ch dr gr kr sh st th tr".split()  # noqa: SIM905
VOWELS = ("a", "e", "i", "o", "u", "ai", "ea")
CODE = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def pick(rng: random.Random, items: Sequence[Item]) -> Item:
    """One of the items; from `random()` alone, whose numbers are the same in every version of Python."""
    return items[int(rng.random() * len(items))]


def draw_number(rng: random.Random, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return low + int(rng.random() * (high - low + 1))


def make_name(rng: random.Random) -> str:
    """A name that nobody has, of two or three syllables; a model can only copy it."""
    name = "".join(pick(rng, CONSONANTS) + pick(rng, VOWELS) for _ in range(draw_number(rng, 2, 3)))
    return (name + pick(rng, ["", "", "n", "r", "s", "l"])).capitalize()


def make_same(text: str) -> Pair:
    return Pair(text, text)


def make_thousands(rng: random.Random) -> Pair:
    """1,250 in English, 1 250 in French."""
    number = f"{draw_number(rng, 1000, pick(rng, [9999, 99999, 999999])):,}"
    return Pair(number, number.replace(",", " "))


def make_decimal(rng: random.Random) -> Pair:
    """12.50 in English, 12,50 in French."""
    number = f"{draw_number(rng, 1, 99)}.{draw_number(rng, 1, 99):02}"
    return Pair(number, number.replace(".", ","))


# Slots without a list: a function makes each value.
GENERATORS: dict[str, Callable[[random.Random], Pair]] = {
    "made_up": lambda rng: make_same(make_name(rng)),
    "number": lambda rng: make_same(str(draw_number(rng, 2, pick(rng, [9, 99, 999, 9999])))),
    "small": lambda rng: make_same(str(draw_number(rng, 2, 99))),
    "hundreds": lambda rng: make_same(str(draw_number(rng, 100, 999))),
    "digits": lambda rng: make_same("".join(pick(rng, "0123456789") for _ in range(draw_number(rng, 3, 4)))),
    "thousands": make_thousands,
    "decimal": make_decimal,
    "year": lambda rng: make_same(str(draw_number(rng, 1750, 2060))),
    "day": lambda rng: make_same(str(draw_number(rng, 2, 31))),
    "hour": lambda rng: make_same(str(draw_number(rng, 2, 23))),
    "minute": lambda rng: make_same(f"{draw_number(rng, 1, 59):02}"),
    "code": lambda rng: make_same("".join(pick(rng, CODE) for _ in range(draw_number(rng, 2, 5)))),
}


def read_slots(path: Path | str) -> Slots:
    """The lists of a file with three columns: slot, source, target."""
    slots: Slots = {}
    for number, line in read_numbered_lines(require_file(path)):
        columns = line.split("\t")
        if not line.strip():
            continue
        if len(columns) != 3 or not all(map(str.strip, columns)):
            raise Misfit(
                f"{path}, line {number}: expected slot, source and target with tabs between them, but there are"
                f" {len(columns)} columns; correct the line"
            )
        slots.setdefault(columns[0], []).append(Pair(columns[1], columns[2]))
    return slots


def read_templates(path: Path | str, slots: Slots) -> list[Pair]:
    """The templates of a file with two columns; each slot in them must be known, and be on both sides."""
    templates = list(read_tsv(path, [0, 1], Pair))
    for template in [*templates, *(pair for pairs in slots.values() for pair in pairs)]:
        source, target = (set(SLOT.findall(side)) for side in (template.source, template.target))
        if source != target:
            raise Misfit(f"{path}: {template.source!r} and {template.target!r} must have the same slots; correct one")
        for name, _ in source:
            if name not in slots and name not in GENERATORS:
                raise Misfit(f"{path}: there is no slot {name!r}; {suggest(name, [*slots, *GENERATORS])}")
    return templates


def fill_template(template: Pair, slots: Slots, rng: random.Random, depth: int = 0) -> Pair:
    """A pair with a value in each slot; `{name}` has the same value everywhere, `{name2}` another one."""
    values: dict[str, Pair] = {}
    for name, number in dict.fromkeys(SLOT.findall(template.source)):
        taken = [value.source for value in values.values()]
        value = draw_value(name, slots, rng, depth)
        for _ in range(10):  # two slots of one kind should differ
            if value.source not in taken:
                break
            value = draw_value(name, slots, rng, depth)
        values[name + number] = value
    return Pair(
        SLOT.sub(lambda match: values[match[1] + match[2]].source, template.source),
        SLOT.sub(lambda match: values[match[1] + match[2]].target, template.target),
    )


def draw_value(name: str, slots: Slots, rng: random.Random, depth: int) -> Pair:
    """A value of a slot; a value may have slots itself."""
    value = GENERATORS[name](rng) if name in GENERATORS else pick(rng, slots[name])
    if SLOT.search(value.source) and depth < DEEPEST:
        return fill_template(value, slots, rng, depth + 1)
    return value


def fill_templates(templates: list[Pair], slots: Slots, count: int, rng: random.Random) -> Iterable[Pair]:
    """So many pairs, each from a random template."""
    return (fill_template(pick(rng, templates), slots, rng) for _ in range(count))
