"""What views say and refuse: sinks, effects, measures, options; each error word for word."""

import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from show.samples import HEAD, TOKENS, WORDS, sight, stages, tensors, trace
from show.truth import parts

import transom
from transom import Misfit
from transom.lens import StatsOnlySight, Trace
from transom.lessons import Step, Steps, steps_of
from transom.lessons.lesson_file import load_shipped
from transom.show import draw
from transom.show.colours import CATEGORIES, MAPS, colour, contrast, ink_on, luminance

OURS = {"tokens": WORDS, "head": HEAD}


def test_a_hidden_sink_is_left_out_and_the_figure_says_so():
    weights = parts()["weights"]
    taken = 100 * weights[:, 0].sum() / TOKENS
    picture = draw("matrix", sight(), hide=0, **OURS)
    assert picture.panels[0].columns == WORDS[1:]
    np.testing.assert_allclose(picture.panels[0].values[4], weights[4, 1:], rtol=1e-12)
    assert picture.notes[0] == (
        f"Hidden: “the” (key 0), which took {taken:.1f} % of this head's attention; the other weights are unchanged,"
        " so rows sum to less than 1."
    )


def test_what_is_left_may_be_renormalised():
    weights = parts()["weights"]
    picture = draw("matrix", sight(), hide=[0, -1], renormalise=True, **OURS)
    np.testing.assert_allclose(picture.panels[0].values[4], weights[4, 1:4] / weights[4, 1:4].sum(), rtol=1e-12)
    assert "each row is divided by what is left, so it sums to 1 again." in picture.notes[0]
    bars = draw("rows", sight(), rows=4, hide=[0], renormalise=True, **OURS).panels[0]
    np.testing.assert_allclose(sum(bars.values), 1.0, rtol=1e-12)
    arrows = draw("arrows", sight(), hide=[0], renormalise=True, rows=[4], **OURS)
    assert "of the attention left from 1 token." in arrows.notes[1]


def test_a_log_scale_is_said():
    picture = draw("matrix", sight(), scale="log", numbers=False, **OURS)
    assert picture.notes[0].startswith("Colours are on a log scale")
    assert "log scale" in picture.text()
    assert "(log scale)" in picture.svg()


def test_arrows_are_solid_or_faded_by_their_effect():
    effect = {(4, 0): 0.9, (4, 3): 0.0}
    picture = draw("arrows", sight(), effect=effect, rows=[4], least=0.0, **OURS)
    panel = picture.panels[0]
    strength = {
        (row[1], row[3]): panel.strength(arrow) for row, arrow in zip(picture.table.rows, panel.arrows, strict=True)
    }
    assert strength[4, 0] == 1.0
    assert strength[4, 3] == strength[4, 1] < 0.3
    assert picture.table.columns[-1] == "effect"
    assert "┄" in picture.text()
    rows = [
        {"layer": "", "head": HEAD, "query": 4, "key": 0, "effect": 0.9},
        {"head": HEAD + 1, "query": 4, "key": 1, "effect": 5.0},
    ]
    assert [arrow.effect for arrow in draw("arrows", sight(), effect=rows, rows=[4], **OURS).panels[0].arrows].count(
        0.9
    ) == 1


def test_arrows_between_two_texts():
    Q, K, V = tensors()
    picture = draw("arrows", transom.sight(Q[:, :, :3], K, V), tokens=["ich", "weiß", "es"], at=WORDS)
    assert picture.panels[0].left == ("ich", "weiß", "es")
    assert picture.panels[0].right == WORDS
    with pytest.raises(Misfit) as caught:
        draw("arrows", transom.sight(Q[:, :, :3], K, V), in_line=True)
    assert str(caught.value) == (
        "in_line needs a text that attends to itself, but rows and keys have other labels; leave it out"
    )


def test_measures_come_from_elsewhere_too():
    rows = [{"layer": name, "head": head, "induction": head / 7} for name in trace().names for head in range(3)]
    picture = draw("heads", trace(), measures=rows, measure="induction")
    assert [tile.number for tile in picture.panels[0].tiles] == [0, 1 / 7, 2 / 7] * 2
    with pytest.raises(Misfit) as caught:
        draw("heads", trace(), measures=rows, measure="sink")
    assert str(caught.value) == (
        "measure must be a column of measures, one of induction, but got 'sink'; name one of them"
    )


def test_a_sight_of_a_trace_knows_its_words():
    seen = trace()
    assert draw("matrix", seen[1], head=1).panels == draw("matrix", seen, layer=1, head=1).panels
    assert draw("arrows", seen[1]).panels[0].left == WORDS
    seen.tokens = [*"abcdefg"][: len(WORDS)]
    assert draw("arrows", seen[1]).panels[0].left == tuple("abcdefg"[: len(WORDS)]), "also those set after the run"
    other = tuple("tuvwxyz"[: len(WORDS)])
    seen.tokens = ["too", "few"]
    assert draw("arrows", seen[1], tokens=other).panels[0].left == other, "those given come first"


def test_two_entropies_have_two_names():
    table = transom.heads(trace(), ["entropy", "entropy_without_sink"])
    assert draw("heads", trace()).panels[0].measure == "mean entropy, nats"
    assert draw("heads", trace(), measures=table).panels[0].measure == "entropy (of log n)"
    without = draw("heads", trace(), measures=table, measure="entropy_without_sink")
    assert without.panels[0].measure == "entropy without sink (of log n)"


def test_statistics_alone_are_drawn_as_far_as_they_go():
    glance = StatsOnlySight(sight())
    assert len(draw("entropy", glance).panels[0].values) == 3
    assert not draw("heads", glance).panels[0].tiles[0].values
    with pytest.raises(Misfit, match="only statistics of the attention were kept"):
        draw("matrix", glance)


def test_rows_say_what_they_read_and_what_they_predict():
    picture = draw("matrix", trace(), predicted=True, head=0)
    assert picture.panels[0].rows == ("the → quick", "quick → fox", "fox → jumps", "jumps → over", "over → ?")


def test_one_token_alone_shows_its_keys_step_by_step():
    every = parts()
    picture = draw("steps", sight(), row=3, digits=3, columns=2, **OURS)
    keyed = picture.panels[1]
    assert keyed.columns == ("scores", "scaled", "masked", "weights")
    np.testing.assert_allclose([row[3] for row in keyed.values], every["weights"][3], rtol=1e-6)
    assert keyed.values[4][2] is None
    assert picture.title == "Every step of head 1, from “jumps” (row 3)"
    assert "Of 7 numbers of a vector, 2 are shown." in picture.notes


def test_a_receipt_that_fails_is_not_drawn_by_any_view():
    spoiled = trace()
    bad = transom.sight(*tensors(), causal=True)
    bad.output = bad.output + 0.5
    spoiled.add("blocks.7.attention", bad)
    for view in ("steps", "sequence", "arrows", "matrix", "heads", "rows", "histogram", "entropy", "vectors"):
        with pytest.raises(Misfit) as caught:
            draw(view, spoiled)
        assert re.fullmatch(
            r"the weights of 'blocks\.7\.attention' should reproduce the model's output, but the receipt FAILS:"
            r" 5\.0e-01 of \S+ in batch 0, head 0, row 0; nothing is drawn, watch the model again",
            str(caught.value),
        )


EMPTY = Steps([Step("table", "", "", np.ones((2, 3)), ("a", "b"), ("1", "2", "3"))], ())
WRONG = {
    "view": (lambda: draw("matrx", sight()), "there is no view 'matrx'; did you mean 'matrix'?"),
    "view unlike any": (
        lambda: draw("flow", sight()),
        "there is no view 'flow'; there are steps, sequence, arrows, matrix, heads, rows, context, histogram, entropy,"
        " curves, vectors, fold, architecture",
    ),
    "option": (lambda: draw("matrix", sight(), hid=[0]), "the view 'matrix' has no option 'hid'; did you mean 'hide'?"),
    "thing": (
        lambda: draw("matrix", 3),
        "this view draws a Sight, a Trace or a lesson, but got int; transom.watch makes a Trace",
    ),
    "steps": (
        lambda: draw("steps", 3),
        "steps are drawn of Steps, a lesson, a Sight or a Trace, but got int; lessons.steps_of makes Steps",
    ),
    "nothing": (
        lambda: draw("matrix", Trace()),
        "this Trace has no attention to draw; run the model inside `with transom.watch(model)`",
    ),
    "head": (
        lambda: draw("matrix", sight(), head=3),
        "there are heads=3, so 3 is none of them; count from 0 to 2, or back from -1",
    ),
    "batch": (
        lambda: draw("matrix", sight(), batch=1),
        "there are batch=1, so 1 is none of them; count from 0 to 0, or back from -1",
    ),
    "labels": (
        lambda: draw("matrix", sight(), tokens=["a"]),
        "this attention has queries=5, but tokens has 1 labels; give one for each",
    ),
    "at": (
        lambda: draw("matrix", sight(), at=["a"]),
        "this attention has keys=5, but at has 1 labels; give one for each",
    ),
    "scale": (
        lambda: draw("matrix", sight(), scale="cubic"),
        "scale must be linear or log, but got 'cubic'; log shows small weights beside large ones",
    ),
    "colours": (
        lambda: draw("matrix", sight(), colours="jet"),
        "colours must be one of blues, cividis, viridis, diverging, but got 'jet'; blues is the default",
    ),
    "renormalise": (
        lambda: draw("matrix", sight(), renormalise=True),
        "renormalise needs hidden keys, but none is hidden; hide=[0] hides the first",
    ),
    "hidden": (
        lambda: draw("matrix", sight(), hide=range(5)),
        "at least one key must be left to draw, but all keys=5 are hidden; hide fewer",
    ),
    "key": (
        lambda: draw("matrix", sight(), hide=[9]),
        "there are keys=5, so 9 is none of them; count from 0 to 4, or back from -1",
    ),
    "most": (
        lambda: draw("arrows", sight(), most=0),
        "most must be 1 or more, but got 0; give a larger whole number",
    ),
    "row": (
        lambda: draw("arrows", sight(), rows=[5]),
        "there are queries=5, so 5 is none of them; count from 0 to 4, or back from -1",
    ),
    "no rows": (
        lambda: draw("rows", sight(), rows=[]),
        "at least one row is needed, but got rows=[]; rows=-1 is the last",
    ),
    "step": (
        lambda: draw("steps", steps_of(sight()), only=["weight"]),
        "there is no step 'weight'; did you mean 'weights'?",
    ),
    "step row": (
        lambda: draw("steps", sight(), rows=[7]),
        "there are queries=5, so 7 is none of them; count from 0 to 4, or back from -1",
    ),
    "row without weights": (
        lambda: draw("steps", steps_of(sight(), names=["Q"]), row=0),
        "one row is drawn key by key, so it needs a step `weights`, but there is none; leave row out",
    ),
    "lesson": (
        lambda: draw("steps", steps_of(sight()), batch=0),
        "steps of a lesson are drawn as they are, so batch cannot be chosen; leave it out",
    ),
    "no weights": (
        lambda: draw("matrix", EMPTY),
        "this view draws attention, so it needs a step `weights`, but there are table; draw `steps`",
    ),
    "layer": (
        lambda: draw("matrix", steps_of(sight()), layer="last"),
        "the layers of a lesson have numbers, but got 'last'; count from 0",
    ),
    "layer of a trace": (
        lambda: draw("matrix", trace(), layer=2),
        "there are layers=2, so 2 is none of them; count from 0 to 1, or back from -1",
    ),
    "batch of heads": (
        lambda: draw("heads", sight(), batch=1),
        "there are batch=1, so 1 is none of them; count from 0 to 0, or back from -1",
    ),
    "batch of entropy": (
        lambda: draw("entropy", trace(), batch=1),
        "there are batch=1, so 1 is none of them; count from 0 to 0, or back from -1",
    ),
    "token of a lesson": (
        lambda: draw("context", load_shipped(1), row=3),
        "there are tokens=3, so 3 is none of them; count from 0 to 2, or back from -1",
    ),
    "not finite": (
        lambda: draw("context", [("a", [1.0, 2.0]), ("b", [1.0, float("nan")])]),
        "a plane needs finite vectors, but some have NaN or infinite numbers; choose another row or head",
    ),
    "bins": (
        lambda: draw("histogram", sight(), bins=0),
        "bins must be 1 to 200, but got 0; the default is 24",
    ),
    "measure": (
        lambda: draw("heads", sight(), measure="sink"),
        "measure must be one of entropy, peak, distance, but got 'sink'; give others as measures",
    ),
    "path": (
        lambda: draw("context", stages()[:1]),
        "a path needs at least two stages, but 1 came; give [(stage, vector), …]",
    ),
    "widths": (
        lambda: draw("context", [("a", [1, 2]), ("b", [1, 2, 3])]),
        "every stage should be one vector of the same width, but 'b' has shape (3,) and the first (2,); take one"
        " token's vector of each layer",
    ),
    "trace path": (
        lambda: draw("context", trace()),
        "a path is drawn of [(stage, vector), …] or of Steps, but got Trace; a Trace holds attentions, not the"
        " vectors between layers: take the model's hidden states",
    ),
    "no curve": (
        lambda: draw("curves", {}),
        "at least one curve is needed, but none came; give {label: [(step, value), …]}",
    ),
    "no points": (
        lambda: draw("curves", {"a": []}),
        "the curve 'a' should have points, but it has none; leave it out, or give [(step, value), …]",
    ),
    "not points": (
        lambda: draw("curves", {"a": 7}),
        "the curve 'a' should be a list of points, but got int; give [(step, value), …]",
    ),
    "nan": (
        lambda: draw("curves", {"a": [(1, float("nan"))]}),
        "the curve 'a' has the point (1, nan), which cannot be drawn; leave it out",
    ),
    "log": (
        lambda: draw("curves", {"a": [(1, 0.0)]}, log=True),
        "a log scale holds numbers above 0, but the curve 'a' has the point (1, 0); leave log out",
    ),
    "log across": (
        lambda: draw("curves", {"a": [(0, 1.0)]}, log_across=True),
        "a log scale holds numbers above 0, but the curve 'a' has the point (0, 1); leave log_across out",
    ),
    "start": (
        lambda: draw("vectors", sight(), start=[1.0]),
        "start should be a vector of d_value=7 numbers, but has shape (1,); leave it out",
    ),
    "values": (
        lambda: draw("vectors", sight(), most=0),
        "most must be 1 or more, but got 0; give a larger whole number",
    ),
    "keys": (
        lambda: draw("sequence", sight(), most=0),
        "most must be 1 or more, but got 0; give a larger whole number",
    ),
}


@pytest.mark.usefixtures("own_errors")
@pytest.mark.parametrize("name", WRONG)
def test_each_error_says_what_came_and_the_way_out(name):
    act, message = WRONG[name]
    with pytest.raises(Misfit) as caught:
        act()
    assert str(caught.value) == message


@pytest.mark.usefixtures("own_errors")
def test_a_head_whose_scores_are_all_masked_has_no_histogram():
    Q, K, V = tensors()
    nowhere = transom.sight(Q, K, V, allowed=torch.zeros(TOKENS, TOKENS, dtype=torch.bool))
    with pytest.raises(Misfit) as caught:
        draw("histogram", nowhere)
    assert str(caught.value) == "a histogram needs scores, but all of them are masked; choose another head or batch"
    assert set(draw("matrix", nowhere).panels[0].values[0]) == {None}


def test_numbers_that_are_not_finite_are_told_and_not_hidden():
    Q, K, V = (one.clone() for one in tensors())
    V[0, 0, 1] = float("nan")
    K[0, 0, 1] = 1e200
    picture = draw("steps", steps_of(transom.sight(Q, K, V), 0, 0), only=["V"])
    assert "NaN" in picture.text()
    assert '"NaN"' in picture.json()
    assert "NaN" in picture.svg()


@pytest.mark.parametrize("name", [name for name in MAPS if name != "diverging"])
def test_a_map_runs_one_way_in_lightness(name):
    lightness = [luminance(colour(name, step / 64)) for step in range(65)]
    rising = [after > before for before, after in pairwise(lightness)]
    assert all(rising) or not any(rising)


def test_two_signs_look_alike_in_strength_and_different_in_colour():
    for step in range(1, 33):
        low, high = colour("diverging", 0.5 - step / 64), colour("diverging", 0.5 + step / 64)
        assert low[0] > low[2]
        assert high[2] > high[0]
    assert colour("diverging", 0.5) == (255, 255, 255)


@pytest.mark.parametrize("name", MAPS)
def test_numbers_on_every_colour_can_be_read(name):
    for step in range(65):
        rgb = colour(name, step / 64)
        ink = (0, 0, 0) if ink_on(rgb) == "#000000" else (255, 255, 255)
        assert contrast(rgb, ink) >= 4.5


def test_categories_are_told_apart_without_colour_too():
    from transom.show.panels.charts import DASHES, MARKERS

    assert len(set(CATEGORIES)) == len(CATEGORIES) == len(set(DASHES)) == len(set(MARKERS)) == 7


def test_a_receipt_is_worked_out_once_and_again_when_a_number_changes(monkeypatch):
    Q, K, V = tensors()
    own = transom.sight(Q.clone(), K.clone(), V.clone())
    passes = []
    real = type(own).receipt
    monkeypatch.setattr(type(own), "receipt", lambda self: passes.append(1) or real(self))
    draw("matrix", own)
    draw("rows", own)
    assert len(passes) == 1
    own.output += 1.0
    with pytest.raises(Misfit, match="receipt FAILS"):
        draw("rows", own)
    own.output = own.output - 1.0
    draw("rows", own)
    assert len(passes) == 3


def test_on_a_log_scale_across_equal_factors_are_equally_far_apart():
    widths = (4, 16, 64, 256)
    picture = draw("curves", {"a": [(x, 1.0 / x) for x in widths]}, log_across=True, across="width")
    lines = picture.panels[0].lines(100, False)
    assert lines[-2].split() == ["└4", "256", "width", "(log", "scale)"]
    columns = [line.index("●") for line in lines if "│" in line and "●" in line]
    gaps = [later - sooner for sooner, later in pairwise(columns)]
    assert len(gaps) == 3
    assert max(gaps) - min(gaps) <= 1
    assert not [x for x in widths if f">{x}</text>" not in picture.svg()]


def test_many_places_on_a_log_scale_are_marked_by_powers_of_ten():
    panel = draw("curves", {"a": [(x, 1.0) for x in range(3, 2003, 7)]}, log_across=True).panels[0]
    assert panel.ticks_across() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_views_draw_influence_instead_of_weights(capsys):
    from transom.lens.attribution.output_estimates import estimate_output
    from transom.models import Decoder, DecoderConfig

    torch.manual_seed(2)
    model = Decoder(DecoderConfig(vocabulary=19, layers=2, d_model=12, heads=3, d_hidden=17)).eval()
    tokens = torch.randint(0, 19, (1, 7))
    found, words = transom.influence(model, tokens), [f"w{number}" for number in range(7)]
    found.trace.tokens = words
    name = found.names[1]
    edges = found[name].edges(batch=0, head=2)
    matrix = draw("matrix", found.trace, layer=name, head=2, influence=found)
    (grid,) = matrix.panels
    assert grid.heat.colours == "diverging"
    assert [[value or 0.0 for value in row] for row in grid.values] == edges.double().tolist()
    assert "Influence, not weight: change of the logit" in matrix.notes[0]
    pooled = draw("matrix", found.trace, layer=name, head=2, influence=found, cells=3).panels[0]
    assert pooled.values == grid.values, "a short text is not pooled"
    arrows = draw("arrows", found.trace, layer=name, head=2, influence=found, most=4)
    listed = {(row[1], row[3]): row[5] for row in arrows.table.rows}
    assert sorted(listed.values()) == pytest.approx(sorted(edges.abs().flatten().topk(4).values.tolist()))
    assert all(float(edges[edge].abs()) == pytest.approx(value) for edge, value in listed.items())
    heads = draw("heads", found.trace, influence=found)
    by_head = {(row.layer, row.head): row.estimate for row in found.heads()}
    assert {(row[0], row[1]): row[2] for row in heads.table.rows} == by_head
    estimates = estimate_output(model, tokens)
    assert draw("matrix", found.trace, layer=name, influence=estimates).panels[0].heat.colours == "blues"
    assert draw("heads", found.trace, influence=estimates).table.rows[0][2] > 0.0
    found.show("arrows", layer=name)
    assert "w0" in capsys.readouterr().out


def test_long_influence_is_pooled_with_its_signs():
    torch.manual_seed(2)
    from transom.models import Decoder, DecoderConfig

    model = Decoder(DecoderConfig(vocabulary=19, layers=1, d_model=12, heads=3, d_hidden=17, longest=60)).eval()
    found = transom.influence(model, torch.randint(0, 19, (1, 53)), output=lambda logits: logits.sum(dim=(1, 2)))
    grid = draw("matrix", found.trace, influence=found, head=1, cells=7).panels[0]
    edges = found[found.names[0]].edges(batch=0, head=1).double()
    cell = edges[8:16, 0:8].flatten()
    assert grid.values[1][0] == float(cell[cell.abs().argmax()])
