"""The native engine under the sanitizers: no address, no undefined behaviour and no race goes wrong."""

import shutil
import subprocess
from pathlib import Path

import pytest

from transom.kernels.native_library import FOLDER, LANES

DRIVERS = Path(__file__).parent / "native"
# GCC takes the undefined operand inside its own AVX-512 intrinsics for one of ours: -Wno-uninitialized.
FLAGS = (
    "-std=c++17 -O1 -g -Wall -Wextra -Werror -Wno-maybe-uninitialized -Wno-uninitialized -fno-math-errno"
    " -fno-trapping-math -ffp-contract=fast -DTRANSOM_STD_THREADS -pthread -fno-sanitize-recover=all"
)
SETS = {"avx512": "-mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx2 -mfma", "avx2": "-mavx2 -mfma", "generic": ""}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
@pytest.mark.parametrize(("sanitizers", "instructions"), [("address,undefined", "widest"), ("thread", "generic")])
@pytest.mark.parametrize(
    ("driver", "cases"),
    [("attention_driver.cpp", 16), ("decode_driver.cpp", 5)],
    ids=["all passes of attention", "steps of writing"],
)
def test_on_buffers_of_exact_size(driver, cases, sanitizers, instructions, tmp_path, builds):
    if instructions == "widest":
        if not builds:
            pytest.skip("the native engine is not built here, so its instruction set is not known")
        instructions = next(iter(builds))
    program = tmp_path / "driver"
    command = ["g++", *FLAGS.split(), *SETS[instructions].split(), f"-fsanitize={sanitizers}", f"-I{FOLDER}"]
    subprocess.run([*command, str(DRIVERS / driver), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{cases} cases, {LANES[instructions]} lanes: alike for one and three threads\n"
