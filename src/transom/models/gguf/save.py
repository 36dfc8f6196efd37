"""Models of Transom's as GGUF files, which llama.cpp runs; written by the package `gguf`, and read again to be sure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from transom.files.atomic_files import PARTIAL, fsync, temporary_path, write_errors_as_misfit
from transom.models.config import Config
from transom.models.config_match import check_config_match
from transom.models.gguf.architectures import ARCHITECTURES, Architecture, read_settings
from transom.models.gguf.header import read_header
from transom.models.gguf.load import GgufTensors, import_gguf
from transom.models.hugging_face.convert import OF_TRAINING, OnTensor, choose_family, join_tensors, normal_form
from transom.models.hugging_face.family import Family
from transom.models.model import Model
from transom.names import Misfit

TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
# What llama.cpp computes in a block, beyond what its settings say: an activation, and a scaling of rotary positions.
ACTIVATION = {"gpt2": ("activation_function", "gelu_new")}
SCALINGS = ("default", "linear")


class GgufParts(NamedTuple):
    """A model in Hugging Face's words: what is written to a file."""

    family: Family
    config: Config
    settings: dict[str, Any]
    tensors: dict[str, Tensor]


def to_gguf(
    model: Model,
    path: str | Path,
    dtype: torch.dtype = torch.float32,
    fields: Mapping[str, Any] | None = None,
    on_tensor: OnTensor | None = None,
) -> str:
    """Write a decoder as a GGUF file, which appears whole or not at all; returns the name of its architecture.

    dtype      of the matrices; norms and biases are always float32
    fields     further metadata, such as those of the tokenizer
    """
    path, parts = Path(path), find_parts(model)
    partial = temporary_path(path, PARTIAL)
    with write_errors_as_misfit(path):
        try:
            write(partial, parts, TYPES[dtype], fields or {}, on_tensor)
            check_written(partial, parts, TYPES[dtype])
            fsync(partial)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    return parts.family.name


def find_parts(model: Model) -> GgufParts:
    """The model as one of the architectures; what llama.cpp would compute otherwise is an error."""
    if model.kind != "decoder":
        raise Misfit(f"GGUF files of Transom's hold a decoder, but this is an {model.kind}; export it to a folder")
    check_config_match(model)
    reasons = list[str]()
    for name in ARCHITECTURES:
        try:
            family, config, parameters = choose_family(model, name)
        except Misfit as misfit:
            reasons.append(str(misfit))
            continue
        settings = family.write(config)
        check_known(name, settings)
        return GgufParts(family, config, settings, join_tensors(family, config, parameters))
    raise Misfit(f"GGUF files hold {', '.join(ARCHITECTURES)}, but this model is none of them: {reasons[0]}")


def check_known(name: str, settings: Mapping[str, Any]) -> None:
    """Raise an error for a setting that a GGUF file of Transom's cannot say."""
    field, value = ACTIVATION.get(name, ("hidden_act", None))
    if value is not None and settings[field] != value:
        raise Misfit(
            f"llama.cpp computes {name} with {value}, but this model has {settings[field]!r}; export it to a folder"
        )
    scaling = settings.get("rope_parameters", {}).get("rope_type", "default")
    if scaling not in SCALINGS:
        raise Misfit(
            f"GGUF files of Transom's have rotary positions scaled by {' or '.join(SCALINGS)}, but this model's are"
            f" {scaling!r}; export it to a folder"
        )


def write(path: Path, parts: GgufParts, kind: str, fields: Mapping[str, Any], on_tensor: OnTensor | None) -> None:
    gguf, architecture = import_gguf(path), ARCHITECTURES[parts.family.name]
    writer = gguf.GGUFWriter(str(path), parts.family.name)
    try:
        for name, value in (model_fields(parts, architecture) | dict(fields)).items():
            add_field(writer, name, value)
        names = {theirs: ours for ours, theirs in architecture.names.items()}
        for number, (name, tensor) in enumerate(parts.tensors.items(), 1):
            stored = rename_back(name, names)
            numbers = architecture.arrange_back(stored, tensor, parts.settings).detach().float().contiguous().numpy()
            of = gguf.GGMLQuantizationType[kind if numbers.ndim == 2 else "F32"]
            writer.add_tensor(stored, gguf.quants.quantize(numbers, of), raw_dtype=of)
            if on_tensor is not None:
                on_tensor(number, len(parts.tensors))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def model_fields(parts: GgufParts, architecture: Architecture) -> dict[str, Any]:
    """The metadata of the model: its sizes."""
    settings, name = dict(parts.settings), parts.family.name
    rope = settings.get("rope_parameters", {})
    settings["rope_theta"] = rope.get("rope_theta")
    found = {f"{name}.{key}": settings.get(theirs) for key, theirs in architecture.fields.items()}
    if rope:
        found |= {f"{name}.rope.dimension_count": settings["head_dim"]}
        found |= {f"{name}.attention.value_length": settings["head_dim"]}
    if rope.get("rope_type") == "linear":
        found |= {f"{name}.rope.scaling.type": "linear", f"{name}.rope.scaling.factor": float(rope["factor"])}
    found[f"{name}.vocab_size"] = settings["vocab_size"]
    return {key: value for key, value in found.items() if value is not None}


def add_field(writer: Any, name: str, value: Any) -> None:
    """A value of the metadata, in the type that llama.cpp expects."""
    if isinstance(value, bool):
        writer.add_bool(name, value)
    elif isinstance(value, int):
        writer.add_uint32(name, value)
    elif isinstance(value, float):
        writer.add_float32(name, value)
    elif isinstance(value, str):
        writer.add_string(name, value)
    else:
        writer.add_array(name, list(value))


def rename_back(name: str, names: Mapping[str, str]) -> str:
    """The name of one of Hugging Face's tensors in a GGUF file."""
    stem, _, ending = name.rpartition(".")
    layer = next((part for part in stem.split(".") if part.isdigit()), None)
    general = stem if layer is None else stem.replace(f".{layer}.", ".{i}.", 1)
    if general not in names:
        raise Misfit(f"llama.cpp has no place for {name!r}; export the model to a folder")
    return f"{names[general].replace('{i}', layer or '')}.{ending}"


def check_written(path: Path, parts: GgufParts, kind: str) -> None:
    """Read the file again by Transom's own reader, and compare every setting and every number."""
    header = read_header(path)
    settings = read_settings(header, str(path))
    tensors = GgufTensors(path, header, settings)
    again = parts.family.read_config(settings, tensors)
    old, new = (msgspec.structs.asdict(normal_form(config)) for config in (parts.config, again))
    unsaid = OF_TRAINING | {"padding"}
    differing = [name for name in old if name not in unsaid and not same_setting(old[name], new[name])]
    if differing:
        name = differing[0]
        raise Misfit(f"a GGUF file would have {name}={new[name]!r} for {old[name]!r}; export the model to a folder")
    dtype = next(dtype for dtype, name in TYPES.items() if name == kind)
    for name, tensor in parts.tensors.items():
        expected = tensor.detach().to(dtype if tensor.dim() == 2 else torch.float32).float()
        if not torch.equal(tensors[name], expected):
            raise Misfit(f"{name!r} was not read from the GGUF file as it was written; report it")


def same_setting(old: Any, new: Any) -> bool:
    """Whether two settings are the same; the file has fractions in 32 bits."""
    if isinstance(old, float) and isinstance(new, float):
        return np.float32(old) == np.float32(new)
    return bool(old == new)
