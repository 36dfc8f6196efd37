"""The lessons as they are taught: short, plain, predicted before shown, each on a screen of 80 × 24."""

import re

import numpy as np
import pytest

from transom.cli.learn import step_frames
from transom.lessons import format_number
from transom.lessons.lesson_file import load_shipped, shipped_paths
from transom.lessons.lesson_screens import belongs, screens
from transom.lessons.predictions import change_lesson, judge_answer, right_answer
from transom.show import draw

NAMES = [path.stem[3:] for path in shipped_paths()]
MOST_SCREENS, MOST_WORDS, HIGHEST_GRADE = 12, 1200, 9.0
WIDTH, HEIGHT = 80, 24
AROUND = 2  # lines: the title, and the line that waits for Enter


def texts_of(lesson):
    """Everything that a learner reads as sentences."""
    yield from (lesson.question, lesson.about, lesson.closing, lesson.next)
    for step in lesson.script:
        yield step.says
        if step.predict is not None:
            yield from (step.predict.ask, step.predict.because)
        if step.change is not None:
            yield step.change.says
    yield from (claim.says for claim in lesson.claims)


def count_syllables(word):
    """Groups of vowels; a silent e at the end is none."""
    groups = len(re.findall(r"[aeiouy]+", word))
    silent = word.endswith("e") and not word.endswith(("le", "ee")) and groups > 1
    return max(1, groups - silent)


def reading_grade(texts):
    """Flesch and Kincaid 1975: 0.39 · words per sentence + 11.8 · syllables per word − 15.59."""
    words = [word for text in texts for word in re.findall(r"[a-z']+", text.lower())]
    sentences = sum(max(1, len(re.findall(r"[.!?…](?=\s|$|”)", text))) for text in texts if text)
    syllables = sum(map(count_syllables, words))
    return 0.39 * len(words) / sentences + 11.8 * syllables / len(words) - 15.59


def test_the_formula_tells_plain_from_learned():
    plain = ["The cat sat on the mat. It was a good cat."]
    learned = ["Normalisation facilitates optimisation of extraordinarily heterogeneous architectures notwithstanding."]
    assert reading_grade(plain) < 3
    assert reading_grade(learned) > 20


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_is_short_and_plain(name):
    lesson = load_shipped(name)
    texts = [text for text in texts_of(lesson) if text]
    assert len(lesson.script) + 2 <= MOST_SCREENS  # with the first and the last one
    assert sum(len(text.split()) for text in texts) <= MOST_WORDS
    assert reading_grade(texts) <= HIGHEST_GRADE


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_asks_predicts_changes_fails_and_goes_on(name):
    lesson = load_shipped(name)
    assert lesson.question.endswith("?")
    assert sum(step.predict is not None for step in lesson.script) >= 2
    assert any(step.change is not None for step in lesson.script)
    assert any(re.search(r"\bfails?\b", step.title) for step in lesson.script)
    assert lesson.closing
    assert lesson.next
    ahead = re.search(r"lessons? (?:from )?(\d+)", lesson.next)
    assert ahead is None or int(ahead[1]) == NAMES.index(name) + 2


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_proved_on_a_screen(name):
    lesson = load_shipped(name)
    assert [claim.path for claim in lesson.claims if not any(belongs(claim, step) for step in lesson.script)] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_screen_fits_a_terminal(name):
    lesson = load_shipped(name)
    for screen in screens(lesson):
        lines = list(screen.wrap(WIDTH))
        frames = step_frames(lesson, screen.step, WIDTH) if screen.step is not None and screen.step.picture else [[]]
        for frame in frames:
            assert max(map(len, [screen.title, *lines, *frame])) <= WIDTH, screen.title
            assert len(lines) + len(frame) + AROUND <= HEIGHT, screen.title
        assert not [line for line in lines if {"inf", "nan"} & set(line.split())]


QUESTIONS = [
    pytest.param(name, step, id=f"{name}: {step.title}")
    for name in NAMES
    for step in load_shipped(name).script
    if step.predict is not None
]


@pytest.mark.parametrize(("name", "step"), QUESTIONS)
def test_every_question_has_one_right_answer_and_knows_it(name, step):
    lesson = load_shipped(name)
    answer = right_answer(lesson, step.predict)
    assert judge_answer(lesson, step.predict, answer).is_right
    others = [choice.says for choice in step.predict.choices if choice.says != answer]
    assert not any(judge_answer(lesson, step.predict, other).is_right for other in others)


CHANGES = [
    pytest.param(name, step, id=f"{name}: {step.title}")
    for name in NAMES
    for step in load_shipped(name).script
    if step.change is not None
]


@pytest.mark.parametrize(("name", "step"), CHANGES)
def test_every_change_follows_through(name, step):
    lesson = load_shipped(name)
    before, after = lesson.steps(step.case), change_lesson(lesson, step.change, step.case).steps(step.case)
    seen = step.change.see
    assert seen
    moved = [
        not np.array_equal(before[each, step.head, step.layer].values, after[each, step.head, step.layer].values)
        for each in seen
    ]
    assert any(moved)


def test_every_number_on_a_screen_is_the_one_computed():
    lesson = load_shipped("three-tokens")
    screen = next(screen for screen in screens(lesson) if screen.title.startswith("Weights"))
    weights = lesson.steps()["weights"]
    for token, values in zip(weights.rows, weights.values, strict=True):
        row = next(line for line in screen.wrap(WIDTH) if line.startswith(f"  {token} "))
        assert row.split()[-3:] == [format_number(value) for value in values]


def test_the_sequence_of_a_lesson_says_what_the_note_asks_for():
    text = draw("sequence", load_shipped("three-tokens"), rows=0).text(width=WIDTH)
    for words in ("query The = [1.00", "score 2.00", "scaled 1.00", "softmax", "weight 0.42", "Weighted Sum"):
        assert words in text
    assert "output The = [0.84 0.58 0.84 0.58]" in text
