"""A compiled run: the same random numbers, losses and gradients, the same after a stop, and what it needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_runs import pairs_file, small_recipe

from transom.names import Misfit
from transom.training.distributed import World
from transom.training.loop import check_processes
from transom.training.torch_compile import check_compiler


@pytest.mark.slow
def test_a_compiled_run_is_the_same_run_also_after_a_stop(tmp_path):
    """Against the same updates not compiled, dropout included; then bit for bit against itself."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "compiled_runs.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for plain, compiled in (*found["losses"], *found["norms"]):
        assert compiled == pytest.approx(plain, rel=1e-4)
    assert found["largest difference"] < 1e-5
    assert found["graphs"] > 0
    assert found["same after a stop"]


def test_a_compiled_run_is_for_one_process(tmp_path):
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path), train={"compile": True})
    check_processes(recipe, World())
    with pytest.raises(Misfit) as error:
        check_processes(recipe, World(rank=0, size=2))
    assert str(error.value) == "train.compile is for one process, but there are 2; leave it out"


def test_where_nothing_can_be_compiled_the_run_does_not_begin(monkeypatch):
    def fail(function):
        def called(x):
            raise RuntimeError("no compiler\nand more")

        return called

    monkeypatch.setattr(torch, "compile", fail)
    with pytest.raises(Misfit) as error:
        check_compiler()
    assert str(error.value) == ("train.compile needs a C++ compiler, but a trial failed (no compiler); install one")
