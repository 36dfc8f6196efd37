"""Exercises from a seed: the setup of a lesson with other numbers, what to compute, and the checked solution."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from transom.files.documents import decode_toml
from transom.lessons.check_claims import check_lesson
from transom.lessons.lesson import Lesson
from transom.lessons.lesson_file import parse_decimal, parse_lesson
from transom.lessons.lesson_setup import SETUP
from transom.lessons.steps import Step
from transom.names import Misfit

ASKED = ("Q", "scores", "weights", "sum", "joined", "output", "norm", "feed_forward", "cross_weights", "norm_2")
ASKED += ("logits", "probabilities", "loss", "step1_weights", "step1_probabilities")
MOST_TASKS = 4
NUMBERS = ("embeddings", "at_embeddings", "value_embeddings", "Q", "K", "V", "scores", "vectors")  # of the tokens
TRIES = 50
SHARPEST = 0.97  # of a weight


@dataclass(frozen=True)
class ExerciseTask:
    """One thing to compute: a row of a step."""

    step: Step
    row: int

    def question(self) -> str:
        head = f" in head {self.step.head}" if self.step.head is not None and self.step.head > 0 else ""
        return f"Compute {self.step.name} of “{self.step.rows[self.row]}”{head}: {self.step.title}."

    def solution(self) -> str:
        return " ".join(self.step.to_strings(3)[self.row])

    def arithmetic(self) -> str:
        """The largest number of the row, written out."""
        values = np.where(np.isfinite(self.step.values[self.row]), np.abs(self.step.values[self.row]), -1.0)
        cell = self.step.cell(self.row, int(values.argmax()))
        return f"{cell.subject}: {cell.to_text(3, most=6)}"


@dataclass(frozen=True, eq=False)
class Exercise:
    """A lesson with other numbers, and what to compute in it; its claims are the solution."""

    lesson: Lesson
    tasks: tuple[ExerciseTask, ...]

    def conditions(self) -> list[str]:
        """What one must know to compute it: how it attends, and what is around it."""
        setup = self.lesson.cases[""].setup
        assert setup is not None
        layer = setup.layers[0]
        attention, block = layer.attention, layer.block
        found = {
            "scores are divided by √d_head": attention.scale,
            "scores are not divided": not attention.scale,
            f"scores are divided by {attention.temperature:g}": attention.temperature != 1.0,
            f"{attention.heads} heads": attention.heads > 1,
            f"{attention.kv_heads} heads of keys and values": 0 < attention.kv_heads < attention.heads,
            "no row looks ahead": attention.allowed is not None,
            f"{setup.places} positions": bool(setup.places),
            f"similarity: {attention.similarity}": attention.similarity != "dot",
            "residuals": block.residual,
            f"{block.norm} norm, {'before' if block.norm_first else 'after'} each part": block.norm != "none",
        }
        return [words for words, holds in found.items() if holds]

    def to_dict(self) -> dict[str, Any]:
        tasks = [{"question": t.question(), "solution": t.solution(), "arithmetic": t.arithmetic()} for t in self.tasks]
        return {"lesson": self.lesson.source.text, "conditions": self.conditions(), "tasks": tasks}


def build_exercises(lesson: Lesson, count: int, seed: int) -> Iterator[Exercise]:
    """So many exercises on what a lesson teaches; the same seed gives the same ones."""
    settings = exercise_settings(lesson)
    for number in range(count):
        yield build_exercise(lesson, settings, np.random.default_rng([seed, number]))


def exercise_settings(lesson: Lesson) -> dict[str, Any]:
    """The settings of a lesson, or of its first case with something to compute by hand."""
    content = decode_toml(lesson.source.text, parse_float=parse_decimal)
    for table in (content, *content.get("case", [])):
        settings = {name: table.get(name, content.get(name)) for name in SETUP}
        settings = {name: value for name, value in settings.items() if value is not None}
        if "given" in table:
            settings.pop("embeddings", None)
        if "tokens" in settings and ("embeddings" in settings or "given" in settings):
            return settings
    raise Misfit(f"an exercise needs numbers to compute with, but {lesson.name} has none; choose another lesson")


def build_exercise(lesson: Lesson, settings: Mapping[str, Any], rng: np.random.Generator) -> Exercise:
    """Other numbers, until what is asked for is worth computing; if they never are, the last ones that can be."""
    found = None
    for _ in range(TRIES):
        changed = change_numbers(settings, rng, "")
        text = f"title = {to_toml_value(f'An exercise on: {lesson.title}')}\n" + to_toml(changed)
        tasks = choose_tasks(parse_lesson(text, "exercise.toml"), rng)
        if tasks:
            found = text, tasks
            if all(map(is_worthwhile, tasks)):
                break
    if found is None:
        raise Misfit(f"an exercise needs steps to compute, but {lesson.name} has none; choose another lesson")
    return prove(*found)


def is_worthwhile(task: ExerciseTask) -> bool:
    """Whether the numbers of a row differ, and no weight takes nearly everything."""
    row = task.step.values[task.row]
    row = row[np.isfinite(row)]
    shares = task.step.name.rpartition("_")[2] in ("weights", "probabilities")
    return row.size < 2 or (float(np.ptp(row)) > 1e-9 and not (shares and row.max() > SHARPEST))


def prove(text: str, tasks: tuple[ExerciseTask, ...]) -> Exercise:
    """The exercise with its solution as claims, each of which the checker finds right."""
    for task in tasks:
        head = "" if task.step.head in (None, 0) else f"head = {task.step.head}\n"
        head = head or ("head = 0\n" if task.step.head == 0 else "")
        values = ", ".join(
            '"masked"' if value == -math.inf else f"{value + 0.0:.3f}" for value in task.step.values[task.row]
        )
        place = f"row = {task.row + 1}\nlayer = {task.step.layer}\n"
        text += f'\n[[claim]]\nof = "{task.step.name}"\n{head}{place}value = [{values}]\n'
    lesson = parse_lesson(text, "exercise.toml")
    findings = check_lesson(lesson)
    if not all(finding.fine for finding in findings):
        raise Misfit(f"the solution of an exercise should be right, but {findings[0].where} is not; report this seed")
    return Exercise(lesson, tasks)


def choose_tasks(lesson: Lesson, rng: np.random.Generator) -> tuple[ExerciseTask, ...]:
    """Rows of the steps that a lesson has among those that are asked for, in the order of the computation."""
    found = [step for name in ASKED for step in lesson.steps() if step.name == name and not step.layer]
    places = sorted(rng.choice(len(found), size=min(MOST_TASKS, len(found)), replace=False).tolist()) if found else []
    order = {id(step): place for place, step in enumerate(lesson.steps())}
    steps = sorted((found[place] for place in places), key=lambda step: order[id(step)])
    return tuple(ExerciseTask(step, int(rng.integers(len(step.rows)))) for step in steps)


def change_numbers(value: Any, rng: np.random.Generator, name: str) -> Any:
    """The same settings with other numbers: vectors of tokens anew, parameters where they are not 0."""
    if isinstance(value, Mapping):
        return {key: change_numbers(entry, rng, key) for key, entry in value.items()}
    if not isinstance(value, list) or name in ("tokens", "at", "mask", "positions", "targets"):
        return value
    return [change_entry(entry, rng, name) for entry in value]


def change_entry(entry: Any, rng: np.random.Generator, name: str) -> Any:
    if isinstance(entry, list | Mapping):
        return (
            change_numbers(entry, rng, name)
            if isinstance(entry, Mapping)
            else [change_entry(one, rng, name) for one in entry]
        )
    if isinstance(entry, Decimal):
        return Decimal(int(rng.integers(1, 10))).scaleb(-1) * (1 if entry >= 0 else -1)
    if isinstance(entry, bool) or not isinstance(entry, int):
        return entry
    if name in NUMBERS:
        return int(rng.integers(0, 3))
    return 0 if entry == 0 else int(rng.integers(1, 3)) * (1 if entry > 0 else -1)


def to_toml(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Settings as TOML: values first, then tables."""
    plain = {name: value for name, value in settings.items() if not is_table(value)}
    text = "".join(f"{name} = {to_toml_value(value)}\n" for name, value in plain.items())
    for name, value in settings.items():
        if isinstance(value, Mapping):
            text += f"[{prefix}{name}]\n{to_toml(value, f'{prefix}{name}.')}"
        elif is_table(value):
            text += "".join(f"[[{prefix}{name}]]\n{to_toml(table, f'{prefix}{name}.')}" for table in value)
    return text


def is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and bool(value) and isinstance(value[0], Mapping))


def to_toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)
