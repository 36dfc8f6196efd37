"""Screens, predictions and changes in a lesson file: read, judged, and refused in words where they are malformed."""

from decimal import Decimal

import pytest

from transom.lessons import load_lesson, parse_lesson
from transom.lessons.lesson_screens import script_to_dict
from transom.lessons.predictions import change_lesson, judge_answer, right_answer
from transom.names import Misfit

BASE = """title = "x"
tokens = ["The", "cat", "sat"]
embeddings = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
[parameters]
all = "identity"
[[case]]
name = "masked"
[case.attention]
mask = "causal"
[[step]]
title = "Weights"
show = ["weights"]
"""
PREDICT = '[step.predict]\nask = "How much?"\n'
WEIGHT = 'of = "weights"\nrow = "The"\ncolumn = "cat"\n'
CHANGE = "[step.change]\n"


def read(more):
    return parse_lesson(BASE + more, "x.toml")


def prediction(more):
    lesson = read(PREDICT + more)
    return lesson, lesson.script[0].predict


@pytest.mark.parametrize(
    ("text", "right"),
    [("0.1554", True), ("0.16", True), ("0,155", True), ("0.2", False), ("0.17", False), ("1", False)],
)
def test_a_figure_is_right_to_the_digits_it_is_typed_with(text, right):
    assert judge_answer(*prediction(WEIGHT), text).is_right is right


def test_a_wrong_figure_gets_the_cause_that_the_checker_finds():
    lesson, asked = prediction(WEIGHT + "digits = 4\n")
    unscaled = judge_answer(lesson, asked, "0.0634")
    assert not unscaled.is_right
    assert unscaled.right == "0.1554"
    assert any("not divided by √d_head" in cause for cause in unscaled.causes)


def test_choices_by_number_by_words_and_by_figure():
    lesson, asked = prediction(WEIGHT + "choices = [0.16, 0.42]\n")
    assert right_answer(lesson, asked) == "0.16"
    assert judge_answer(lesson, asked, "1").is_right
    assert judge_answer(lesson, asked, "0.16").is_right
    assert not judge_answer(lesson, asked, "2").is_right
    bounds = 'choices = [{ says = "more than half", above = 0.5 }, { says = "less", below = 0.5 }]\n'
    lesson, asked = prediction(WEIGHT + bounds)
    assert judge_answer(lesson, asked, "less").is_right
    assert not judge_answer(lesson, asked, "more than half").is_right


def test_the_largest_column():
    lesson, asked = prediction('of = "weights"\nrow = "sat"\nwhich = "largest"\n')
    assert right_answer(lesson, asked) == "sat"
    assert judge_answer(lesson, asked, "3").is_right
    lesson, asked = prediction('of = "weights"\nrow = "The"\nwhich = "smallest"\n')
    assert right_answer(lesson, asked) == "cat"


def test_a_number_is_changed_in_the_lesson_and_in_a_case():
    lesson = read(CHANGE + 'set = "embeddings"\nrow = "cat"\ncolumn = 1\nto = 5\nsee = ["weights"]\n')
    change = lesson.script[0].change
    assert change_lesson(lesson, change).steps()["embedding"].values[1].tolist() == [5, 1, 0, 1]
    assert change_lesson(lesson, change, "masked").steps("masked")["embedding"].values[1, 0] == 5
    assert change_lesson(lesson, change, to=Decimal("2.5")).steps()["Q"].values[1, 0] == 2.5
    assert lesson.steps()["embedding"].values[1, 0] == 0
    lesson = read(CHANGE + 'set = "attention.temperature"\nto = 2\nsee = ["weights"]\n')
    with pytest.raises(Misfit) as caught:
        change_lesson(lesson, lesson.script[0].change)
    assert str(caught.value) == (
        "x.toml, line 1: there is no attention.temperature to change; name a setting of the lesson"
    )


def test_the_script_as_data():
    lesson = read(PREDICT + WEIGHT + 'because = "So."\n')
    (screen,) = script_to_dict(lesson)
    assert screen["title"] == "Weights"
    assert screen["predict"] == {"ask": "How much?", "choices": (), "digits": 2, "right": "0.16", "because": "So."}
    assert screen["change"] is None


MALFORMED = {
    "unknown key": ('shows = ["weights"]\n', "there is no setting 'shows' here; did you mean 'show'?"),
    "unknown case": ('case = "maskd"\n', "case must be one of masked, but got 'maskd'; did you mean 'masked'?"),
    "unknown view": (
        'picture = "matrx"\n',
        "picture must be one of steps, sequence, arrows, matrix, heads, rows, context, histogram, entropy, curves,"
        " vectors, fold, architecture, but got 'matrx'; did you mean 'matrix'?",
    ),
    "which and choices": (
        PREDICT + 'of = "weights"\nrow = 1\nwhich = "largest"\nchoices = [1, 2]\n',
        "which asks for a column, so all columns are the choices; leave choices out",
    ),
    "no choice": (
        PREDICT + WEIGHT + 'choices = ["many"]\n',
        "a choice is a figure, or words with a bound, but got 'many'; write choices = [0.1, 0.5], or"
        ' { says = "more", above = 0.5 }',
    ),
    "no bound": (
        PREDICT + WEIGHT + 'choices = [{ says = "many" }]\n',
        "words hold above or below a number, but got {'says': 'many'}; give a bound",
    ),
    "nothing to change": (
        CHANGE + "to = 3\n",
        'a change has set and to, but set is not given; write set = "embeddings"',
    ),
    "no number": (
        CHANGE + 'set = "embeddings"\nto = "3"\n',
        "to must be a number up to 1e+12, but got '3'",
    ),
    "no list": ('show = "weights"\n', "show must list steps, but got 'weights'; write show = [\"weights\"]"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_screen_is_refused_in_words(name, tmp_path):
    more, message = MALFORMED[name]
    text = BASE.replace('show = ["weights"]\n', "") + more
    with pytest.raises(Misfit) as caught:
        parse_lesson(text, "x.toml")
    assert str(caught.value).partition(": ")[2] == message
    path = tmp_path / "x.toml"
    path.write_text(text)
    assert [part.complaint for part in load_lesson(path, partly=True).malformed] == [message]


QUESTIONS = {
    "many numbers": (
        'of = "weights"\nrow = "The"\n',
        "a prediction is of one number, but there are 3; give row and column",
    ),
    "no right choice": (
        WEIGHT + "choices = [0.3, 0.4]\n",
        "one choice must be right, but 0 are: the number is 0.155362; mend choices",
    ),
    "two right choices": (
        WEIGHT + 'choices = [{ says = "some", above = 0 }, { says = "little", below = 0.5 }]\n',
        "one choice must be right, but 2 are: the number is 0.155362; mend choices",
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_without_one_answer_is_refused(name):
    more, message = QUESTIONS[name]
    with pytest.raises(Misfit) as caught:
        right_answer(*prediction(more))
    assert str(caught.value).partition(": ")[2] == message


CHANGES = {
    "no such row": (
        'set = "embeddings"\nrow = "dog"\ncolumn = 1\nto = 1\n',
        "embeddings has no row 'dog'; there are The, cat, sat",
    ),
    "no such number": (
        'set = "embeddings"\nrow = 1\ncolumn = 9\nto = 1\n',
        "embeddings has no such number to change; give row and column of a matrix that is written out",
    ),
    "not written out": (
        'set = "parameters.all"\nrow = 1\ncolumn = 1\nto = 1\n',
        "all has no such number to change; give row and column of a matrix that is written out",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_number_that_is_not_there_is_refused(name):
    more, message = CHANGES[name]
    lesson = read(CHANGE + more)
    with pytest.raises(Misfit) as caught:
        change_lesson(lesson, lesson.script[0].change)
    assert str(caught.value).partition(": ")[2] == message
