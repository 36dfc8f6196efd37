"""Long texts: every view stays small, says what it does not draw, and draws exactly what it draws."""

from itertools import chain

import pytest
import torch
from show.samples import curves, stages

import transom
from transom.lens import Trace
from transom.lessons import steps_of
from transom.show import VIEWS, draw

LONG, SOME = 4096, 499
LIMIT = 2_000_000
OF_A_TEXT = [view for view in VIEWS if view not in {"context", "curves", "steps", "fold", "architecture"}]


def traced(length):
    made = torch.Generator().manual_seed(17)
    Q, K, V = (torch.randn(1, 1, length, 7, generator=made) for _ in range(3))
    trace = Trace([f"token{number}" for number in range(length)])
    trace.add("attention", transom.sight(4 * Q, K, V, causal=True))
    return trace


@pytest.fixture(scope="module")
def long_trace():
    return traced(LONG)


@pytest.fixture(scope="module")
def middling():
    return traced(SOME)


@pytest.mark.slow
@pytest.mark.parametrize("view", OF_A_TEXT)
def test_every_view_of_a_long_text_stays_below_two_megabytes(view, long_trace):
    picture = draw(view, long_trace)
    assert max(len(form.encode()) for form in (picture.svg(), picture.html(), picture.json())) < LIMIT
    assert max(map(len, picture.text(width=100).splitlines())) <= 100
    assert len(picture.text().splitlines()) <= 140


def test_the_arrows_drawn_are_the_strongest_and_their_share_is_said(middling):
    picture = draw("arrows", middling, most=11)
    weights = middling[0].weights(batch=0, head=0).double()
    strongest = weights.flatten().sort(descending=True).values[:11]
    drawn = sorted((row[4] for row in picture.table.rows), reverse=True)
    torch.testing.assert_close(torch.tensor(drawn, dtype=torch.float64), strongest, rtol=1e-6, atol=0.0)
    share = 100 * float(strongest.sum()) / SOME
    size = f"11 of {int((weights > 0).sum()):,} arrows are drawn"
    assert picture.notes == (f"{size}; they cover {share:.1f} % of the attention from {SOME} tokens.",)


@pytest.mark.parametrize("hidden", [(), (0, 5)])
def test_a_pooled_matrix_holds_the_largest_weight_of_each_cell(hidden, middling):
    picture = draw("matrix", middling, cells=50, hide=hidden, renormalise=bool(hidden))
    grid = picture.panels[0]
    weights = middling[0].weights(batch=0, head=0).double()
    kept = [key for key in range(SOME) if key not in hidden]
    left = weights[:, kept]
    left = left / left.sum(dim=1, keepdim=True).clamp_min(1e-300) if hidden else left
    assert grid.rows[0] == "0–9"
    for row, column in ((0, 0), (25, 3), (48, 21), (49, 49)):
        cell = left[10 * row : 10 * (row + 1), 10 * column : 10 * (column + 1)]
        assert grid.values[row][column] == pytest.approx(
            float(cell.max()) if cell.numel() else 0.0, rel=1e-5, abs=1e-12
        )
    assert "each cell shows the largest of 10 × 10" in picture.notes[-1]


def test_a_pooled_matrix_of_a_lesson_is_that_of_its_sight(middling):
    drawn, expected = (draw("matrix", thing, cells=50).panels[0] for thing in (steps_of(middling[0]), middling))
    assert drawn.rows == expected.rows
    assert [*chain(*drawn.values)] == pytest.approx([*chain(*expected.values)], rel=1e-5, abs=1e-12)


def test_steps_of_a_long_text_say_what_they_leave_out():
    Q, K, V = (torch.randn(1, 1, 23, 11) for _ in range(3))
    picture = draw("steps", transom.sight(Q, K, V), opens=False)
    assert picture.notes == (
        "Of 11 numbers of each vector, the first 8 are drawn.",
        "Of 23 tokens, the first 12 are drawn.",
        "Of 23 keys, the first 12 are drawn.",
    )
    assert len(draw("steps", transom.sight(Q, K, V), rows=[22, 3]).panels[3].rows) == 2


def test_a_long_curve_is_thinned_and_says_so():
    picture = draw("curves", {"loss": [(step, 1.0 / (step + 1)) for step in range(5003)]})
    assert picture.notes == ("Of the 5,003 points of “loss”, 2,000 are drawn, evenly.",)
    assert picture.panels[0].curves[0].points[-1] == (5002.0, 1.0 / 5003)


def test_what_is_short_leaves_nothing_out():
    assert draw("curves", curves()).notes == ()
    assert len(draw("context", stages()).panels[0].vectors) == 5
