"""Tensors in safetensors files: written whole, and looked at before they are believed."""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from transom.models.durable import write_file
from transom.names import Misfit

# A header of 20 MB takes 600 MB to read, so it is measured before the library sees it.
LONGEST_HEADER = 2**22
MOST_TENSORS = 2**15


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, each with its own memory, whatever device or layout they have."""
    whole: dict[str, Tensor] = {}
    memories = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        memory = own.untyped_storage().data_ptr()
        whole[name] = own.clone() if memory in memories else own
        memories.add(memory)
    write_file(path, save(whole))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file, in memory of their own."""
    check_header(path)
    try:
        return {name: tensor.clone() for name, tensor in load_file(path).items()}
    except SafetensorError as error:
        raise Misfit(f"{path} must be a safetensors file, but it is not: {error}; take another copy of it") from error


def check_header(path: Path) -> None:
    """A header that is there, of a size that tensors need, and with no tensor twice."""
    way_out = "take another copy of it"
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = path.stat().st_size
            if not 0 < length <= min(LONGEST_HEADER, size - 8):
                raise Misfit(
                    f"{path} must start with a header of at most {LONGEST_HEADER} bytes, but {length} are announced"
                    f" in a file of {size}; {way_out}"
                )
            header = json.loads(file.read(length), object_pairs_hook=tuple)
    except OSError as error:
        raise Misfit(
            f"{path} must be a safetensors file, but it cannot be read: {error.strerror}; {way_out}"
        ) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, Misfit):
            raise
        raise Misfit(f"{path} must start with a header in JSON, but it does not: {error}; {way_out}") from error
    if not isinstance(header, tuple):
        raise Misfit(f"{path} must start with a JSON object, but it starts with a {type(header).__name__}; {way_out}")
    names = [name for name, _ in header]
    if len(names) > MOST_TENSORS or len(set(names)) < len(names):
        raise Misfit(
            f"{path} must hold at most {MOST_TENSORS} tensors, each once, but it lists {len(names)},"
            f" {len(set(names))} of them different; {way_out}"
        )
