"""The native library: which of its builds this processor can run, loaded when first asked for, and how it is called."""

import ctypes
import os
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_double, c_int, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from transom.names import Misfit

FOLDER = Path(__file__).parent / "native"
LANES = {"avx512": 16, "avx2": 8, "generic": 4}  # numbers in one vector, widest first


class Either(ctypes.Structure):
    """`struct Either` of native/attention.hpp: masks of which one is enough."""

    _fields_ = (
        ("ahead", c_int64),
        ("behind", c_int64),
        ("real", c_void_p),
        ("real_strides", c_int64 * 2),
        ("documents", c_void_p),
        ("documents_stride", c_int64),
    )


class Attention(ctypes.Structure):
    """`struct Attention` of native/attention.hpp, field by field."""

    _fields_ = (
        *((size, c_int64) for size in ("batch", "heads", "kv_heads", "queries", "keys", "d_head", "d_value")),
        ("Q", c_void_p),
        ("K", c_void_p),
        ("V", c_void_p),
        ("Q_strides", c_int64 * 3),
        ("K_strides", c_int64 * 3),
        ("V_strides", c_int64 * 3),
        ("precision", c_int64),
        ("scale", c_double),
        ("softcap", c_double),
        ("start", c_int64),
        ("ahead", c_int64),
        ("behind", c_int64),
        ("real", c_void_p),
        ("real_strides", c_int64 * 2),
        ("documents", c_void_p),
        ("documents_stride", c_int64),
        ("given", c_void_p),
        ("given_strides", c_int64 * 3),
        ("bias", c_void_p),
        ("bias_strides", c_int64 * 3),
        ("by_distance", c_void_p),
        ("by_distance_stride", c_int64),
        ("either", POINTER(Either)),
        ("eithers", c_int64),
        ("dropout", c_double),
        ("seed", c_uint64),
    )


class Found(ctypes.Structure):
    """`struct Found`: what is wanted, and where to put it."""

    _fields_ = (
        ("output", c_void_p),
        ("output_strides", c_int64 * 3),
        ("lse", c_void_p),
        ("entropy", c_void_p),
        ("peak", c_void_p),
        ("distance", c_void_p),
        ("received", c_void_p),
        ("partial", c_void_p),
        ("top_weights", c_void_p),
        ("top_keys", c_void_p),
        ("k", c_int64),
        ("wild", c_void_p),
    )


class Window(ctypes.Structure):
    """`struct Window`: a part of one head, and the cells to pool it into."""

    _fields_ = (
        *(
            (name, c_int64)
            for name in ("batch", "head", "first_row", "last_row", "first_key", "last_key", "tall", "wide")
        ),
        ("sums", c_void_p),
        ("highest", c_void_p),
    )


class Gradients(ctypes.Structure):
    """`struct Gradients`: what the backward pass takes and gives."""

    _fields_ = tuple((name, c_void_p) for name in ("output", "lse", "of_output", "Q", "K", "V", "partial", "wild"))


@dataclass(frozen=True)
class Engine:
    """A loaded library, and the instruction set it was built for."""

    instructions: str
    native: ctypes.CDLL


def best() -> Engine | str:
    """The best build for this processor, or the reason why there is none."""
    asked = os.environ.get("TRANSOM_ISA", "")
    if asked and asked not in LANES:
        return f"TRANSOM_ISA must be one of {', '.join(LANES)}, and it is {asked!r}"
    generic = FOLDER / "generic.so"
    if not generic.exists():
        return "it is not built here; pip install builds it where there is a C++ compiler"
    try:
        widest = ctypes.CDLL(str(generic)).transom_widest()
        for name, lanes in LANES.items():
            if (name == asked or not asked) and lanes <= widest and (FOLDER / f"{name}.so").exists():
                native = ctypes.CDLL(str(FOLDER / f"{name}.so"))
                return Engine(name, prepared(native)) if fits(native) else OTHER
    except OSError as error:
        return f"it cannot be loaded: {error}"
    return f"TRANSOM_ISA={asked} is more than this processor has, or is not built"


OTHER = "it was built from other sources than these; pip install builds it anew"


def fits(native: ctypes.CDLL) -> bool:
    """Whether the library lays out what it is handed as this module does: one left over from other sources may not."""
    if not hasattr(native, "transom_layout"):
        return False
    native.transom_layout.restype = c_int64
    sizes = (ctypes.sizeof(one) for one in (Attention, Found, Window, Gradients, Either))
    return native.transom_layout() == sum(size << 12 * place for place, size in enumerate(sizes))


def prepared(native: ctypes.CDLL) -> ctypes.CDLL:
    """The library with the types of its functions."""
    attention, found = POINTER(Attention), POINTER(Found)
    signatures = {
        "forward_units": (c_int64, attention, found),
        "forward_chunks": (c_int64, attention, found),
        "forward": (c_int, attention, found, c_int64, c_int64, c_int),
        "statistics_units": (c_int64, attention, found),
        "statistics_chunks": (c_int64, attention, found),
        "statistics": (c_int, attention, found, c_int64, c_int64, c_int),
        "map_units": (c_int64, attention, POINTER(Window)),
        "map": (c_int, attention, c_void_p, POINTER(Window), c_int64, c_int64, c_int),
        "backward_units": (c_int64, attention),
        "backward_numbers": (c_int64, attention),
        "backward": (c_int, attention, POINTER(Gradients), c_int64, c_int64, c_int),
    }
    for name, (gives, *takes) in signatures.items():
        function = getattr(native, f"transom_{name}")
        function.restype, function.argtypes = gives, takes
    return native


FOUND = best()  # when this module is first imported: torch.compile can look at it, but not through a search for files


def engine() -> Engine | str:
    return FOUND


def loaded() -> Engine:
    """The engine, which must be there."""
    found = engine()
    if isinstance(found, str):
        raise Misfit(f"the native engine was asked for, but {found}; TRANSOM_ENGINE=torch works everywhere")
    return found


# A forked process has none of its parent's threads, and starting new ones beside their remains would hang.
FORKED = [False]
os.register_at_fork(after_in_child=lambda: FORKED.__setitem__(0, True))


def threads() -> int:
    return 1 if FORKED[0] else torch.get_num_threads()


NUMBERS_AT_ONCE = 2**36  # multiplications in one call: under a second, so that an interrupt is answered


def in_turns(units: int, numbers: int) -> Iterator[tuple[int, int]]:
    """Runs of units, each short enough that Ctrl-C need not wait for long."""
    at_once = max(1, units * NUMBERS_AT_ONCE // max(1, numbers))
    for first in range(0, units, at_once):
        yield first, min(first + at_once, units)


def run(function: Callable[..., int], units: int, numbers: int, *given: object) -> None:
    """Call a function of the library for all units, a run at a time."""
    for first, last in ((0, units),) if numbers <= NUMBERS_AT_ONCE else in_turns(units, numbers):
        if function(*given, first, last, threads()) != 0:
            raise MemoryError("the native engine ran out of memory")


def strides(tensor: Tensor) -> tuple[int, int, int]:
    """How far apart batch entries, heads and rows lie; 0 along axes that are spread out from size 1."""
    (batch, heads, rows, _), (of_batch, of_head, of_row, _) = tensor.shape, tensor.stride()
    return of_batch if batch > 1 else 0, of_head if heads > 1 else 0, of_row if rows > 1 else 0
