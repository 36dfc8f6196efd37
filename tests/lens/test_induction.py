"""The known truth: two layers learn induction, `heads` finds who does it, and without them it is gone."""

import pytest

induction = pytest.importorskip("bench.questions.induction", reason="the bench is beside the tests, in the repository")


@pytest.fixture(scope="module")
def report():
    return induction.measure(seed=1, updates=500)


@pytest.mark.slow
def test_two_layers_can_and_one_cannot(report):
    assert report["two layers"] > 0.85
    assert report["one layer"] < 0.4


@pytest.mark.slow
def test_heads_finds_who_does_it(report):
    def best(measure, layer, heads="heads"):
        return max(row[measure] for row in report[heads] if row["layer"] == layer)

    assert best("previous", "layers.0") > 0.3 > 3 * best("previous", "layers.1")
    assert best("induction", "layers.1") > 0.6 > 4 * best("induction", "layers.0")
    assert best("induction", "layers.0", "one layer's heads") < 0.4, "there is nothing to find in one layer"


@pytest.mark.slow
def test_knocking_them_out_destroys_it_and_their_neighbours_do_not_matter(report):
    previous, induces = report["knocked out"]
    for head_group in (previous, induces):
        assert head_group["without them"] < 0.35
        assert head_group["without its arrows"] < 0.2
        assert head_group["without those beside"] > 0.75
    assert induces["without them"] < 0.1


@pytest.mark.slow
def test_the_replay_shows_when_it_came(report):
    course = report["course"]
    assert course[0]["loss"] > 3.5 > 1.5 > course[-1]["loss"]
    assert course[0]["induction"] < 0.2
    assert course[-1]["induction"] > 0.6
    steepest = max(zip(course[1:], course, strict=False), key=lambda pair: pair[1]["loss"] - pair[0]["loss"])
    assert steepest[0]["update"] <= 300, "the loss falls off a cliff, early"
