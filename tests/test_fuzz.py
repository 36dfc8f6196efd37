"""A short campaign against every target of `make fuzz`, always the same inputs; and the campaign itself."""

from importlib import import_module
from types import SimpleNamespace

import pytest

from transom.names import Misfit

campaign = pytest.importorskip("fuzz.campaign", reason="the fuzzers are beside the tests, in the repository")
TARGETS = import_module("fuzz.__main__").TARGETS


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_short_campaign_finds_nothing(name):
    report = campaign.run_campaign(name, import_module(f"fuzz.targets.{name}"), seed=1, inputs=500, seconds=2)
    assert report.failures == []
    assert report.inputs > 3
    assert set(report.outcomes) - {campaign.REFUSED}, "every input was refused: the target tries nothing"


def test_what_is_no_outcome_is_a_failure_that_can_be_made_again():
    def try_input(state, rng):
        draw = rng.randrange(4)
        state.append(draw)
        if draw == 0:
            raise Misfit("expected something else")
        assert draw != 1, "wrong"
        return "read"

    seen = []
    target = SimpleNamespace(prepare=lambda folder: seen, try_input=try_input)
    report = campaign.run_campaign("sample", target, seed=3, inputs=100, seconds=60, most_failures=1000)
    assert report.inputs == len(seen) == 100
    assert report.outcomes["refused"] == seen.count(0)
    assert report.outcomes["read"] == seen.count(2) + seen.count(3)
    assert len(report.failures) == seen.count(1) > 0
    case = seen.index(1)
    assert report.failures[0].startswith(f"--seed 3 --case {case}:\n")
    again = campaign.run_campaign("sample", target, seed=3, inputs=100, seconds=60, case=case)
    assert len(again.failures) == 1
    assert seen[100:] == [1]


def test_an_input_that_takes_too_long_is_a_failure(monkeypatch):
    monkeypatch.setattr(campaign, "SECONDS_PER_INPUT", 0.05)

    def try_input(state, rng):
        while True:
            try:
                sum(range(1000))
            except Exception:
                return "swallowed"

    target = SimpleNamespace(prepare=lambda folder: None, try_input=try_input)
    report = campaign.run_campaign("slow", target, seed=1, inputs=1, seconds=60)
    assert report.failures == ["--seed 1 --case 0: took more than 0 s"]
