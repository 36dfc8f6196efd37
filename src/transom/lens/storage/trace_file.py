"""A Trace as one safetensors file: numbers as float32 tensors, names, tokens and masks as JSON in its header.

A file is not trusted: everything in it is compared with its size, with itself and with what an attention can be, before
it becomes a Sight. Nothing in it is ever run.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec
import torch
from torch import Tensor

from transom.files.safetensors_header import MOST_TENSORS
from transom.kernels import Problem, check_numbers, check_sizes, check_tensors
from transom.lens.attention.kv_history import KVHistory
from transom.lens.attention.labels import PatchGrid, RunLabels
from transom.lens.attention.receipt import Receipt
from transom.lens.attention.record import JoinedOutput
from transom.lens.attention.sight import AnySight, Sight, StatsOnlySight
from transom.lens.attention.statistics import Statistics
from transom.lens.storage.mask_codec import bias_from_dict, mask_from_dict, part_to_dict
from transom.lens.storage.tensor_file import TensorFormat, TensorReader, check_dtype
from transom.lens.unseen_attention import UnseenAttention
from transom.names import Misfit

STATISTICS = ("entropy", "peak", "distance", "received")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# The tensors of an attention with Q, K and V: how many axes each has, and which may be missing.
AXES = {"Q": 4, "K": 4, "V": 4, "lse": 3, "output": 4, "W_O": 2, "b_O": 1, "joined": 3, "real": 2}
OPTIONAL = ("output", "W_O", "b_O", "joined", "real")


class SightEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One attention in the header: its numbers, and the name of each of its tensors in the file."""

    name: str
    keep: Literal["qkv", "statistics"]
    tensors: dict[str, str]
    dtype: str = "float32"
    scale: float = 1.0
    softcap: float | None = None
    dropout: float = 0.0
    seed: int = 0
    mask: dict[str, Any] | None = None
    bias: dict[str, Any] | None = None
    unproved: str = ""
    zeroed: dict[str, Any] | None = None  # as a mask: False where a weight was set to 0 after the softmax
    keys: tuple[int, int] | None = None  # if K and V are shared by several steps: the first key, and how many
    fixed: bool = False  # whether they belong to a cache of fixed size
    proof: tuple[str, str] | None = None  # with statistics alone: difference and tolerance; JSON has no infinity
    part: str = ""  # with statistics alone: how many rows were checked, if not all


class TraceHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the header says beside the tensors."""

    tokens: list[list[str]] | None
    targets: list[list[str]] | None = None
    grid: PatchGrid | None = None
    unseen: list[UnseenAttention] = []
    sights: list[SightEntry]


TRACE = TensorFormat("transom trace 1", TraceHeader, 2**24, "save it again, or take another copy")


class TensorWriter:
    """Collects the tensors of a file; one that several attentions share is stored once."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.names: dict[int, str] = {}
        self.histories: dict[int, tuple[Tensor, Tensor]] = {}

    def history_tensors(self, history: KVHistory) -> tuple[Tensor, Tensor]:
        """All keys and values of a history, the same tensors each time."""
        if id(history) not in self.histories:
            self.histories[id(history)] = (history.K[:, :, : history.length], history.V[:, :, : history.length])
        return self.histories[id(history)]

    def __call__(self, x: Tensor) -> str:
        """Store a tensor and return its name in the file."""
        if id(x) not in self.names:
            self.names[id(x)] = str(len(self.tensors))
            self.tensors[self.names[id(x)]] = x
        return self.names[id(x)]


def to_saved(x: Tensor) -> Tensor:
    """Numbers as float32, bools as they are, ids as int64: dtypes that numpy can read."""
    dtype = torch.float32 if x.is_floating_point() else x.dtype if x.dtype == torch.bool else torch.int64
    return x.detach().to("cpu", dtype)


def save_trace(path: Path, labels: RunLabels, entries: list[tuple[str, AnySight]]) -> None:
    """Write the attentions and the labels of a run, and which attention could not be captured."""
    writer = TensorWriter()
    sights = [sight_to_entry(name, sight, writer) for name, sight in entries]
    header = TraceHeader(
        tokens=labels.tokens, targets=labels.targets, grid=labels.grid, unseen=labels.unseen, sights=sights
    )
    TRACE.save(path, header, {name: to_saved(x) for name, x in writer.tensors.items()})


def sight_to_entry(name: str, view: AnySight, writer: TensorWriter) -> SightEntry:
    """The header's entry of one attention; its tensors go to the writer."""
    sight = view.full
    if sight is None:
        tensors = {field: getattr(view.statistics, field) for field in STATISTICS} | {"lse": view.lse}
        receipt = view.receipt()
        return SightEntry(
            name=name,
            keep="statistics",
            tensors={field: writer(x) for field, x in tensors.items()},
            proof=(repr(receipt.difference), repr(receipt.tolerance)),
            unproved=receipt.unproved,
            part=receipt.part,
        )
    problem, kv_slice, joined = sight.problem, sight.kv_slice, sight.joined_output
    K, V = (problem.K, problem.V) if kv_slice is None else writer.history_tensors(kv_slice.history)
    tensors = {"Q": problem.Q, "K": K, "V": V, "lse": sight.lse}
    if joined is None:
        tensors["output"] = sight.output
    else:
        parts = {"W_O": joined.W_O, "b_O": joined.bias, "joined": joined.output, "real": joined.real}
        tensors |= {field: x for field, x in parts.items() if x is not None}
    return SightEntry(
        name=name,
        keep="qkv",
        tensors={field: writer(x) for field, x in tensors.items()},
        dtype=next((word for word, dtype in DTYPES.items() if dtype == problem.Q.dtype), "float32"),
        scale=problem.scale,
        softcap=problem.softcap,
        dropout=problem.dropout,
        seed=problem.seed,
        mask=part_to_dict(problem.mask, writer),
        bias=part_to_dict(problem.bias, writer),
        unproved=sight.unproved,
        zeroed=part_to_dict(sight.weight_mask, writer),
        keys=None if kv_slice is None else (kv_slice.first, kv_slice.keys),
        fixed=kv_slice is not None and kv_slice.history.fixed,
    )


def load_trace(path: Path) -> tuple[TraceHeader, list[tuple[str, AnySight]]]:
    """The header, and name and Sight of each attention."""
    with TRACE.open_file(path) as (header, tensors):
        if len(header.sights) > MOST_TENSORS:
            raise Misfit(f"it lists {len(header.sights)} attentions, but {MOST_TENSORS} are the most")
        reader = SightReader(tensors)
        return header, [(entry.name, reader.read_entry(entry)) for entry in header.sights]


class SightReader:
    """Makes Sights of the entries of a header; tensors that several of them share take memory once."""

    def __init__(self, tensors: TensorReader) -> None:
        self.tensors = tensors
        self.cast: dict[tuple[int, torch.dtype], Tensor] = {}
        self.histories: dict[tuple[int, int], KVHistory] = {}

    def read_entry(self, entry: SightEntry) -> AnySight:
        return self.read_stats_only(entry) if entry.keep == "statistics" else self.read_sight(entry)

    def to_dtype(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """A number tensor in the model's dtype; a bool tensor as it is."""
        if x.dtype == torch.bool:
            return x
        if (id(x), dtype) not in self.cast:
            self.cast[id(x), dtype] = x.to(dtype)
        return self.cast[id(x), dtype]

    def entry_tensors(
        self, entry: SightEntry, axes: dict[str, int], optional: tuple[str, ...] = ()
    ) -> dict[str, Tensor]:
        """The tensors of one attention by their names, each with its dtype and number of axes checked."""
        if not axes.keys() - set(optional) <= entry.tensors.keys() <= axes.keys():
            raise Misfit(
                f"{entry.name!r:.60} should hold {', '.join(axes)}, but it holds {', '.join(entry.tensors)!r:.60}"
            )
        dtypes = {field: torch.bool if field == "real" else torch.float32 for field in axes}
        return {
            field: check_dtype(self.tensors(name), dtypes[field], axes[field]) for field, name in entry.tensors.items()
        }

    def read_sight(self, entry: SightEntry) -> Sight:
        """An attention with Q, K and V, once everything in its entry fits together."""
        saved = self.entry_tensors(entry, AXES, OPTIONAL)
        if entry.dtype not in DTYPES:
            raise Misfit(f"the dtype is one of {', '.join(DTYPES)}, but got {entry.dtype!r:.60}")
        typed = {field: self.to_dtype(x, DTYPES[entry.dtype]) for field, x in saved.items() if field != "lse"}
        Q, all_K, all_V = (typed[field] for field in "QKV")
        first, K, V = step_slice(all_K, all_V, entry.keys)
        check_tensors(Q, K, V)
        check_sizes(Q, K, V)
        check_numbers(entry.scale, entry.softcap, entry.dropout)
        shape = (Q.shape[0], Q.shape[1], Q.shape[2], K.shape[2])
        mask = None if entry.mask is None else mask_from_dict(entry.mask, self.tensors, shape)
        bias = None if entry.bias is None else bias_from_dict(entry.bias, self.tensors, shape)
        check_shape("lse", saved["lse"], shape[:3])
        if not 0 <= entry.seed < 2**63:
            raise Misfit(f"a seed is between 0 and 2**63, but got {entry.seed}")
        problem = Problem(Q, K, V, mask, bias, entry.scale, entry.softcap, entry.dropout, entry.seed)
        joined = read_joined_output(typed, shape[0], shape[2], shape[1] * V.shape[3])
        if joined is None:
            check_shape("output", typed.get("output"), (*shape[:3], V.shape[3]))
        output = typed["output"] if joined is None else None
        weight_mask = None if entry.zeroed is None else mask_from_dict(entry.zeroed, self.tensors, shape)
        sight = Sight(problem, output, saved["lse"], joined, entry.unproved, weight_mask)
        if entry.keys is not None:
            ids = (id(all_K), id(all_V))
            history = self.histories.setdefault(ids, KVHistory(all_K, all_V, entry.fixed))
            sight.kv_slice = history.slice_for(problem, first)
        return sight

    def read_stats_only(self, entry: SightEntry) -> StatsOnlySight:
        """An attention of which only statistics were kept."""
        saved = self.entry_tensors(entry, dict.fromkeys((*STATISTICS, "lse"), 3))
        batch, heads, queries = rows = tuple(saved["lse"].shape)
        for field in ("entropy", "peak", "distance"):
            check_shape(field, saved[field], rows)
        keys = saved["received"].shape[2]
        check_shape("received", saved["received"], (batch, heads, keys))
        try:
            difference, tolerance = (float(number) for number in entry.proof or ())
        except ValueError as error:
            raise Misfit(f"{entry.name!r:.60} has no receipt") from error
        statistics = Statistics(*(saved[field] for field in STATISTICS))
        receipt = Receipt(difference, tolerance, entry.unproved, entry.part)
        return StatsOnlySight.from_values((batch, heads, queries, keys), saved["lse"], statistics, receipt)


def step_slice(K: Tensor, V: Tensor, keys: tuple[int, int] | None) -> tuple[int, Tensor, Tensor]:
    """Where the keys of one step begin among those of all steps, and the step's own keys and values."""
    if keys is None:
        return 0, K, V
    first, count = keys
    if first < 0 or count < 0 or first + count > min(K.shape[2], V.shape[2]):
        raise Misfit(f"keys {first} to {first + count} are named, but there are {min(K.shape[2], V.shape[2])}")
    return first, K[:, :, first : first + count], V[:, :, first : first + count]


def read_joined_output(tensors: dict[str, Tensor], batch: int, token: int, width: int) -> JoinedOutput | None:
    """What the model used instead of an output per head; `width` is that of all heads together."""
    output = tensors.get("joined")
    if output is None:
        return None
    d_out = output.shape[2]
    check_shape("W_O", tensors.get("W_O"), (d_out, width))
    check_shape("joined", output, (batch, token, d_out))
    for field, shape in (("b_O", (d_out,)), ("real", (batch, token))):
        if field in tensors:
            check_shape(field, tensors[field], shape)
    return JoinedOutput(tensors["W_O"], tensors.get("b_O"), output, tensors.get("real"))


def check_shape(field: str, x: Tensor | None, shape: tuple[int, ...]) -> None:
    if x is None or tuple(x.shape) != shape:
        raise Misfit(f"{field} should have the shape {shape}, but it is {None if x is None else tuple(x.shape)}")
