"""Builds the native engine: one small library for each instruction set, chosen when the program runs.

Everything else about the package stands in pyproject.toml. Without a C++ compiler the install still succeeds, on the
torch engine alone; TRANSOM_REQUIRE_NATIVE=1 makes a failed build an error.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = Path("src/transom/kernels/native")
FLAGS = "-O3 -std=c++17 -fPIC -shared -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=fast -w"
ON_X86 = {"avx512": "-mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx2 -mfma", "avx2": "-mavx2 -mfma"}
PATIENCE = 300  # seconds for one library: a compiler that hangs shall not keep anyone from the rest
SETS = {**(ON_X86 if platform.machine() in ("x86_64", "AMD64") else {}), "generic": ""}


class BuildNative(build_ext):
    """Calls the compiler itself: these are plain libraries, not Python modules; all at a time, on as many cores."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or True

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', os.sep)}.so"

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        try:
            compile_native(ext.name.rpartition(".")[2], target)
        except (OSError, subprocess.SubprocessError) as error:
            if os.environ.get("TRANSOM_REQUIRE_NATIVE") == "1":
                raise
            print(f"transom: no native engine ({error}); attention will run on the torch engine", file=sys.stderr)

    def copy_extensions_to_source(self) -> None:
        """For an editable install: what was built, and no complaint about what could not be."""
        for ext in self.extensions:
            built = Path(self.build_lib) / self.get_ext_filename(ext.name)
            if built.exists():
                put(built, Path("src") / self.get_ext_filename(ext.name))

    def get_outputs(self) -> list[str]:
        return [path for path in super().get_outputs() if Path(path).exists()]

    def get_output_mapping(self) -> dict[str, str]:
        return {built: source for built, source in super().get_output_mapping().items() if Path(built).exists()}


def put(file: Path, target: Path) -> None:
    """A copy, put in place in one step: written into, a library that some process has loaded would crash it."""
    shutil.copyfile(file, target.with_suffix(".unfinished"))
    target.with_suffix(".unfinished").replace(target)


def compile_native(instructions: str, target: Path) -> None:
    """One library, written whole or not at all."""
    compiler = os.environ.get("CXX") or next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), "c++")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    command = f"{compiler} {FLAGS} {SETS[instructions]}".split()
    sources = map(str, sorted(SOURCES.glob("*.cpp")))
    subprocess.run([*command, *sources, "-o", str(unfinished)], check=True, timeout=PATIENCE)
    unfinished.replace(target)


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
