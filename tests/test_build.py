"""A compiler that is missing, fails or hangs keeps nobody from the rest: the install goes on, in a bounded time."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).parent.parent
NATIVE = "transom/kernels/native"


@pytest.fixture
def build(monkeypatch):
    """What setup.py has in it, in its folder, with nothing set up."""
    monkeypatch.setattr(setuptools, "setup", lambda **named: None)
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("build_of_transom", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def not_required(monkeypatch):
    """As it is for most people: where the whole check runs, an engine that cannot be compiled is an error."""
    monkeypatch.delenv("TRANSOM_REQUIRE_NATIVE", raising=False)


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Puts a script in the place of the compiler."""

    def put(script: str) -> Path:
        path = tmp_path / "cxx"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))
        return path

    return put


def built(build, folder: Path) -> Path:
    """The native libraries as `pip install` has them made; the folder in which they are to be."""
    names = [f"{NATIVE.replace('/', '.')}.{name}" for name in build.SETS]
    given = {"name": "transom", "ext_modules": [setuptools.Extension(name, sources=[]) for name in names]}
    command = build.BuildNative(build.WithNative(given))
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "temp")
    command.ensure_finalized()
    command.run()
    return folder / "lib" / NATIVE


def alive(process: int) -> bool:
    """Whether it runs: one that was killed may still be listed until its parent has heard of it."""
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_what_hangs_is_ended_with_all_that_it_started(build, compiler, tmp_path, monkeypatch, capsys):
    path = compiler(f"sleep 600 &\necho $! >> {tmp_path}/children\nwait")
    monkeypatch.setattr(build, "PATIENCE", 1)
    assert list(built(build, tmp_path).iterdir()) == []
    names = ", ".join(sorted(build.SETS))
    said = f"transom: no native engine for {names} ({path} was not done after 1 s); attention runs without it\n"
    assert capsys.readouterr().err == said
    children = [int(line) for line in (tmp_path / "children").read_text().split()]
    assert children
    ended_by = time.monotonic() + 10  # a killed process takes a moment to be gone
    while any(map(alive, children)) and time.monotonic() < ended_by:
        time.sleep(0.05)
    assert not any(map(alive, children))


def test_what_fails_is_told_in_one_line_and_leaves_nothing(build, compiler, tmp_path, capsys):
    path = compiler('for word; do case "$word" in *.unfinished) echo half > "$word";; esac; done\nexit 3')
    assert list(built(build, tmp_path).iterdir()) == []
    names = ", ".join(sorted(build.SETS))
    said = f"transom: no native engine for {names} ({path} ended with code 3); attention runs without it\n"
    assert capsys.readouterr().err == said


def test_one_set_that_the_compiler_does_not_know_is_no_loss_of_the_others(build, compiler, tmp_path, capsys):
    compiler('case "$*" in *avx512f*) exit 1;; esac\nfor word; do last="$word"; done\necho library > "$last"')
    found = {path.stem for path in built(build, tmp_path).iterdir()}
    assert found == set(build.SETS) - {"avx512"}
    assert capsys.readouterr().err.count("\n") == len(set(build.SETS) & {"avx512"})


def test_no_compiler_is_an_error_only_where_one_is_required(build, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CXX", "/nowhere/c++")
    built(build, tmp_path)
    why = "[Errno 2] No such file or directory: '/nowhere/c++'"
    assert capsys.readouterr().err.count(f"({why}); attention runs without it") == 1
    monkeypatch.setenv("TRANSOM_REQUIRE_NATIVE", "1")
    with pytest.raises(build.NotCompiled) as caught:
        built(build, tmp_path)
    assert str(caught.value) == f"no native engine for {', '.join(sorted(build.SETS))}: {why}"


def test_a_library_of_an_earlier_time_does_not_stay_beside_sources_that_could_not_be_compiled(
    build, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "src" / NATIVE
    folder.mkdir(parents=True)
    for name in build.SETS:
        (folder / f"{name}.so").write_text("old")
    command = build.BuildNative(build.WithNative({"name": "transom"}))
    command.build_lib = str(tmp_path / "lib")
    command.extensions = [setuptools.Extension(f"transom.kernels.native.{name}", sources=[]) for name in build.SETS]
    (tmp_path / "lib" / NATIVE).mkdir(parents=True)
    (tmp_path / "lib" / NATIVE / "generic.so").write_text("new")
    command.copy_extensions_to_source()
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"generic.so": "new"}


def test_make_goes_on_and_says_so_where_there_is_no_engine(tmp_path):
    """The recipe as make runs it, with a python and a pip that do nothing."""
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt", "setup.py"):
        (tmp_path / name).touch()
    binaries = tmp_path / ".venv/bin"
    binaries.mkdir(parents=True)
    for name in ("python", "transom"):
        (binaries / name).write_text("#!/bin/sh\necho $0 $1 >> ran\n")
        (binaries / name).chmod(0o755)
    command = ["make", "-s", f"PYTHON={sys.executable}", "run"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line[:5] for line in done.stderr.splitlines()[:3]] == ["[1/3]", "[2/3]", "[3/3]"]
    assert [line for line in done.stderr.splitlines() if "no native engine" in line] == [
        "      no native engine: the C++ compiler is missing or failed (pip install -v -e . says how);"
        " attention runs on PyTorch's"
    ]
    assert (tmp_path / "ran").read_text().splitlines()[-1] == ".venv/bin/transom tour"
