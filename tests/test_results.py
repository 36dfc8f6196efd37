"""docs/results.md says what the kept figures say, and nothing else."""

import json

import pytest

from bench import results
from transom.training.loop import Callback
from transom.training.recipe import load_recipe


def test_the_table_is_the_one_that_the_command_writes():
    page = results.PAGE.read_text(encoding="utf-8")
    assert page.count(results.BEGIN) == page.count(results.END) == 1
    assert page.partition(results.BEGIN)[2].partition(results.END)[0].strip() == results.render_table()


def test_the_table_has_a_row_for_every_result_that_is_kept():
    names = [name for name in results.RESULTS if (results.CURVES / f"{name}.json").exists()]
    assert len(results.render_table().splitlines()) == 2 + len(names)
    assert names
    for name in names:
        figures = json.loads((results.CURVES / f"{name}.json").read_text(encoding="utf-8"))
        assert {results.RESULTS[name].measure, *results.RESULTS[name].also} <= set(figures["measures"])
        assert (results.CURVES / f"{name}.svg").read_text(encoding="utf-8") == results.render_curves(name)


def test_every_recipe_has_the_curve_that_is_to_be_expected():
    drawn = {one.recipe for name, one in results.RESULTS.items() if (results.CURVES / f"{name}.svg").exists()}
    assert {f"recipes/{file.name}" for file in (results.ROOT / "recipes").glob("*.toml")} <= drawn


@pytest.mark.parametrize("name", [name for name, one in results.RESULTS.items() if one.work is None])
def test_every_result_names_a_recipe_that_can_be_read(name):
    assert load_recipe(results.ROOT / results.RESULTS[name].recipe, []).folder.startswith("out/")


def test_what_is_published_is_a_line_across_the_whole_curve():
    learned = {"while learning": [(10, 3.0), (20, 2.0)], "held out": [(15, 2.5), (25, 2.2)]}
    drawn = results.add_published_level(learned, 1.88)
    assert drawn.pop("published, at its end") == [(10, 1.88), (25, 1.88)]
    assert drawn == learned


def test_a_run_judged_on_a_part_shows_where_all_of_it_ended():
    course = {"while learning": [(10, 3.0), (20, 2.0)], "held out": [(10, 2.5), (20, 2.2)]}
    shown = results.add_final_loss(course, 40, 2.4)
    assert list(shown) == ["while learning", "held out, the first 40", "held out, all"]
    assert shown["held out, the first 40"] == course["held out"]
    assert shown["held out, all"] == [(20, 2.4)]


@pytest.mark.parametrize("name", [name for name, one in results.RESULTS.items() if one.level is not None])
def test_a_published_loss_is_the_one_in_the_table_and_in_the_picture(name):
    result = results.RESULTS[name]
    assert result.published.startswith(f"{result.level}")
    assert "published, at its end" in (results.CURVES / f"{name}.svg").read_text(encoding="utf-8")


def test_a_missing_file_is_said_in_one_line(monkeypatch, capsys, tmp_path):
    argv = ["results", "shakespeare_char", "--data", str(tmp_path), "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr("sys.argv", argv)
    monkeypatch.setattr(results, "progress_for", lambda stream: Callback())
    with pytest.raises(SystemExit, match="2"):
        results.main()
    assert "shakespeare_char: " in (said := capsys.readouterr().err)
    assert "tinyshakespeare/input.txt" in said
