"""`torchrun -m transom train` on two processes: the losses of one, and checkpoints that either goes on from."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import pairs_file

from transom.cli import main

RECIPE = """
task = "translate"
folder = "run"
data = {train = "reverse.tsv", format = "tsv", held_out = 20, longest = 16}
tokens = {kind = "words", vocabulary = 40}
model = {encoder_layers = 1, decoder_layers = 1, d_model = 16, d_hidden = 32, heads = 2, dropout = 0.0}
train = {tokens = 64, updates = 10, accumulate = 2, judge_every = 5, checkpoint_every = 5, threads = 1, smoothing = 0.1}
judge = {write = false}
"""


def command(name: str, **changes: object) -> list[str]:
    sets = [f"--set={key.replace('_', '.', 1)}={value}" for key, value in {"folder": name, **changes}.items()]
    return ["train", "recipe.toml", "--json", *sets]


def trained_by_two(folder: Path, name: str, **changes: object) -> dict:
    """What `transom train` printed as JSON, having run in two processes."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *torchrun, "-m", "transom", *command(name, **changes)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(" parameters, ") == 1, "one process speaks for all"
    return json.loads(done.stdout)


def losses(folder: Path, name: str) -> list[float]:
    lines = [json.loads(line) for line in (folder / name / "log.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines if "loss" in line] == list(range(1, 11))
    return [line["loss"] for line in lines if "loss" in line]


@pytest.mark.slow
@pytest.mark.usefixtures("own_errors")
def test_two_processes_learn_as_one_and_go_on_for_each_other(tmp_path, monkeypatch, capsys):
    def trained_alone(name: str, **changes: object) -> dict:
        assert main(command(name, **changes)) == 0
        return json.loads(capsys.readouterr().out)

    pairs_file(tmp_path)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    alone = trained_alone("alone")
    expected = losses(tmp_path, "alone")
    half = trained_by_two(tmp_path, "shrunk", train_updates=5, train_wrapping="fsdp")
    assert half["judged"][0]["loss"] == pytest.approx(alone["judged"][0]["loss"], rel=1e-4)
    whole = trained_alone("shrunk")
    assert whole["judged"][-1]["loss"] == pytest.approx(alone["judged"][-1]["loss"], rel=1e-3)
    assert losses(tmp_path, "shrunk") == pytest.approx(expected, rel=1e-4)
    trained_alone("grown", train_updates=5)
    trained_by_two(tmp_path, "grown", train_wrapping="ddp")
    assert losses(tmp_path, "grown") == pytest.approx(expected, rel=1e-4)
