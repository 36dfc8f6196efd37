"""What is released: one version everywhere, and a wheel that holds what it needs, nothing else, and runs on its own."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import transom
from transom.kernels import native_library

ROOT = Path(__file__).parent.parent
BUILDS = ["pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"]
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "*.unfinished")


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_version_is_said_once_and_told_alike_everywhere():
    assert tomllib.loads(text("pyproject.toml"))["project"]["dynamic"] == ["version"]
    version, day = re.findall(r"^## \[(\d\S*)\] - (\S+)$", text("CHANGELOG.md"), re.MULTILINE)[0]
    cited = dict(re.findall(r"^([a-z-]+): (\S+)$", text("CITATION.cff"), re.MULTILINE))
    assert version == transom.__version__ == cited["version"]
    assert day == cited["date-released"]


def run(command: list[str | Path], folder: Path, **more: str) -> str:
    """What a command prints, run elsewhere than in the repository, with nothing of it on the path."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "CXX") if name in os.environ}
    environment = {**kept, "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "NO_COLOR": "1", **more}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The sdist, and the wheel made from it, as `python -m build` makes them."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler here")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in BUILDS:
        shutil.copy(ROOT / name, source)
    shutil.copy(ROOT / "constraints.txt", source)
    shutil.copytree(ROOT / "src", source / "src", ignore=NOT_SOURCE)
    (source / "src/transom/kernels/native/another.so").write_bytes(b"built for another machine")
    hook = "from setuptools import build_meta; print(build_meta.build_sdist({!r}))"
    sdist = out / run([sys.executable, "-c", hook.format(str(out))], source).splitlines()[-1]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps", "--no-index"]
    run([*pip, "--no-build-isolation", "-w", out, sdist], out, TRANSOM_REQUIRE_NATIVE="1")
    return sdist, next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def bare(built, tmp_path_factory) -> Path:
    """The folder of commands of a new environment: the wheel, and beside it the packages that these tests run with."""
    home = tmp_path_factory.mktemp("bare")
    run([sys.executable, "-m", "venv", "--without-pip", home], home)
    into = next((home / "lib").glob("python*/site-packages"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", home / "bin/python"]
    run([*pip, "install", "-q", "--no-deps", "--no-index", built[1]], home)
    (into / "packages.pth").write_text(sysconfig.get_path("purelib"))  # paths alone: its .pth files are not followed
    return home / "bin"


def own_files() -> set[str]:
    """What a wheel should hold of the package: all of its source, and no C++."""
    found = {path for path in (ROOT / "src/transom").rglob("*") if path.is_file()}
    left_out = (".so", ".pyc", ".cpp", ".hpp", ".unfinished")
    return {str(path.relative_to(ROOT / "src")) for path in found if path.suffix not in left_out}


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_libraries_and_nothing_else(built):
    names = {name for name in zipfile.ZipFile(built[1]).namelist() if ".dist-info/" not in name}
    libraries = {f"transom/kernels/native/{name}.so" for name in native_library.LANES}
    assert names == own_files() | (
        libraries if os.uname().machine == "x86_64" else {"transom/kernels/native/generic.so"}
    )


@pytest.mark.slow
def test_the_wheel_is_for_any_python_on_this_kind_of_machine(built):
    machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert built[1].name == f"transom-{transom.__version__}-py3-none-{machine}.whl"


@pytest.mark.slow
def test_the_sdist_holds_what_the_build_needs_and_no_tests(built):
    with tarfile.open(built[0]) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {*BUILDS, "constraints.txt", "src/transom/kernels/native/attention_api.cpp"} <= names
    assert not [name for name in names if name.startswith("tests") or name.endswith((".so", ".pyc"))]


SCRIPT = """
import json, sys, transom
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from transom.cli import main

home, said = Path(transom.__file__).parent, {}
lesson = str(home / "lessons/shipped/01-three-tokens.toml")
sentence = "Where do you live?"
asked = [["doctor", "--json"], ["tour"], ["learn", "1"], ["check", lesson], ["translate", sentence], ["see", sentence]]
for words in asked:
    with redirect_stdout(StringIO()) as stream:
        code = main(words)
    said[words[0]] = (code, stream.getvalue())
print(json.dumps({"home": str(home), "typed": (home / "py.typed").is_file(), **said}))
"""


@pytest.mark.slow
def test_the_wheel_runs_from_a_folder_that_is_not_the_repository(bare, tmp_path):
    assert run([bare / "transom", "--version"], tmp_path) == f"transom {transom.__version__}\n"
    said = json.loads(run([bare / "python", "-c", SCRIPT], tmp_path))
    assert Path(said.pop("home")).is_relative_to(bare.parent)
    assert said.pop("typed")
    assert {name: code for name, (code, _) in said.items()} == dict.fromkeys(said, 0)
    found = json.loads(said["doctor"][1])
    assert (found["transom"], found["engine"]) == (transom.__version__, "native")
    assert "[0.8446 0.5777 0.8446 0.5777] right" in said["tour"][1]
    assert "0.4223" in said["learn"][1]
    assert said["translate"][1].startswith("Où")
    assert "the receipt holds" in said["see"][1]
    assert said["check"][1].splitlines()[-1].endswith("slip")


@pytest.mark.slow
def test_the_page_of_the_wheel_has_its_files(bare, tmp_path):
    command = [str(bare / "transom"), "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            home, _, token = json.loads(server.stdout.readline())["address"].partition("?token=")

            def fetched(name: str) -> str:
                with urlopen(Request(home + name, headers={"Authorization": f"Bearer {token}"})) as answer:
                    return answer.read().decode()

            names = re.findall(r'(?:src|href)="([\w-]+\.\w+)"', fetched(""))
            assert {"app.js", "style.css", "icon.svg"} == set(names)
            static = ROOT / "src/transom/serve/static"
            scripts = [path for path in static.rglob("*.*") if path.name != "index.html"]
            assert all(
                fetched(path.relative_to(static).as_posix()) == path.read_text(encoding="utf-8") for path in scripts
            )
        finally:
            server.terminate()
