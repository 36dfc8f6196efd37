"""kill -9 at random moments, and the same command again: nothing is lost, not a bit."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("KILLS", "8"))  # `make test-kills` asks for more


@pytest.mark.slow
def test_a_run_killed_again_and_again_is_the_run_that_never_was(tmp_path):
    """Every logged loss and judgement, and the final parameters; over many epochs. Another seed each time."""
    seed = random.SystemRandom().randrange(10**6)
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, str(here / "killed_runs.py"), str(tmp_path), str(KILLS), str(seed)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    told = f"seed {seed}: {found}"
    assert found["ended"] == 0, told
    assert found["same log"], told
    assert found["same parameters"], told
    assert found["kills"] == KILLS, told
    assert found["epochs"] > 3, told
    assert len(set(found["moments"])) > KILLS // 3, told
