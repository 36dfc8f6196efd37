"""Builds the native engine: one small library for each instruction set, chosen when the program runs.

Everything else about the package stands in pyproject.toml. Without a C++ compiler, or with one that fails or hangs, the
install still succeeds, on the torch engine alone; TRANSOM_REQUIRE_NATIVE=1 makes a failed build an error.
"""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = Path("src/transom/kernels/native")
FLAGS = "-O3 -std=c++17 -fPIC -shared -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=fast -w"
ON_X86 = {"avx512": "-mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx2 -mfma", "avx2": "-mavx2 -mfma"}
PATIENCE = 300  # seconds for all libraries together: a compiler that hangs shall not keep anyone from the rest
SETS = {**(ON_X86 if platform.machine() in ("x86_64", "AMD64") else {}), "generic": ""}


class NotCompiled(Exception):
    """A library that there will not be; the message says why."""


class BuildNative(build_ext):
    """Calls the compiler itself: these are plain libraries, not Python modules; all at a time, on as many cores."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or True

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', os.sep)}.so"

    def build_extensions(self) -> None:
        """All of them; one line about what could not be built."""
        self.until, self.failed = time.monotonic() + PATIENCE, {}
        super().build_extensions()
        if not self.failed:
            return
        names, why = ", ".join(sorted(self.failed)), next(iter(self.failed.values()))
        if os.environ.get("TRANSOM_REQUIRE_NATIVE") == "1":
            raise NotCompiled(f"no native engine for {names}: {why}")
        print(f"transom: no native engine for {names} ({why}); attention runs without it", file=sys.stderr)

    def build_extension(self, ext: Extension) -> None:
        name = ext.name.rpartition(".")[2]
        try:
            compile_native(name, Path(self.get_ext_fullpath(ext.name)), self.until - time.monotonic())
        except NotCompiled as error:
            self.failed[name] = str(error)

    def copy_extensions_to_source(self) -> None:
        """For an editable install: what was built; what could not be is not left there from an earlier time."""
        for ext in self.extensions:
            built, target = (Path(folder) / self.get_ext_filename(ext.name) for folder in (self.build_lib, "src"))
            if built.exists():
                put(built, target)
            else:
                target.unlink(missing_ok=True)

    def get_outputs(self) -> list[str]:
        return [path for path in super().get_outputs() if Path(path).exists()]

    def get_output_mapping(self) -> dict[str, str]:
        return {built: source for built, source in super().get_output_mapping().items() if Path(built).exists()}


def put(file: Path, target: Path) -> None:
    """A copy, put in place in one step: written into, a library that some process has loaded would crash it."""
    shutil.copyfile(file, target.with_suffix(".unfinished"))
    target.with_suffix(".unfinished").replace(target)


def compile_native(instructions: str, target: Path, seconds: float) -> None:
    """One library, written whole or not at all, within so many seconds."""
    compiler = os.environ.get("CXX") or next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), "c++")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    command = f"{compiler} {FLAGS} {SETS[instructions]}".split()
    sources = map(str, sorted(SOURCES.glob("*.cpp")))
    try:
        run([*command, *sources, "-o", str(unfinished)], seconds)
        unfinished.replace(target)
    except subprocess.TimeoutExpired as error:
        raise NotCompiled(f"{compiler} was not done after {PATIENCE} s") from error
    except (OSError, subprocess.SubprocessError) as error:
        code = getattr(error, "returncode", None)
        raise NotCompiled(str(error) if code is None else f"{compiler} ended with code {code}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def run(command: list[str], seconds: float) -> None:
    """A compiler is a tree of processes: when its time is up all of it ends, or pip would wait for what is left."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        code = process.wait(max(0.0, seconds))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        raise subprocess.CalledProcessError(code, command)


class WithNative(Distribution):
    """Holds libraries for one kind of machine, so a wheel of it is for that kind."""

    def has_ext_modules(self) -> bool:
        return True


class WheelOfLibraries(bdist_wheel):
    """For every Python 3 on this kind of machine, as ctypes loads plain libraries; without them, for any machine."""

    def get_tag(self) -> tuple[str, str, str]:
        kind_of_machine = super().get_tag()[2]
        return "py3", "none", kind_of_machine if self.get_finalized_command("build_ext").get_outputs() else "any"


setup(
    distclass=WithNative,
    cmdclass={"build_ext": BuildNative, "bdist_wheel": WheelOfLibraries},
    ext_modules=[
        Extension(
            f"transom.kernels.native.{name}", sources=[], depends=[str(path) for path in SOURCES.glob("*.[ch]pp")]
        )
        for name in SETS
    ],
)
