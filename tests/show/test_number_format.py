"""Every number in every view is the recomputed one, to the digits it is printed with: in text, in SVG and on a page."""

import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest
from show.samples import SAMPLES, WORDS, formed, sample, sight
from show.truth import TRUTH, parts, seen

from transom.lessons import Step, Steps, steps_of
from transom.show import VIEWS, draw
from transom.show.formatting import format_percent, format_significant, to_fixed
from transom.show.panels.charts import tick_decimals, ticks

NUMBER = re.compile(r"−?\d+\.\d+")
TICKED = {"curves"}  # whose text has the marks of an axis too


def panel_lines(view: str) -> list[str]:
    return [line for panel in sample(view).panels for line in panel.lines(100, False)]


def test_every_view_has_a_sample_and_its_truth():
    assert list(SAMPLES) == list(VIEWS) == list(TRUTH)


@pytest.mark.parametrize("view", VIEWS)
def test_every_number_in_the_terminal_is_the_recomputed_one(view):
    printed = [number for line in panel_lines(view) for number in NUMBER.findall(line)]
    if view in TICKED:
        printed = [number for number in printed if number in set(TRUTH[view]())]
    assert printed == TRUTH[view]()


@pytest.mark.parametrize("view", VIEWS)
def test_the_figure_says_what_the_terminal_said(view):
    drawn = ElementTree.fromstring(formed(view, "svg"))
    words = Counter(number for one in drawn.itertext() for number in NUMBER.findall(one))
    assert not Counter(set(TRUTH[view]())) - words


@pytest.mark.parametrize("view", VIEWS)
def test_the_page_says_what_the_terminal_said(view):
    assert not set(TRUTH[view]()) - set(
        NUMBER.findall(re.sub("<style>.*?</style>", "", formed(view, "html"), flags=re.S))
    )


def test_a_grid_draws_no_number_that_is_not_in_the_matrix():
    drawn = ElementTree.fromstring(formed("matrix", "svg"))
    texts = [one.text or "" for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    cells = [text for text in texts if re.fullmatch(NUMBER, text)]
    assert cells == TRUTH["matrix"]()


def test_the_bins_of_a_histogram_hold_what_numpy_counts():
    counts, edges = np.histogram(seen(parts()["scaled"]), bins=5)
    rows = sample("histogram").table.rows
    assert [row[2] for row in rows] == counts.tolist()
    np.testing.assert_allclose([row[0] for row in rows], edges[:-1], rtol=1e-12)
    assert sample("histogram").panels[0].values == tuple(map(float, counts))


def test_the_data_table_holds_the_weights_not_rounded():
    weights = parts()["weights"]
    rows = sample("matrix").table.rows
    np.testing.assert_allclose([row[2] for row in rows], seen(weights), rtol=1e-12)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.125, 2, "0.12"),
        (-0.001, 2, "0.00"),
        (-1.5, 1, "−1.5"),
        (None, 2, "–"),
        (float("nan"), 2, "NaN"),
        (float("inf"), 2, "∞"),
        (float("-inf"), 2, "−∞"),
        (1.25e9, 2, "1.25e+09"),
        (-3.5e8, 1, "−3.5e+08"),
    ],
)
def test_how_a_number_is_written(value, digits, text):
    assert to_fixed(value, digits) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.0 %"), (1.0, "100.0 %"), (0.99999, "over 99.9 %"), (0.0001, "under 0.1 %"), (0.5, "50.0 %")],
)
def test_a_share_is_never_said_to_be_all_or_nothing_if_it_is_not(share, text):
    assert format_percent(share) == text


def test_a_table_writes_six_significant_digits():
    assert [format_significant(value) for value in (7, 0.123456789, -2.5e-9, float("nan"))] == [
        "7",
        "0.123457",
        "−2.5e−09",
        "NaN",
    ]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.7, 11.1), (0.0, 0.0013), (5e6, 7.1e6), (-1e-9, 1e-9)])
def test_ticks_are_few_round_and_reach_around(low, high):
    marks = ticks(low, high)
    assert 2 <= len(marks) <= 8
    assert marks[0] <= low + 1e-12
    assert marks[-1] >= high - 1e-12
    assert len(set(np.round(np.diff(marks), 12))) == 1
    assert tick_decimals([2.0]) == 2


LIKE_A_SIGHT = ["sequence", "arrows", "matrix", "rows", "histogram", "entropy", "vectors"]


@pytest.mark.parametrize("view", LIKE_A_SIGHT)
def test_the_steps_of_a_lesson_are_drawn_with_the_numbers_of_the_sight_they_came_from(view):
    options = SAMPLES[view]()[1]
    head = options.get("head", 0)
    options = {name: value for name, value in options.items() if name not in {"tokens", "layer"}}
    steps = steps_of(sight(), 0, head, WORDS)
    drawn = draw(view, steps, **{**options, "head": 0} if "head" in options else options)
    printed = [number for panel in drawn.panels for line in panel.lines(100, False) for number in NUMBER.findall(line)]
    assert printed == (TRUTH[view]() if view != "entropy" else TRUTH[view]()[:1])
    assert drawn.source.receipt == ""


def test_the_rows_of_a_lessons_table_are_curves():
    values = np.array([[2.0, 3.0], [5.0, 7.0]])
    steps = Steps([Step("gradient", "how it vanishes", "", values, ("a", "b"), ("d_head 4", "d_head 16"))], ())
    panel = draw("curves", steps).panels[0]
    assert [(one.label, one.points) for one in panel.curves] == [
        ("a", ((4.0, 2.0), (16.0, 3.0))),
        ("b", ((4.0, 5.0), (16.0, 7.0))),
    ]
    assert draw("curves", steps, step="gradient").title == "how it vanishes"


def test_a_lessons_path_goes_from_the_embedding_to_the_context():
    values = np.array([[2.0, 3.0], [5.0, 7.0]])
    steps = Steps(
        [
            Step("embedding", "", "", values, ("a", "b"), ("1", "2")),
            Step("sum", "", "", 2 * values, ("a", "b"), ("1", "2"), 0),
        ],
        ("a", "b"),
    )
    drawn = draw("context", steps, row=1)
    assert drawn.title == "How “b” moves, from embedding to sum"
    assert [(one.label, one.end) for one in drawn.panels[0].vectors] == [
        ("embedding", (5.0, 7.0)),
        ("sum", (10.0, 14.0)),
        ("embedding of a", (2.0, 3.0)),
    ]
    assert drawn.notes == ("The vectors have two numbers each: nothing is lost.",)


def test_a_path_follows_the_vector_and_not_what_is_added_to_it():
    values = np.arange(6.0).reshape(2, 3)
    names = ("embedding", "output", "residual", "norm", "feed_forward", "residual_2", "norm_2")
    steps = [Step(name, "", "", values + place, ("a", "b"), ("1", "2", "3")) for place, name in enumerate(names)]
    drawn = draw("context", Steps(steps, ("a", "b")))
    labels = ["embedding", "residual", "norm", "residual_2", "norm_2", "embedding of b"]
    assert [one.label for one in drawn.panels[0].vectors] == labels
