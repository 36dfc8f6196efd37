"""The native library: its structs, the build that this processor can run, and how its functions are called."""

import ctypes
import os
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_double, c_int, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transom.names import Misfit

FOLDER = Path(__file__).parent / "native"
LANES = {"avx512": 16, "avx2": 8, "generic": 4}  # numbers in one vector, widest first
STALE = "it was built from other sources than these; pip install builds it anew"
Strides = c_int64 * 3  # of batch, heads and rows


def fields(*groups: tuple[type, str]) -> list[tuple[str, Any]]:
    """The fields of a ctypes struct, written as in C++: a type, then the names that have it."""
    return [(name, kind) for kind, names in groups for name in names.split()]


class OrMaskParams(ctypes.Structure):
    """`struct OrMaskParams` of native/params.hpp."""

    _fields_ = fields(
        (c_int64, "window_end window_begin"),
        (c_void_p, "key_mask"),
        (c_int64 * 2, "key_mask_strides"),
        (c_void_p, "documents"),
        (c_int64, "documents_stride"),
    )


class AttentionParams(ctypes.Structure):
    """`struct AttentionParams` of native/params.hpp."""

    _fields_ = fields(
        (c_int64, "batch heads kv_heads queries keys d_head d_value"),
        (c_void_p, "Q K V"),
        (Strides, "Q_strides K_strides V_strides"),
        (c_int64, "dtype"),
        (c_double, "scale softcap"),
        (c_int64, "start window_end window_begin"),
        (c_void_p, "key_mask"),
        (c_int64 * 2, "key_mask_strides"),
        (c_void_p, "documents"),
        (c_int64, "documents_stride"),
        (c_void_p, "mask"),
        (Strides, "mask_strides"),
        (c_void_p, "bias"),
        (Strides, "bias_strides"),
        (c_void_p, "distance_bias"),
        (c_int64, "distance_bias_stride"),
        (POINTER(OrMaskParams), "or_masks"),
        (c_int64, "or_mask_count"),
        (c_double, "dropout"),
        (c_uint64, "seed"),
    )


class ForwardResult(ctypes.Structure):
    """`struct ForwardResult` of native/params.hpp."""

    _fields_ = fields(
        (c_void_p, "output"),
        (Strides, "output_strides"),
        (c_void_p, "lse entropy peak distance received partial top_weights top_keys"),
        (c_int64, "k"),
        (c_void_p, "nonfinite"),
    )


class MapWindow(ctypes.Structure):
    """`struct MapWindow` of native/params.hpp."""

    _fields_ = fields(
        (c_int64, "batch head first_row last_row first_key last_key cell_rows cell_keys"), (c_void_p, "sums maxima")
    )


class BackwardParams(ctypes.Structure):
    """`struct BackwardParams` of native/params.hpp."""

    _fields_ = fields((c_void_p, "output lse dO dQ dK dV partial nonfinite"))


class InfluenceParams(ctypes.Structure):
    """`struct InfluenceParams` of native/params.hpp."""

    _fields_ = fields(
        (c_void_p, "lse GO gradient"),
        (c_int64, "after"),
        (c_void_p, "per_row per_key partial top_changes top_keys"),
        (c_int64, "k"),
    )


class SlotTable(ctypes.Structure):
    """`struct SlotTable` of native/paged_attention.hpp."""

    _fields_ = fields((c_void_p, "slots"), (c_int64, "stride length"), (c_void_p, "begin end row_lists"))


class Operation(ctypes.Structure):
    """`struct Operation` of native/decode_program.hpp."""

    _fields_ = fields(
        (c_int64, "kind input other output in_features out_features"),
        (c_void_p, "weight bias kv_cache"),
        (c_int64, "heads kv_heads d_head slot_table"),
        (c_double, "eps"),
    )


class ProgramStruct(ctypes.Structure):
    """`struct Program` of native/decode_program.hpp."""

    _fields_ = fields(
        (c_void_p, "operations"),
        (c_int64, "count"),
        (c_void_p, "registers output"),
        (c_int64, "register_size rows slot"),
        (c_void_p, "rotary"),
        (c_int64, "positions"),
        (SlotTable * 2, "slot_tables"),
    )


@dataclass(frozen=True)
class NativeLibrary:
    """A loaded library, and the instruction set it was built for."""

    instructions: str
    native: ctypes.CDLL


def find_library() -> NativeLibrary | str:
    """The best build for this processor, or the reason why there is none."""
    wanted = os.environ.get("TRANSOM_ISA", "")
    if wanted and wanted not in LANES:
        return f"TRANSOM_ISA must be one of {', '.join(LANES)}, and it is {wanted!r}"
    generic = FOLDER / "generic.so"
    if not generic.exists():
        return "it is not built here; pip install builds it where there is a C++ compiler"
    try:
        first = ctypes.CDLL(str(generic))
        if not layout_matches(first):
            return STALE
        widest = first.transom_supported_lanes()
        for name, lanes in LANES.items():
            if (name == wanted or not wanted) and lanes <= widest and (FOLDER / f"{name}.so").exists():
                native = ctypes.CDLL(str(FOLDER / f"{name}.so"))
                return NativeLibrary(name, declare_functions(native)) if layout_matches(native) else STALE
    except OSError as error:
        return f"it cannot be loaded: {error}"
    return f"TRANSOM_ISA={wanted} is more than this processor has, or is not built"


def layout_matches(native: ctypes.CDLL) -> bool:
    """Whether the library's structs have the sizes of those above; a library from other sources may have others."""
    layouts = {
        "transom_attention_struct_sizes": (AttentionParams, ForwardResult, MapWindow, BackwardParams, OrMaskParams),
        "transom_influence_struct_sizes": (InfluenceParams,),
        "transom_decode_struct_sizes": (Operation, ProgramStruct),
    }
    for name, structs in layouts.items():
        if not hasattr(native, name):
            return False
        function = getattr(native, name)
        function.restype = c_int64
        if function() != sum(ctypes.sizeof(struct) << 12 * index for index, struct in enumerate(structs)):
            return False
    return True


def declare_functions(native: ctypes.CDLL) -> ctypes.CDLL:
    """The library, after its functions got their types."""
    attention, result, influence = POINTER(AttentionParams), POINTER(ForwardResult), POINTER(InfluenceParams)
    matrix = (c_void_p, *[c_int64] * 3, c_void_p, c_void_p)  # X, rows, in_features, out_features, weight, bias
    signatures = {
        "forward_units": (c_int64, attention, result),
        "forward_chunks": (c_int64, attention, result),
        "forward": (c_int, attention, result, c_int64, c_int64, c_int),
        "weight_stats_units": (c_int64, attention, result),
        "weight_stats_chunks": (c_int64, attention, result),
        "weight_stats": (c_int, attention, result, c_int64, c_int64, c_int),
        "pooled_map_units": (c_int64, attention, POINTER(MapWindow)),
        "pooled_map": (c_int, attention, c_void_p, POINTER(MapWindow), c_int64, c_int64, c_int),
        "influence_stats_units": (c_int64, attention, influence),
        "influence_stats_chunks": (c_int64, attention, influence),
        "influence_stats": (c_int, attention, influence, c_int64, c_int64, c_int),
        "influence_map_units": (c_int64, attention, influence, POINTER(MapWindow)),
        "influence_map": (c_int, attention, influence, POINTER(MapWindow), c_int64, c_int64, c_int),
        "backward_units": (c_int64, attention),
        "backward_partial_floats": (c_int64, attention),
        "backward": (c_int, attention, POINTER(BackwardParams), c_int64, c_int64, c_int),
        "packed_floats": (c_int64, c_int64, c_int64),
        "pack_weight": (c_int, c_void_p, c_int64, c_int64, c_void_p, c_int),
        "decode_step": (c_int, POINTER(ProgramStruct), c_int),
        "packed_gemm": (c_int, *matrix, c_void_p, c_int),
        "vocab_chunks": (c_int64, c_int64),
        "vocab_topk": (c_int, *matrix, c_int64, c_void_p, c_void_p, c_void_p, c_int),
    }
    for name, (returned, *arguments) in signatures.items():
        function = getattr(native, f"transom_{name}")
        function.restype, function.argtypes = returned, arguments
    return native


# Searched for once, at import: torch.compile can read this, but not trace a search for files.
FOUND = find_library()


def library_or_reason() -> NativeLibrary | str:
    return FOUND


def require_library() -> NativeLibrary:
    """The library; an error if there is none."""
    library = library_or_reason()
    if isinstance(library, str):
        raise Misfit(f"the native engine was asked for, but {library}; TRANSOM_ENGINE=torch works everywhere")
    return library


# A forked process has none of its parent's threads, and starting new ones there would hang.
FORKED = [False]
os.register_at_fork(after_in_child=lambda: FORKED.__setitem__(0, True))


def threads() -> int:
    return 1 if FORKED[0] else torch.get_num_threads()


PRODUCTS_AT_ONCE = 2**36  # multiplications in one call: under a second, so that Ctrl-C works


def chunk_units(units: int, products: int) -> Iterator[tuple[int, int]]:
    """Runs of units that each take no longer than about PRODUCTS_AT_ONCE multiplications."""
    at_once = max(1, units * PRODUCTS_AT_ONCE // max(1, products))
    for first in range(0, units, at_once):
        yield first, min(first + at_once, units)


def call_in_chunks(function: Callable[..., int], units: int, products: int, *args: object) -> None:
    """Call a function of the library for all units, a run at a time; `products` counts their multiplications."""
    for first, last in ((0, units),) if products <= PRODUCTS_AT_ONCE else chunk_units(units, products):
        check_code(function(*args, first, last, threads()))


def check_code(code: int) -> None:
    """Raise an error if the library reports one."""
    if code != 0:
        raise MemoryError("the native engine ran out of memory")


def strides(tensor: Tensor) -> tuple[int, int, int]:
    """The strides of batch, heads and rows; 0 along an axis of size 1, which is broadcast."""
    (batch, heads, rows, _), (batch_stride, head_stride, row_stride, _) = tensor.shape, tensor.stride()
    return batch_stride if batch > 1 else 0, head_stride if heads > 1 else 0, row_stride if rows > 1 else 0
