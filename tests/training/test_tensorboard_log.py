"""Curves for TensorBoard, read back by TensorBoard's own reader: every update once, however often a run was stopped."""

import json
import sys

import pytest
from small_runs import pairs_file, small_recipe
from test_loop import Stop, StopAfter

from transom.names import Misfit
from transom.training.train import train

event_accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra log"
)


@pytest.fixture
def data(tmp_path):
    return pairs_file(tmp_path)


def run_recipe(tmp_path, data, updates=11, **settings):
    settings = {"updates": updates, "judge_every": 5, "tensorboard": True, **settings}
    return small_recipe(tmp_path / "run", data, train=settings)


def curves(tmp_path):
    """Every curve as {update: value}, as TensorBoard sees the folder."""
    found = event_accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    points = {name: found.Scalars(name) for name in found.Tags()["scalars"]}
    assert all(len({one.step for one in several}) == len(several) for several in points.values())
    return {name: {one.step: one.value for one in several} for name, several in points.items()}


def logged(tmp_path):
    return [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]


def assert_curves_are_the_log(tmp_path, updates):
    found, lines = curves(tmp_path), logged(tmp_path)
    assert set(found) == {"loss", "rate", "norm", "judged/loss", "judged/perplexity"}
    for name in ("loss", "rate", "norm"):
        assert list(found[name]) == list(range(1, updates + 1))
        assert found[name] == pytest.approx({line["update"]: line[name] for line in lines if name in line}, rel=1e-6)
    judged = {line["update"]: line["judged"]["perplexity"] for line in lines if "judged" in line}
    assert found["judged/perplexity"] == pytest.approx(judged, rel=1e-6)


def test_the_curves_are_the_log_also_after_stops(tmp_path, data):
    for updates in (2, 5):
        with pytest.raises(Stop):
            train(run_recipe(tmp_path, data), callbacks=[StopAfter(updates)])
    train(run_recipe(tmp_path, data))
    assert_curves_are_the_log(tmp_path, 11)
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 1
    train(run_recipe(tmp_path, data, updates=13))
    assert_curves_are_the_log(tmp_path, 13)


def test_a_file_cut_by_a_kill_and_one_not_yet_removed_do_no_harm(tmp_path, data):
    with pytest.raises(Stop):
        train(run_recipe(tmp_path, data), callbacks=[StopAfter(7)])
    (file,) = (tmp_path / "run" / "tensorboard").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    (file.parent / "events.out.tfevents.00000000000000000001").write_bytes(whole)
    train(run_recipe(tmp_path, data))
    assert_curves_are_the_log(tmp_path, 11)


def test_curves_are_not_written_unless_asked_for(tmp_path, data):
    train(run_recipe(tmp_path, data, updates=2, tensorboard=False))
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_without_the_extra_the_run_does_not_begin(tmp_path, data, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(Misfit) as error:
        train(run_recipe(tmp_path, data))
    assert str(error.value) == (
        "train.tensorboard needs tensorboard, which is not installed; pip install 'transom[log]', or leave it out:"
        " log.jsonl holds the same numbers"
    )
    assert not (tmp_path / "run").exists()
