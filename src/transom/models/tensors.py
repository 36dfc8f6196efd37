"""Named tensors in safetensors files: what a file says it holds is checked before any of it is loaded."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from transom.files import headers
from transom.files.durable import check_plain, write_file
from transom.files.strict import json_object
from transom.names import Misfit

HEADER_BYTES = 2**22  # a header of 20 MB was seen to take 600 MB once parsed
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Held(msgspec.Struct, frozen=True):
    """What a header says of one tensor."""

    dtype: str
    shape: tuple[int, ...]


def write(folder: Path, tensors: Mapping[str, Tensor], shard_bytes: int) -> None:
    """One file, or several of about `shard_bytes` and an index that says which holds what."""
    shards = list(split(tensors, shard_bytes))
    if len(shards) == 1:
        write_file(folder / WHOLE, save(shards[0], metadata={"format": "pt"}))
        return
    places: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_file(folder / name, save(shard, metadata={"format": "pt"}))
        places |= dict.fromkeys(shard, name)
    size = sum(tensor.nbytes for tensor in tensors.values())
    index = msgspec.json.encode({"metadata": {"total_size": size}, "weight_map": places})
    write_file(folder / INDEX, msgspec.json.format(index, indent=2) + b"\n")


def split(tensors: Mapping[str, Tensor], shard_bytes: int) -> Iterator[dict[str, Tensor]]:
    """The tensors in their order, cut before the sum of their sizes goes beyond `shard_bytes`."""
    shard: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if shard and sum(held.nbytes for held in shard.values()) + tensor.nbytes > shard_bytes:
            yield shard
            shard = {}
        shard[name] = tensor.detach().cpu().contiguous()
    yield shard


def files(folder: Path) -> dict[str, list[str] | None]:
    """The files that hold the parameters, each with the names it must hold; None for the one that holds all."""
    if (folder / WHOLE).is_file():
        return {WHOLE: None}
    path = folder / INDEX
    if not path.is_file():
        raise Misfit(f"{folder} should hold {WHOLE}, but it does not; is the copy complete?")
    check_size(path, HEADER_BYTES)
    places = json_object(path.read_bytes(), str(path), HEADER_BYTES).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise Misfit(f"{path} should say in weight_map which file holds what, but it does not; take another copy")
    found: dict[str, list[str] | None] = {}
    for tensor, name in places.items():
        check_plain(path, name)
        if not (folder / name).is_file():
            raise Misfit(f"{path} names {name!r}, but it is not in the folder; is the copy complete?")
        of_file = found.setdefault(name, [])
        assert of_file is not None
        of_file.append(tensor)
    return found


def header(path: Path) -> dict[str, Held]:
    """What a safetensors file says it holds, without loading any of it."""
    try:
        found = headers.header(path, HEADER_BYTES)
        entries = {name: msgspec.convert(entry, Held) for name, entry in found.items() if name != "__metadata__"}
    except msgspec.ValidationError as error:
        raise Misfit(f"{path} cannot be believed: its header does not fit ({error}); take another copy") from error
    except Misfit as error:
        raise Misfit(f"{path} cannot be believed: {error}; take another copy") from error
    list(loaded(path, []))  # which finds out whether the sizes told are those of the file
    return entries


def loaded(path: Path, names: list[str]) -> Iterator[tuple[str, Tensor]]:
    """The named tensors of a file, one after another."""
    try:
        with safe_open(path, framework="pt") as file:
            for name in names:
                yield name, file.get_tensor(name)
    except SafetensorError as error:
        raise Misfit(f"{path} cannot be read ({error}); take another copy") from error


def check_size(path: Path, most: int) -> None:
    """Complain about a file of text that is too long to be what its name says, before it is read."""
    size = path.stat().st_size
    if size > most:
        raise Misfit(f"{path} may have {most} bytes, but it has {size}; is it another file?")
