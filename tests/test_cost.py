"""The cost model is true where it can be checked: bytes to the last one, and the page shows what the command prints."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def cost():
    sys.path.insert(0, str(ROOT))
    try:
        from bench.questions import cost
    finally:
        sys.path.remove(str(ROOT))
    return cost


def test_the_formulas_count_what_a_small_model_keeps(cost):
    qkv, statistics, file = cost.measure_small_model(tokens=211)
    assert qkv["bytes"] == qkv["formula"] == 3 * 211 * ((2 * 4 + 2 * 2) * 16 * 4 + 4 * 4)
    assert statistics["bytes"] == statistics["formula"] == 3 * 211 * 5 * 4 * 4
    assert 0 < file["bytes"] - file["formula"] < 4096  # its header


def test_eager_weights_of_gpt2_at_8192_tokens(cost):
    assert cost.MEMORY["all weights"](cost.MODELS[0]) == 12 * 12 * 8192**2 * 4


def test_rates_are_found_from_times_that_follow_them(cost, monkeypatch):
    def measure_seconds(works, seconds):
        return dict.fromkeys(works, 13 * 14 / 2 * (3e-9 * works["attention"].args[0].shape[3] + 5e-9))

    monkeypatch.setattr(cost, "measure_seconds", measure_seconds)
    for rate in cost.fit_rates(13, (7, 11), 0.0).values():
        assert rate.product == pytest.approx(3e-9)
        assert rate.pair == pytest.approx(5e-9)


def test_the_page_shows_the_table_of_memory_as_it_is(cost):
    assert cost.memory_table() in (ROOT / "docs/cost.md").read_text(encoding="utf-8")


def test_sizes_and_times_are_written_to_be_read(cost):
    assert [cost.format_bytes(n) for n in (13, 1536, 3 * 2**40)] == ["13 B", "1.5 KiB", "3.0 TiB"]
    assert [cost.format_seconds(s) for s in (0.0123, 7.0, 5400, 200_000)] == ["12 ms", "7.0 s", "1.5 h", "2.3 days"]
