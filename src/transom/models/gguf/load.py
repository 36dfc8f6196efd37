"""Models in GGUF files as Transom's; the numbers are dequantised by the package `gguf`."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transom.models.gguf.architectures import ARCHITECTURES, read_settings, rename
from transom.models.gguf.header import GgufHeader, GgufTensor, read_header
from transom.models.hugging_face.convert import OnTensor, convert_tensors
from transom.models.hugging_face.tensor_names import TensorSource
from transom.models.model import Model
from transom.names import Misfit

# Special tokens of generation, by their names in the metadata.
TOKENS = {"eos_token_id": "tokenizer.ggml.eos_token_id", "pad_token_id": "tokenizer.ggml.padding_token_id"}


def from_gguf(
    path: str | Path,
    dtype: torch.dtype = torch.float32,
    on_tensor: OnTensor | None = None,
    header: GgufHeader | None = None,
) -> Model:
    """The model in a GGUF file; quantised numbers are multiplied out, and computed with in `dtype`.

    header   of the file, if it was read already
    """
    path = Path(path)
    header = header or read_header(path)
    settings = read_settings(header, str(path))
    generation = {name: header.metadata[key] for name, key in TOKENS.items() if key in header.metadata}
    return convert_tensors(GgufTensors(path, header, settings), settings, generation, None, dtype, on_tensor)


class GgufTensors(TensorSource):
    """The tensors of a GGUF file, each read and dequantised when it is asked for."""

    def __init__(self, path: Path, header: GgufHeader, settings: dict[str, Any]) -> None:
        self.where, self.path, self.settings, self.stored = str(path), path, settings, header.tensors
        self.architecture = ARCHITECTURES[settings["model_type"]]
        self.names = {rename(name, self.architecture): name for name in header.tensors}
        if len(self.names) < len(header.tensors):
            raise Misfit(f"{path} names a tensor twice, in two ways; take another copy")
        self.shapes = {name: self.arranged_shape(stored) for name, stored in self.names.items()}

    def arranged_shape(self, stored: str) -> tuple[int, ...]:
        empty = torch.empty(self.stored[stored].shape, device="meta")
        return tuple(self.architecture.arrange(stored, empty, self.settings).shape)

    def __getitem__(self, name: str) -> Tensor:
        stored = self.names[name]
        tensor = dequantize(self.path, stored, self.stored[stored])
        return self.architecture.arrange(stored, tensor, self.settings)


def dequantize(path: Path, name: str, tensor: GgufTensor) -> Tensor:
    """The numbers of a tensor in float32."""
    with path.open("rb") as file:
        file.seek(tensor.offset)
        content = file.read(tensor.size)
    if len(content) < tensor.size:
        raise Misfit(f"{path} ends inside {name!r}; take another copy")
    if tensor.type.name == "F32":
        numbers = np.frombuffer(content, dtype="<f4")
    else:
        gguf = import_gguf(path)
        rows = np.frombuffer(content, dtype=np.uint8).reshape(
            -1, tensor.shape[-1] // tensor.type.block * tensor.type.size
        )
        numbers = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType[tensor.type.name])
    return torch.from_numpy(np.array(numbers, dtype=np.float32)).reshape(tensor.shape)


def import_gguf(path: Path) -> Any:
    try:
        import gguf
    except ImportError as error:
        raise Misfit(
            f"{path} is a GGUF file, which needs the extra gguf; install it with pip install 'transom[gguf]'"
        ) from error
    return gguf
