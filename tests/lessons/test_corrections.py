"""Lines of a TOML text, and the corrected copy of a lesson."""

import tomllib

import pytest

from transom.lessons import check_lesson, parse_lesson
from transom.lessons.check_claims import corrected_text
from transom.lessons.lesson_file import new_text
from transom.lessons.toml_source import index_toml, statements

TEXT = '''# a comment with [brackets] and = signs
title = "a # no comment [x]"   # but this is one
about = """
[not.a.header]
value = 3 # nor this
"""
"quoted key".'and another' = 1
numbers = [
  1, # ] in a comment
  "]", # in a string
]
[first]
a.b = { c = [1, 2], d = "}" }
[[list]]
x = 1
[list.inner]
y = 2
[[list]]
x = 3
[[list.deep]]
z = 4
[[list.deep]]
z = 5'''


def test_every_statement_has_its_path_and_its_line():
    lines = [(statement.path, TEXT.count("\n", 0, statement.start) + 1) for statement in statements(TEXT)]
    assert lines == [
        (("title",), 2),
        (("about",), 3),
        (("quoted key", "and another"), 7),
        (("numbers",), 8),
        (("first",), 12),
        (("first", "a", "b"), 13),
        (("list", 0), 14),
        (("list", 0, "x"), 15),
        (("list", 0, "inner"), 16),
        (("list", 0, "inner", "y"), 17),
        (("list", 1), 18),
        (("list", 1, "x"), 19),
        (("list", 1, "deep", 0), 20),
        (("list", 1, "deep", 0, "z"), 21),
        (("list", 1, "deep", 1), 22),
        (("list", 1, "deep", 1, "z"), 23),
    ]


def test_every_statement_is_one_that_tomllib_reads():
    for statement in statements(TEXT):
        tomllib.loads(TEXT[statement.start : statement.end])


def test_a_missing_setting_has_the_line_of_its_table():
    source = index_toml("x.toml", TEXT)
    assert source.at(("list", 1, "deep", 1, "nothing")) == "x.toml, line 22"
    assert source.at(("nowhere",)) == "x.toml, line 1"


LESSON = """title = "x"
tokens = ["a", "b"]
embeddings = [[1, 0], [0, 1]]
[attention]
mask = "causal"
[parameters]
all = "identity"
[[claim]] # 0.1 stays
of = "weights"
value = [ # 0.2 stays
  [1.000, 0.000], # right, so it stays as it is
  [0.33, +0.67],
]
[[claim]]
of = "masked"
row = 1
value = [0.7071, 0.0]
[[claim]]
of = "weights"
row = 2
value = [0.5, 0.1] # a slip stays
slip = true
[[claim]]
of = "weights"
row = 2
column = 1
above = 0.9
"""


def test_only_what_is_wrong_is_replaced():
    lesson = parse_lesson(LESSON, "x.toml")
    assert [finding.verdict for finding in check_lesson(lesson)] == ["right", "wrong", "slip", "wrong"]
    fixed = corrected_text(lesson, check_lesson(lesson))
    assert fixed == LESSON.replace("value = [0.7071, 0.0]", 'value = [0.7071, "masked"]')
    wrong = LESSON.replace("[0.33, +0.67]", "[3.3e-1, 0.76]")
    lesson = parse_lesson(wrong, "x.toml")
    assert corrected_text(lesson, check_lesson(lesson)) == wrong.replace("0.76", "0.67").replace(
        "[0.7071, 0.0]", '[0.7071, "masked"]'
    )


def test_a_corrected_lesson_is_right():
    lesson = parse_lesson(LESSON.partition('[[claim]]\nof = "weights"\nrow = 2\nvalue')[0], "x.toml")
    again = parse_lesson(corrected_text(lesson, check_lesson(lesson)), "x.toml")
    assert [finding.verdict for finding in check_lesson(again)] == ["right", "right"]
    assert corrected_text(again, check_lesson(again)) == again.source.text


@pytest.mark.parametrize("name", ["mine.toml", 'we"ird\n[x].toml', "ü ñ.toml", ".toml"])
def test_a_new_lesson_is_right_whatever_it_is_called(name):
    lesson = parse_lesson(new_text(name), name)
    assert [finding.verdict for finding in check_lesson(lesson)] == ["right"] * 3
    assert lesson.title
