"""Named tensors in safetensors files; a file's header is checked before anything is loaded."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from transom.files import safetensors_header
from transom.files.atomic_files import check_plain_name, write_file
from transom.files.model_paths import check_no_pickle
from transom.files.strict_settings import LONGEST_JSON, parse_json_object
from transom.names import Misfit

HEADER_BYTES = 2**22  # a header of 20 MB took 600 MB once parsed
SCALE = ".int8_scale"  # the scales of an int8 matrix W are in a tensor of this name after the name of W
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I8": torch.int8}


class TensorInfo(msgspec.Struct, frozen=True):
    """What a header says about one tensor."""

    dtype: str
    shape: tuple[int, ...]


def save_tensors(folder: Path, tensors: Mapping[str, Tensor], shard_bytes: int) -> None:
    """Save one file, or several of about `shard_bytes` and an index that says which file holds which tensor."""
    shards = list(split_shards(tensors, shard_bytes))
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        name = SINGLE if len(shards) == 1 else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_file(folder / name, save(shard, metadata={"format": "pt"}))
        weight_map |= dict.fromkeys(shard, name)
    if len(shards) > 1:
        size = sum(tensor.nbytes for tensor in tensors.values())
        write_json(folder / INDEX, {"metadata": {"total_size": size}, "weight_map": weight_map})


def split_shards(tensors: Mapping[str, Tensor], shard_bytes: int) -> Iterator[dict[str, Tensor]]:
    """The tensors in their order, in groups of at most `shard_bytes`; scales stay with their matrix before them."""
    shard: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        matrix = name.endswith(SCALE) and name.removesuffix(SCALE) in shard
        if shard and not matrix and sum(earlier.nbytes for earlier in shard.values()) + tensor.nbytes > shard_bytes:
            yield shard
            shard = {}
        shard[name] = tensor.detach().cpu().contiguous()
    yield shard


def find_shards(folder: Path) -> Mapping[str, list[str] | None]:
    """The files of a model's parameters, each with the names it must hold; None for the single file."""
    if (folder / SINGLE).is_file():
        return {SINGLE: None}
    path = folder / INDEX
    if not path.is_file():
        check_no_pickle(folder)
        raise Misfit(f"{folder} should hold {SINGLE}, but it does not; is the copy complete?")
    weight_map = read_json(path, HEADER_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise Misfit(f"{path} should say in weight_map which file holds what, but it does not; take another copy")
    shards: dict[str, list[str]] = {}
    for name, file in weight_map.items():
        check_plain_name(path, file)
        if not (folder / file).is_file():
            raise Misfit(f"{path} names {file!r}, but it is not in the folder; is the copy complete?")
        shards.setdefault(file, []).append(name)
    return shards


def read_tensor_info(path: Path) -> dict[str, TensorInfo]:
    """The tensors that a safetensors file says it holds, without loading any of them."""
    try:
        header = safetensors_header.read_header(path, HEADER_BYTES)
        infos = {name: msgspec.convert(entry, TensorInfo) for name, entry in header.items() if name != "__metadata__"}
    except msgspec.ValidationError as error:
        raise Misfit(f"{path} cannot be loaded: its header does not fit ({error}); take another copy") from error
    except Misfit as error:
        raise Misfit(f"{path} cannot be loaded: {error}; take another copy") from error
    list(load_tensors(path, []))  # which checks that the sizes in the header are those of the file
    return infos


def load_tensors(path: Path, names: list[str]) -> Iterator[tuple[str, Tensor]]:
    """Load the tensors of these names, one after another."""
    try:
        with safe_open(path, framework="pt") as file:
            for name in names:
                yield name, file.get_tensor(name)
    except SafetensorError as error:
        raise Misfit(f"{path} cannot be read ({error}); take another copy") from error


def read_json(path: Path, most: int = LONGEST_JSON) -> dict[str, object]:
    """The object in a JSON file; a file of more than `most` bytes is refused before it is read."""
    size = path.stat().st_size
    if size > most:
        raise Misfit(f"{path} may have {most} bytes, but it has {size}; is it another file?")
    return parse_json_object(path.read_bytes(), str(path), most)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object as indented JSON."""
    write_file(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
