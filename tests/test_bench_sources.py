"""The texts of the bench of passages, and how passages are judged."""

import random
from importlib import import_module

import pytest
import torch

planted_facts = pytest.importorskip("bench.planted_facts", reason="the bench is beside the tests, in the repository")
copier = import_module("bench.copier")
context_cite = import_module("bench.beside_context_cite")

from transom.lens.attribution.influence_table import InfluenceTable, SourceInfluence  # noqa: E402


def test_a_fact_is_planted_once_and_the_text_is_as_long_as_wanted():
    places = set()
    for number in range(20):
        text = planted_facts.plant_fact(random.Random(number), 300, lambda some: len(some.split()))
        whole = "\n\n".join(text.passages.values())
        fact = f"The password of the {text.place} is {text.word}."
        assert whole.count(fact) == text.passages[text.planted].count(fact) == 1
        assert 200 < len(whole.split()) <= 300
        assert text.word not in text.question + text.begin
        places.add(text.planted)
    assert len(places) > 3, "anywhere in the text"


def test_the_place_of_a_passage_is_counted_by_size():
    rows = [SourceInfluence(name, 0, 1, 0.1, *numbers) for name, *numbers in
            [("a", -1.0, -3.0), ("b", 2.0, 0.5), ("c", 0.5, None)]]  # fmt: skip
    found = planted_facts.place_of(InfluenceTable(rows, ""), "a")
    assert (found["by_estimate"], found["by_change"]) == (1, 0)
    found = planted_facts.place_of(InfluenceTable(rows, ""), "c")
    assert (found["by_estimate"], found["by_change"]) == (2, None)


def test_the_value_of_the_last_key_stands_after_its_only_copy():
    tokens, values, places = copier.draw_texts(50, 40, torch.Generator().manual_seed(3))
    for text, value, place in zip(tokens.tolist(), values.tolist(), places.tolist(), strict=True):
        assert [number for number, token in enumerate(text) if token == text[-1]] == [place, 39]
        assert text[place + 1] == value
        assert sum(token < copier.KEYS for token in text[:-1]) == copier.PAIRS


def test_scores_are_judged_by_ablation():
    true = [0.5, 3.0, 1.0, 0.0]
    found = context_cite.judge([1.0, 9.0, 2.0, 0.0], true, lambda removed: sum(true[one] for one in removed))
    assert (found["rank"], found["top_1_drop"], found["top_3_drop"]) == (pytest.approx(1.0), 3.0, 4.5)
    found = context_cite.judge([4.0, 1.0, 2.0, 9.0], true, lambda removed: sum(true[one] for one in removed))
    assert found["rank"] < 0
    assert found["top_1_drop"] == 0.0
