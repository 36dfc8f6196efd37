"""Two launchers on one machine, each as on a machine of its own: the very command of docs/training.md."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import pairs_file
from test_torchrun import RECIPE, command, losses

from transom.cli import main

DOCS = Path(__file__).parents[2] / "docs" / "training.md"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def launcher_options(rank: int, port: int) -> list[str]:
    """The options of torchrun in the docs, with this machine's address."""
    (line,) = re.findall(r"^torchrun (--nnodes 2 .*?) -m transom train", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    return line.replace("$RANK", str(rank)).replace("FIRST_MACHINE", "127.0.0.1").replace("29500", str(port)).split()


@pytest.mark.slow
@pytest.mark.usefixtures("own_errors")
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_two_launchers_train_one_model(tmp_path, monkeypatch, capsys, dropout):
    pairs_file(tmp_path)
    (tmp_path / "recipe.toml").write_text(RECIPE.replace("dropout = 0.0", f"dropout = {dropout}"))
    monkeypatch.chdir(tmp_path)
    assert main(command("alone")) == 0
    capsys.readouterr()
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    transom = ["-m", "transom", *command("two")]
    launchers = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *launcher_options(rank, port), *transom],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    said = [launcher.communicate(timeout=300) for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], said
    assert json.loads("".join(out for out, _ in said))["model"] == "two/model"
    alone, two = losses(tmp_path, "alone"), losses(tmp_path, "two")
    # With dropout each process draws its own numbers, so the losses agree as those of two seeds do.
    assert two == pytest.approx(alone, rel=1e-4 if dropout == 0.0 else 0.15)
    if dropout:
        assert two != alone
