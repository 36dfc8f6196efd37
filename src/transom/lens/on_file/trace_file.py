"""A Trace as one safetensors file: numbers as float32 tensors, names, tokens and masks as JSON in its header.

A file from outside is not believed: what it says is held against its size, against itself, and against what an
attention can be, before any of it becomes a Sight. Nothing in it is ever run.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from transom.files import headers
from transom.files.checksums import Checksums, add_sums
from transom.files.documents import decode_json
from transom.files.durable import write_file
from transom.kernels import checks
from transom.kernels.problem import Problem
from transom.lens.glance import Glance
from transom.lens.grids import Grid
from transom.lens.hearing.strands import Strand
from transom.lens.kept import Joined
from transom.lens.on_file.parts_on_file import bias_from, mask_from, of_dtype, plain
from transom.lens.receipt import Receipt
from transom.lens.sight import Sight
from transom.lens.statistics import Statistics
from transom.names import Misfit

FORMAT = "transom trace 1"
HEADER_BYTES = 2**24  # each takes about 30 once parsed
STATISTICS = ("entropy", "peak", "distance", "received")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class SightOnFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One attention: its numbers, and under which names its tensors lie in the file."""

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
    zeroed: dict[str, Any] | None = None  # as a mask: where weights were set to 0 after the softmax
    keys: tuple[int, int] | None = None  # where K and V hold those of other steps too: the first, and how many
    fixed: bool = False  # whether they are those of a cache of fixed size
    proof: tuple[str, str] | None = None  # of a Glance: difference and tolerance; JSON has no infinity
    part: str = ""  # of a Glance: how many rows were tried, where it was not all of them


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The words and the grid of a trace."""

    tokens: list[list[str]] | None
    targets: list[list[str]] | None = None
    grid: Grid | None = None


class TraceOnFile(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the header says beside the tensors."""

    sights: list[SightOnFile]


class Placed:
    """The tensors of a file as they are gathered; one that several attentions share is placed once."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.names: dict[int, str] = {}
        self.strands: dict[int, tuple[Tensor, Tensor]] = {}

    def strand(self, one: Strand) -> tuple[Tensor, Tensor]:
        """All keys and values of a strand, the same tensors each time."""
        if id(one) not in self.strands:
            self.strands[id(one)] = (one.K[:, :, : one.length], one.V[:, :, : one.length])
        return self.strands[id(one)]

    def __call__(self, x: Tensor) -> str:
        if id(x) not in self.names:
            self.names[id(x)] = str(len(self.tensors))
            self.tensors[self.names[id(x)]] = x
        return self.names[id(x)]

    def arrays(self) -> dict[str, Any]:
        return {name: on_file(x).numpy() for name, x in self.tensors.items()}


def on_file(x: Tensor) -> Tensor:
    """Numbers as float32, bools as they are, ids as int64: what can be read without torch."""
    dtype = torch.float32 if x.is_floating_point() else x.dtype if x.dtype == torch.bool else torch.int64
    return x.detach().to("cpu", dtype).contiguous()


def written(path: Path, header: Header, seen: list[tuple[str, Sight]]) -> None:
    """Write the file under a temporary name, and give it its own once it is whole."""
    placed = Placed()
    sights = [told(name, sight, placed) for name, sight in seen]
    trace = TraceOnFile(tokens=header.tokens, targets=header.targets, grid=header.grid, sights=sights)
    arrays = placed.arrays()
    text = add_sums({"format": FORMAT, "trace": msgspec.json.encode(trace).decode()}, arrays)
    write_file(path, save(arrays, metadata=text))


def told(name: str, sight: Sight, place: Placed) -> SightOnFile:
    """One attention as it goes into the file."""
    if isinstance(sight, Glance):
        held = {word: getattr(sight.statistics, word) for word in STATISTICS} | {"lse": sight.lse}
        names = {word: place(x) for word, x in held.items()}
        proof = sight.proof
        numbers = (repr(proof.difference), repr(proof.tolerance))
        return SightOnFile(
            name=name, keep="statistics", tensors=names, proof=numbers, unproved=proof.unproved, part=proof.part
        )
    one = sight.problem
    K, V = (one.K, one.V) if sight.stretch is None else place.strand(sight.stretch.strand)
    held = {"Q": one.Q, "K": K, "V": V, "lse": sight.lse}
    if sight.joined is None:
        held["output"] = sight.output
    else:
        parts = {"W_O": sight.joined.W_O, "b_O": sight.joined.bias, "joined": sight.joined.output}
        held |= {word: x for word, x in (parts | {"real": sight.joined.real}).items() if x is not None}
    return SightOnFile(
        name=name,
        keep="qkv",
        tensors={word: place(x) for word, x in held.items()},
        dtype=next((word for word, dtype in DTYPES.items() if dtype == one.Q.dtype), "float32"),
        scale=one.scale,
        softcap=one.softcap,
        dropout=one.dropout,
        seed=one.seed,
        mask=None if one.mask is None else plain(one.mask, place),
        bias=None if one.bias is None else plain(one.bias, place),
        unproved=sight.unproved,
        zeroed=None if sight.zeroed is None else plain(sight.zeroed, place),
        keys=None if sight.stretch is None else (sight.stretch.first, sight.stretch.keys),
        fixed=sight.stretch is not None and sight.stretch.strand.fixed,
    )


def read(path: Path) -> tuple[Header, list[tuple[str, Sight]]]:
    """What is said of all of them, and name and Sight of each attention."""
    try:
        said, sums = header(path)
        with safe_open(path, framework="pt") as file:
            tensors = Tensors(file, sums)
            seen = [
                (one.name, glance(one, tensors) if one.keep == "statistics" else sight(one, tensors))
                for one in said.sights
            ]
    except OSError as error:
        raise Misfit(f"{path} cannot be read: {error.strerror or error}; is it the right path?") from error
    except (SafetensorError, msgspec.MsgspecError, Misfit) as error:
        raise Misfit(
            f"{path} is no trace that can be believed: {error}; save it again, or take another copy"
        ) from error
    return said, seen


def header(path: Path) -> tuple[TraceOnFile, Checksums]:
    """What the file says of itself, before any tensor is loaded, and the sums that its tensors must have."""
    found = headers.header(path, HEADER_BYTES)
    said = found.get("__metadata__")
    if not isinstance(said, dict) or said.get("format") != FORMAT or not isinstance(said.get("trace"), str):
        raise Misfit(f"its header does not say {FORMAT!r}")
    sums = Checksums.read(said)
    trace = decode_json(said["trace"], TraceOnFile, most=HEADER_BYTES)
    if len(trace.sights) > headers.MOST_TENSORS:
        raise Misfit(f"it tells of {len(trace.sights)} attentions, but {headers.MOST_TENSORS} are the most")
    return trace, sums


class Tensors:
    """The tensors of an open file, each loaded once, and compared with its sum then."""

    def __init__(self, file: Any, sums: Checksums) -> None:
        self.file, self.known, self.sums = file, set(file.keys()), sums
        self.loaded: dict[str, Tensor] = {}
        self.cast: dict[tuple[int, torch.dtype], Tensor] = {}
        self.strands: dict[tuple[int, int], Strand] = {}

    def __call__(self, name: object) -> Tensor:
        if not isinstance(name, str) or name not in self.known:
            raise Misfit(f"it names a tensor {name!r:.60} that it does not hold")
        if name not in self.loaded:
            self.loaded[name] = self.sums.load(self.file, name)
        return self.loaded[name]

    def as_dtype(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """x in the model's dtype; however many attentions name a tensor, it costs memory once."""
        if x.dtype != dtype and (id(x), dtype) not in self.cast:
            self.cast[id(x), dtype] = x.to(dtype)
        return self.cast.get((id(x), dtype), x)

    def strand(self, K: Tensor, V: Tensor, fixed: bool) -> Strand:
        """The strand of these tensors, the same one each time."""
        return self.strands.setdefault((id(K), id(V)), Strand(K, V, fixed))


def held(
    one: SightOnFile, tensors: Tensors, words: dict[str, int], optional: tuple[str, ...] = ()
) -> dict[str, Tensor]:
    """The tensors of one attention: those it must have, each float32 with its number of axes."""
    if not {word for word in words if word not in optional} <= set(one.tensors) <= set(words):
        raise Misfit(f"{one.name!r:.60} should hold {', '.join(words)}, but it holds {', '.join(one.tensors)!r:.60}")
    kinds = {word: torch.bool if word == "real" else torch.float32 for word in words}
    return {word: of_dtype(tensors(name), kinds[word], words[word]) for word, name in one.tensors.items()}


def sight(one: SightOnFile, tensors: Tensors) -> Sight:
    """One attention, once all that it says fits together."""
    sizes = {"Q": 4, "K": 4, "V": 4, "lse": 3, "output": 4, "W_O": 2, "b_O": 1, "joined": 3, "real": 2}
    found = held(one, tensors, sizes, ("output", "W_O", "b_O", "joined", "real"))
    if one.dtype not in DTYPES:
        raise Misfit(f"the dtype is one of {', '.join(DTYPES)}, but got {one.dtype!r:.60}")
    dtype = DTYPES[one.dtype]
    Q, K, V = (tensors.as_dtype(found[word], dtype) for word in "QKV")
    strand = None if one.keys is None else tensors.strand(K, V, one.fixed)
    first, K, V = narrowed(K, V, one.keys)
    checks.check_tensors(Q, K, V)
    checks.check_sizes(Q, K, V)
    checks.check_numbers(one.scale, one.softcap, one.dropout)
    whole = (Q.shape[0], Q.shape[1], Q.shape[2], K.shape[2])
    mask = None if one.mask is None else mask_from(one.mask, tensors, whole)
    bias = None if one.bias is None else bias_from(one.bias, tensors, whole)
    check_shape("lse", found["lse"], whole[:3])
    if not 0 <= one.seed < 2**63:
        raise Misfit(f"a seed is between 0 and 2**63, but got {one.seed}")
    problem = Problem(Q, K, V, mask, bias, one.scale, one.softcap, one.dropout, one.seed)
    joined = joined_of(
        {word: x if x.dtype == torch.bool else tensors.as_dtype(x, dtype) for word, x in found.items()},
        (whole[0], whole[2], whole[1] * V.shape[3]),
    )
    output = None
    if joined is None:
        check_shape("output", found.get("output"), (*whole[:3], V.shape[3]))
        output = tensors.as_dtype(found["output"], dtype)
    zeroed = None if one.zeroed is None else mask_from(one.zeroed, tensors, whole)
    made = Sight(problem, output, found["lse"], joined, one.unproved, zeroed)
    made.stretch = None if strand is None else strand.stretch(problem, first)
    return made


def narrowed(K: Tensor, V: Tensor, keys: tuple[int, int] | None) -> tuple[int, Tensor, Tensor]:
    """Where the keys of one step begin among those of all, and its own keys and values."""
    if keys is None:
        return 0, K, V
    first, count = keys
    if first < 0 or count < 0 or first + count > min(K.shape[2], V.shape[2]):
        raise Misfit(f"keys {first} to {first + count} are named, but there are {min(K.shape[2], V.shape[2])}")
    return first, K[:, :, first : first + count], V[:, :, first : first + count]


def joined_of(found: dict[str, Tensor], sizes: tuple[int, int, int]) -> Joined | None:
    """What the model used in place of an output per head; sizes are batch, token and the width of all heads."""
    if "joined" not in found:
        return None
    W_O, bias, output, real = (found.get(word) for word in ("W_O", "b_O", "joined", "real"))
    assert output is not None
    check_shape("W_O", W_O, (output.shape[2], sizes[2]))
    check_shape("joined", output, (*sizes[:2], output.shape[2]))
    assert W_O is not None
    if bias is not None:
        check_shape("b_O", bias, (output.shape[2],))
    if real is not None:
        check_shape("real", real, sizes[:2])
    return Joined(W_O, bias, output, real)


def glance(one: SightOnFile, tensors: Tensors) -> Glance:
    """One attention of which only statistics were kept."""
    found = held(one, tensors, dict.fromkeys((*STATISTICS, "lse"), 3))
    batch, heads, queries = rows = tuple(found["lse"].shape)
    for word in ("entropy", "peak", "distance"):
        check_shape(word, found[word], rows)
    keys = found["received"].shape[2]
    check_shape("received", found["received"], (*rows[:2], keys))
    try:
        difference, tolerance = (float(number) for number in one.proof or ())
    except ValueError as error:
        raise Misfit(f"{one.name!r:.60} has no receipt") from error
    statistics = Statistics(*(found[word] for word in STATISTICS))
    proof = Receipt(difference, tolerance, one.unproved, one.part)
    return Glance.of((batch, heads, queries, keys), found["lse"], statistics, proof)


def check_shape(word: str, x: Tensor | None, shape: tuple[int, ...]) -> None:
    if x is None or tuple(x.shape) != shape:
        raise Misfit(f"{word} should have the shape {shape}, but it is {None if x is None else tuple(x.shape)}")
