"""Exercises: the same sheet for the same seed, other numbers for another, and every solution right."""

import pytest

from transom.lessons import check_lesson, parse_lesson
from transom.lessons.exercises import build_exercises, to_toml
from transom.lessons.lesson_file import load_shipped, shipped_paths
from transom.names import Misfit

BY_HAND = [path.stem[3:] for path in shipped_paths() if path.stem[3:] != "distance"]


@pytest.mark.parametrize("name", BY_HAND)
def test_every_solution_is_what_the_checker_finds_right(name):
    exercises = list(build_exercises(load_shipped(name), 2, seed=7))
    assert len(exercises) == 2
    for exercise in exercises:
        again = parse_lesson(exercise.lesson.source.text, "again.toml")
        findings = check_lesson(again)
        assert [finding.verdict for finding in findings] == ["right"] * len(exercise.tasks)
        assert exercise.tasks
        for task in exercise.tasks:
            assert task.question().startswith("Compute ")
            assert task.solution()
            assert task.arithmetic()
    assert exercises[0].lesson.source.text != exercises[1].lesson.source.text


def test_a_wrong_solution_is_found():
    (exercise,) = build_exercises(load_shipped("three-tokens"), 1, seed=3)
    text = exercise.lesson.source.text
    start = text.rindex("value = [") + len("value = [")
    end = text.index("]", start)
    spoiled = text[:start] + ", ".join(["9.999"] * (text[start:end].count(",") + 1)) + text[end:]
    assert [f.verdict for f in check_lesson(parse_lesson(spoiled, "x.toml"))][-1] == "wrong"


def test_a_seed_gives_the_same_sheet_and_another_seed_another():
    def sheet(seed):
        return [exercise.to_dict() for exercise in build_exercises(load_shipped("six-words"), 3, seed)]

    assert sheet(7) == sheet(7)
    assert sheet(7) != sheet(8)


def test_what_must_be_known_is_said():
    (exercise,) = build_exercises(load_shipped("decoder-block"), 1, seed=7)
    assert exercise.conditions() == [
        "scores are divided by √d_head",
        "no row looks ahead",
        "residuals",
        "layer norm, after each part",
    ]
    (exercise,) = build_exercises(load_shipped("shared-keys"), 1, seed=7)
    assert exercise.conditions() == ["scores are divided by √d_head", "4 heads", "2 heads of keys and values"]


def test_a_lesson_without_numbers_has_no_exercises():
    with pytest.raises(Misfit) as caught:
        list(build_exercises(load_shipped("distance"), 1, seed=7))
    assert str(caught.value) == (
        "an exercise needs numbers to compute with, but 20-distance has none; choose another lesson"
    )


def test_settings_are_written_as_toml_that_reads_back():
    import tomllib

    settings = {"tokens": ['a"b', "\\"], "attention": {"scale": False}, "layer": [{"block": {"norm": "rms"}}, {}]}
    assert tomllib.loads(to_toml(settings)) == settings
