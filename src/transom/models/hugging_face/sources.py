"""Hugging Face's side of a conversion: a model in memory, or a folder with config.json and safetensors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from transom.files.model_paths import check_model_folder
from transom.models.folder import CONFIG, GENERATION
from transom.models.hugging_face.tensor_names import TensorSource
from transom.models.safetensors_files import DTYPES, find_shards, load_tensors, read_json, read_tensor_info
from transom.names import Misfit

NO_NUMBERS = ("BOOL", "U8", "I8", "I16", "I32", "I64")  # dtypes of buffers, which are no parameters
POOLING = "1_Pooling"  # the folder in which sentence-transformers keeps it
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}


class ModelTensors(TensorSource):
    """The tensors of a model in memory."""

    def __init__(self, model: nn.Module) -> None:
        self.where = type(model).__name__
        self.tensors: Mapping[str, Tensor] = {
            name: tensor for name, tensor in model.state_dict().items() if tensor.is_floating_point()
        }
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name].detach()


class FolderTensors(TensorSource):
    """The tensors of a folder, each read from its file when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self.files: dict[str, tuple[Path, str]] = {}
        self.dtypes: dict[str, str] = {}
        self.shapes = {}
        for file in find_shards(folder):
            for name, info in read_tensor_info(folder / file).items():
                if info.dtype in NO_NUMBERS:
                    continue
                if info.dtype not in DTYPES:
                    raise Misfit(
                        f"{folder / file} holds {name!r} in {info.dtype}, but Transom reads {', '.join(DTYPES)};"
                        " convert it"
                    )
                known = rename_old(name)
                self.files[known], self.shapes[known] = (folder / file, name), info.shape
                self.dtypes[known] = str(DTYPES[info.dtype]).removeprefix("torch.")

    def __getitem__(self, name: str) -> Tensor:
        file, stored_name = self.files[name]
        return next(load_tensors(file, [stored_name]))[1]


class Prefixed(TensorSource):
    """The tensors of a class without a head, by the names that they have in one with a head."""

    def __init__(self, tensors: TensorSource, prefix: str) -> None:
        self.where, self.tensors, self.prefix = tensors.where, tensors, prefix
        self.shapes = {prefix + name: shape for name, shape in tensors.shapes.items()}

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name.removeprefix(self.prefix)]


def with_prefix(tensors: TensorSource, prefix: str) -> TensorSource:
    """The tensors by their names in a class with a head; those of one already have the prefix."""
    has_prefix = any(name.startswith(prefix) for name in tensors.shapes)
    return tensors if has_prefix else Prefixed(tensors, prefix)


def rename_old(name: str) -> str:
    """The name of a tensor in older files, in which norms have gamma and beta."""
    for old, new in OLD_ENDINGS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def is_hugging_face_folder(folder: Path) -> bool:
    """Whether a folder holds a model of Hugging Face's: its config has a model_type, as no config of ours has."""
    check_model_folder(folder, CONFIG)
    return "model_type" in read_json(folder / CONFIG)


def read_source(model_or_folder: Any) -> tuple[TensorSource, dict[str, Any], dict[str, Any]]:
    """The tensors of a model, its config and its generation settings, as they are in its files."""
    if isinstance(model_or_folder, nn.Module):
        config: Any = getattr(model_or_folder, "config", None)
        if not hasattr(config, "to_dict"):
            found = type(model_or_folder).__name__
            raise Misfit(
                f"from_hugging_face takes a model of transformers, or a folder, but got {found}; give one of its models"
            )
        generation = getattr(model_or_folder, "generation_config", None)
        settings: dict[str, Any] = config.to_dict() | {"architectures": [type(model_or_folder).__name__]}
        return ModelTensors(model_or_folder), settings, {} if generation is None else generation.to_dict()
    folder = Path(model_or_folder)
    check_model_folder(folder, CONFIG)
    config = read_json(folder / CONFIG)
    if not isinstance(config.get("model_type"), str):
        raise Misfit(f"{folder / CONFIG} should name its model_type, but it does not; is it a model of Hugging Face's?")
    file = folder / GENERATION
    return FolderTensors(folder), config, read_json(file) if file.is_file() else {}


def read_pooling(model_or_folder: Any) -> str | None:
    """How a folder of sentence-transformers makes one vector of a text; None if it does not say."""
    if isinstance(model_or_folder, nn.Module):
        return None
    file = Path(model_or_folder) / POOLING / CONFIG
    if not file.is_file():
        return None
    chosen = [name for name, value in read_json(file).items() if name.startswith("pooling_mode_") and value is True]
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        raise Misfit(
            f"{file} should pool by the mean or by the first token, but it says {', '.join(chosen) or 'nothing'};"
            " take another model"
        )
    return POOLINGS[chosen[0]]
