"""The recipe that learns to shorten: the rules that make its pairs, and a recipe that reads them."""

import random
import runpy
import sys
from pathlib import Path

import pytest

from transom.text.corpora import Pair, read_tsv
from transom.training.recipe import load_recipe

FOLDER = Path(__file__).parents[2] / "recipes" / "shorten"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(FOLDER / "make_pairs.py"))


@pytest.mark.parametrize(
    ("sentence", "shorter"),
    [
        ("When it rained, we stayed at home.", "We stayed at home."),
        ("I went home because it was late.", "I went home."),
        ("Mr. Hill, our old neighbour, sold his car.", "Mr. Hill sold his car."),
        ("I think that the train is very late.", "The train is late."),
        ("I know where Tom lives.", "I know where Tom lives."),
        ("Go because it rains.", "Go because it rains."),
        ("Bread, milk, and butter are cheap.", "Bread and butter are cheap."),
    ],
)
def test_each_rule(script, sentence, shorter):
    assert script["shorten"](sentence) == shorter


def test_pairs_are_shorter_and_the_same_each_time(script, tmp_path, monkeypatch, capsys):
    rows = [f"I saw house number {i} when it was really late.\tx\n" for i in range(60)]
    (tmp_path / "corpus.tsv").write_text("".join(rows))
    files = [tmp_path / "out" / name for name in ("a.tsv", "b.tsv")]
    main = script["main"]
    monkeypatch.setitem(main.__globals__, "COUNT", 60)
    for file in files:
        monkeypatch.setattr(sys, "argv", ["make_pairs.py", str(tmp_path / "corpus.tsv"), str(file)])
        main()
    assert files[0].read_bytes() == files[1].read_bytes()
    pairs = list(read_tsv(files[0], [0, 1], Pair))
    assert len(pairs) == 60
    assert all(len(pair.target) < len(pair.source) for pair in pairs)
    assert sum(pair.source.count(".") == 2 for pair in pairs) == 20
    assert sum(pair.source.count("house number") == 2 and pair.source.count(".") == 1 for pair in pairs) == 20
    assert capsys.readouterr().out.splitlines()[0].startswith("60 pairs; ")


def test_several_rules_meet_in_a_combined_pair(script):
    rng = random.Random(1)
    texts = {script["combine"]("The train is very late.", "It is snowing.", frozenset(), rng) for _ in range(200)}
    assert "I think that the train is very late because it is snowing." in texts
    assert {script["shorten"](text) for text in texts} == {"The train is late."}


def test_the_recipe_reads_what_the_script_writes():
    assert load_recipe(FOLDER / "shorten.toml").data.train == "out/shorten.tsv"
    assert load_recipe(FOLDER.parent / "en-fr" / "everyday.toml").task == "translate"
