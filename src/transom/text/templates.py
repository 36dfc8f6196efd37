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
FROM_PAIRS = ("pair", "clause")  # slots of frames, which training pairs fill
ONSETS = (  # noqa: SIM905
    "b c d f g h j k l m n p r s t v w y z b d k l m n r s t v br ch cl dr fl fr gh gr gw hj kh kl kr kw ll mb nd ng "
    "ny ph pr qu rh sc sch sh sk sl sm st str sv sz th tr ts tw ty vl wh wr x zh"
).split()
VOWELS = "a e i o u a e i o u ae ai au ay ea ee ei eo ia ie io oa oi oo ou ua ue ui uo y é".split()  # noqa: SIM905
CODAS = (  # noqa: SIM905
    "n r s l m t k d x n r s l ck ld ll lm ls lt nd ng nk ns nt rd rg rk rl rn rs rt sh ss st tt tz w z h ff"
).split()
NAME_ENDS = (  # noqa: SIM905
    "a o i e y ah ov ova ev eva ez es sky ska wicz sson sen son berg burg mann stein ini elli etti ani ian yan idze "
    "opoulos oglu escu quist strom dal gaard ford ton ham field wood worth ville land a ia ie ina ette elle is us io"
).split()
CODE = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def pick(rng: random.Random, items: Sequence[Item]) -> Item:
    """One of the items; from `random()` alone, whose numbers are the same in every version of Python."""
    return items[int(rng.random() * len(items))]


def draw_number(rng: random.Random, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return low + int(rng.random() * (high - low + 1))


def make_name(rng: random.Random) -> str:
    """A name that nobody has, of one to four syllables; a model can only copy it."""
    name = "" if rng.random() < 0.8 else pick(rng, VOWELS)
    for _ in range(pick(rng, [1, 1, 2, 2, 2, 3])):
        name += pick(rng, ONSETS) + pick(rng, VOWELS)
        name += pick(rng, CODAS) if rng.random() < 0.35 else ""
    if rng.random() < 0.45:
        name = name.rstrip("aeiouyé") + pick(rng, NAME_ENDS) if len(name) > 3 else name + pick(rng, CODAS)
    return name.capitalize()


def make_word(rng: random.Random) -> str:
    """A word in lower case without accents, for addresses, files and tags."""
    return make_name(rng).lower().replace("é", "e")


def make_digits(rng: random.Random) -> str:
    """Three to five digits; half of them have digits more than once, which a model is quick to leave out."""
    digits = "0123456789" if rng.random() < 0.5 else pick(rng, "0123456789") + pick(rng, "0123456789")
    return "".join(pick(rng, digits) for _ in range(draw_number(rng, 3, 5)))


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
    "digits": lambda rng: make_same(make_digits(rng)),
    "word": lambda rng: make_same(make_word(rng)),
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
            if name not in slots and name not in GENERATORS and name not in FROM_PAIRS:
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
