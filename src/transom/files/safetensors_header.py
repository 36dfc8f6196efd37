"""The header of a safetensors file: checked before anything of the file is loaded; it may hold SHA-256 checksums."""

import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transom.files.documents import MalformedDocument, decode_distinct_json, decode_json
from transom.names import Misfit

MOST_TENSORS = 100_000
CHECKSUMS = "sha256"  # the entry of the header's metadata that holds them
LONGEST_CHECKSUMS = 2**24  # bytes, as many as a header may have


def read_header(path: Path, max_bytes: int) -> dict[str, Any]:
    """The header of a safetensors file; no more than `max_bytes` of it are parsed, which takes 30 bytes for each.

    An error says "its header", without the path: the caller knows what the file should have been.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise Misfit("it is not a regular file")
    size = status.st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise Misfit(f"its header is cut off at {size} bytes")
        if length > max_bytes:
            raise Misfit(f"its header has {length} bytes, but at most {max_bytes} are allowed")
        content = file.read(length)
    try:
        header = decode_distinct_json(content, max_bytes=max_bytes)
    except MalformedDocument as error:
        raise Misfit(f"its header cannot be read ({error})") from error
    if not isinstance(header, dict):
        raise Misfit(f"its header should be a JSON object, but it is a {type(header).__name__}")
    tensors = len(header.keys() - {"__metadata__"})
    if tensors > MOST_TENSORS:
        raise Misfit(f"it holds {tensors} tensors, but at most {MOST_TENSORS} are allowed")
    return header


def tensor_checksum(array: Any) -> str:
    """The checksum of a numpy array: of its dtype and shape, then of its bytes."""
    sha256 = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    sha256.update(array.reshape(-1).view("u1"))
    return sha256.hexdigest()


def metadata_checksum(metadata: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(metadata.items())).encode()).hexdigest()


def add_checksums(metadata: Mapping[str, str], arrays: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a header with the checksums of itself and of every tensor."""
    tensors = {name: tensor_checksum(array) for name, array in arrays.items()}
    return {**metadata, CHECKSUMS: json.dumps({"text": metadata_checksum(metadata), "tensors": tensors})}


class Checksums:
    """The checksums of one file; a file of version 0.1.0 has none, and then nothing is compared."""

    def __init__(self, tensors: Mapping[str, object] | None) -> None:
        self.tensors = tensors

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> "Checksums":
        """The checksums in a header's metadata, after the metadata itself was checked."""
        if CHECKSUMS not in metadata:
            return cls(None)
        try:
            checksums = decode_json(str(metadata[CHECKSUMS]), max_bytes=LONGEST_CHECKSUMS)
            expected, tensors = checksums["text"], dict(checksums["tensors"])
        except (ValueError, TypeError, KeyError) as error:
            raise Misfit("its checksums cannot be read") from error
        actual = metadata_checksum({name: str(value) for name, value in metadata.items() if name != CHECKSUMS})
        if expected != actual:
            raise Misfit(f"its header must have SHA-256 {expected!s:.64}, but it has {actual}: it was damaged")
        return cls(tensors)

    def load(self, file: Any, name: str) -> Any:
        """The tensor of this name in an open safetensors file (of torch), after its checksum was compared."""
        tensor = file.get_tensor(name)
        if "bfloat16" in str(tensor.dtype) or "float8" in str(tensor.dtype):  # numpy has neither
            raise Misfit(f"tensor {name!r:.60} is of {tensor.dtype}, which is never saved")
        if self.tensors is not None:
            expected, actual = self.tensors.get(name), tensor_checksum(tensor.numpy())
            if expected != actual:
                raise Misfit(
                    f"tensor {name!r:.60} must have SHA-256 {expected!s:.64}, but it has {actual}: it was damaged"
                )
        return tensor
