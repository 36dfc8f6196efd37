"""Steps of writing under the sanitizers: no address, no undefined behaviour and no race goes wrong."""

import shutil
import subprocess
from pathlib import Path

import pytest
from kernels.test_sanitized import FLAGS, SETS

from transom.kernels.library import FOLDER, LANES

DRIVER = Path(__file__).parent / "native" / "writing_driver.cpp"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
@pytest.mark.parametrize(("sanitizers", "instructions"), [("address,undefined", "widest"), ("thread", "generic")])
def test_steps_on_buffers_of_exact_size(sanitizers, instructions, tmp_path, builds):
    if instructions == "widest":
        if not builds:
            pytest.skip("the native engine is not built here, so its instruction set is not known")
        instructions = next(iter(builds))
    program = tmp_path / "driver"
    command = ["g++", *FLAGS.split(), *SETS[instructions].split(), f"-fsanitize={sanitizers}", f"-I{FOLDER}"]
    subprocess.run([*command, str(DRIVER), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"5 cases, {LANES[instructions]} lanes: alike for one and three threads\n"
