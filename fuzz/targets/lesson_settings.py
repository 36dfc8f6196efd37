"""Lessons with settings put in, taken out and swapped: judged whole, and after correction every figure is right."""

import random
from math import isfinite
from pathlib import Path
from typing import Any

from transom.lessons import check_lesson, parse_lesson
from transom.lessons.check_claims import check_claims, corrected_text
from transom.lessons.lesson import MalformedPart
from transom.lessons.lesson_setup import ATTENTION, BLOCK, GIVEN, PARAMETERS
from transom.lessons.steps import Step

STARTS = {
    "embeddings": {
        "": {"tokens": '["a", "b", "c"]', "embeddings": "[[1, 0], [0, 2], [1, 1]]"},
        "parameters": {"W_Q": '"identity"', "W_K": "[[1, 2], [0, 1]]", "W_V": "[[1, 2], [3, 4]]"},
    },
    "queries": {
        "": {"tokens": '["a", "b", "c"]'},
        "given": {"Q": "[[1, 2], [0, 3], [2, 1]]", "K": "[[2, 0], [1, 1], [0, 5]]", "V": "[[1], [3], [4]]"},
    },
    "scores": {
        "": {"tokens": '["a", "b", "c"]'},
        "given": {"scores": "[[1, 2, 3], [0, 3, 5], [2, 1, 7]]", "V": "[[1], [3], [4]]"},
    },
}
NAMES = {
    "": ("tokens", "embeddings", "d_model", "positions", "at", "at_embeddings", "experiment"),
    "given": GIVEN,
    "attention": ATTENTION,
    "parameters": tuple(name for name in PARAMETERS if name != "model"),
    "block": BLOCK,
}
VALUES = (
    "true",
    "false",
    "0",
    "1",
    "2",
    "3",
    "64",
    "-1",
    "0.5",
    "1e12",
    '"causal"',
    '"none"',
    '"cosine"',
    '"additive"',
)
VALUES += ('"sinusoidal"', '"layer"', '"rms"', '"tanh"', '"identity"', '"zeros"', "{ random = 3 }", "[1, 2]", "[[1]]")
VALUES += ("[[1, 0], [0, 1]]", "[[1, 0, 0], [1, 1, 0], [1, 1, 1]]", '["x", "y"]', '{ name = "parameter_counts" }', "[]")


def prepare(folder: Path) -> None:
    """Nothing is shared."""


def try_input(state: Any, rng: random.Random) -> str:
    """One lesson of a form with up to three settings changed and up to four claims about its steps."""
    sections = {name: dict(settings) for name, settings in STARTS[rng.choice(list(STARTS))].items()}
    for _ in range(rng.randint(0, 3)):
        section = rng.choice(list(NAMES))
        name = rng.choice(NAMES[section])
        if rng.random() < 0.1:
            sections.get(section, {}).pop(name, None)
        else:
            sections.setdefault(section, {})[name] = rng.choice(VALUES)
    steps = list(parse_lesson(written(sections), "x.toml").steps())
    text = written(sections) + "".join(random_claim(rng, rng.choice(steps)) for _ in range(rng.randint(1, 4)))
    lesson = parse_lesson(text, "x.toml", partly=True)
    if any(isinstance(one, MalformedPart) for one in check_claims(lesson)):
        return "malformed claims"
    corrected = corrected_text(lesson, check_lesson(lesson))
    again = check_lesson(parse_lesson(corrected, "x.toml"))
    assert all(one.fine or one.claim.value is None or one.claim.slip for one in again), corrected
    return "corrected" if corrected != text else "judged"


def written(sections: dict[str, dict[str, str]]) -> str:
    """Settings by section as TOML."""
    text = 'title = "x"\n'
    for section, settings in sections.items():
        text += f"[{section}]\n" if section else ""
        text += "".join(f"{name} = {value}\n" for name, value in settings.items())
    return text


def random_claim(rng: random.Random, step: Step) -> str:
    """A claim about a step: its numbers to some digits, a few of them spoilt; now and then of another shape."""
    values = step.values if rng.random() < 0.5 else step.values[:1]
    row = "" if len(values) == len(step.values) else "row = 1\n"
    digits = rng.randint(0, 5)
    cells = [[cell(rng, float(one), digits) for one in line] for line in values]
    rows = [f"[{', '.join(line)}]" for line in cells]
    figure = rows[0] if row and rng.random() < 0.95 else f"[{', '.join(rows)}]"
    text = f'[[claim]]\nof = "{step.name}"\n{row}value = {figure}\n'
    return text + rng.choice(["", "", "", "", "head = 0\n", "head = 1\n", 'measure = "total"\n', "slip = true\n"])


def cell(rng: random.Random, value: float, digits: int) -> str:
    """A number as printed, or one that has nothing to do with it."""
    if rng.random() < 0.2:
        return rng.choice(['"masked"', "0", "1.5", "-3e2", f"{rng.uniform(-9, 9):.{digits}f}"])
    return f"{value:.{digits}f}" if isfinite(value) else '"masked"'
