"""The native engine in each of its builds that this processor can run."""

import ctypes

import pytest

from transom.kernels import dispatch, native_library
from transom.kernels.native_library import FOLDER, LANES, NativeLibrary, declare_functions


def found() -> dict[str, NativeLibrary]:
    """Every build that runs here, by instruction set."""
    if not isinstance(native_library.library_or_reason(), NativeLibrary):
        return {}
    widest = ctypes.CDLL(str(FOLDER / "generic.so")).transom_supported_lanes()
    names = [name for name, lanes in LANES.items() if lanes <= widest and (FOLDER / f"{name}.so").exists()]
    return {name: NativeLibrary(name, declare_functions(ctypes.CDLL(str(FOLDER / f"{name}.so")))) for name in names}


BUILDS = found()


@pytest.fixture(params=BUILDS or [pytest.param("none", marks=pytest.mark.skip("the native engine is not built here"))])
def instructions(request, monkeypatch):
    """The native engine, and nothing else, with one instruction set."""
    monkeypatch.setenv("TRANSOM_ENGINE", "native")
    monkeypatch.setattr(native_library, "library_or_reason", lambda: BUILDS[request.param])
    return request.param


@pytest.fixture
def builds():
    """Every build that runs here, by instruction set, widest first."""
    return BUILDS


@pytest.fixture(params=["native where it can", pytest.param("torch", marks=pytest.mark.slow)])
def each_engine(request, monkeypatch):
    """The native engine for all it does, however small, and torch for the rest (float64 above all); or torch alone."""
    monkeypatch.setenv("TRANSOM_ENGINE", "auto" if request.param != "torch" else "torch")
    monkeypatch.setattr(dispatch, "why_native_is_slower", lambda problem: None)
