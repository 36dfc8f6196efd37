"""SHA-256 sums of a safetensors file, kept in its own header: a flipped bit in a tensor or in the text is reported."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from transom.files.documents import decode_json
from transom.names import Misfit

SUMS = "sha256"  # the entry of the header's text that holds the sums
LONGEST_SUMS = 2**24  # bytes, as many as a header may have
DAMAGED = "it was damaged"


def tensor_sum(array: Any) -> str:
    """The sum of a numpy array: its dtype and shape, then its bytes."""
    found = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    found.update(array.reshape(-1).view("u1"))
    return found.hexdigest()


def text_sum(text: Mapping[str, str]) -> str:
    """The sum of everything in the header's text but the sums themselves."""
    return hashlib.sha256(json.dumps(sorted(text.items())).encode()).hexdigest()


def add_sums(text: Mapping[str, str], arrays: Mapping[str, Any]) -> dict[str, str]:
    """The header's text with the sums of itself and of every tensor."""
    sums = {"text": text_sum(text), "tensors": {name: tensor_sum(array) for name, array in arrays.items()}}
    return {**text, SUMS: json.dumps(sums)}


class Checksums:
    """The sums of one file; a file of version 0.1.0 has none, and then nothing is compared."""

    def __init__(self, tensors: Mapping[str, object] | None) -> None:
        self.tensors = tensors

    @classmethod
    def read(cls, text: Mapping[str, object]) -> "Checksums":
        """The sums that the header's text holds, once they are those of the text itself."""
        if SUMS not in text:
            return cls(None)
        try:
            sums = decode_json(str(text[SUMS]), most=LONGEST_SUMS)
            own, tensors = sums["text"], dict(sums["tensors"])
        except (ValueError, TypeError, KeyError) as error:
            raise Misfit("its checksums cannot be read") from error
        found = text_sum({name: str(value) for name, value in text.items() if name != SUMS})
        if own != found:
            raise Misfit(f"its header must have SHA-256 {own!s:.64}, but it has {found}: {DAMAGED}")
        return cls(tensors)

    def load(self, file: Any, name: str) -> Any:
        """A tensor of an open safetensors file of torch, once it is found to be the one saved under this name."""
        tensor = file.get_tensor(name)
        if "bfloat16" in str(tensor.dtype) or "float8" in str(tensor.dtype):  # numpy has none
            raise Misfit(f"tensor {name!r:.60} is of {tensor.dtype}, which is never saved")
        if self.tensors is not None:
            expected, found = self.tensors.get(name), tensor_sum(tensor.numpy())
            if expected != found:
                raise Misfit(f"tensor {name!r:.60} must have SHA-256 {expected!s:.64}, but it has {found}: {DAMAGED}")
        return tensor
