"""The folder of a model: the names of its files, and checks before it is loaded or replaced."""

from pathlib import Path

import torch

from transom.files.atomic_files import MANIFEST, check_manifest_entry, read_manifest
from transom.files.model_paths import check_model_folder
from transom.files.strict_settings import suggest
from transom.files.tokenizer_files import BESIDE, TOKENIZER
from transom.models.quantization import find_scales
from transom.models.safetensors_files import DTYPES, INDEX, SINGLE, TensorInfo, find_shards, read_json, read_tensor_info
from transom.names import Misfit

FORMAT = 1
CONFIG, README, GENERATION = "config.json", "README.md", "generation_config.json"
SHARD_BYTES = 2**31
FILES = {CONFIG, README, TOKENIZER, *BESIDE, GENERATION, MANIFEST, SINGLE, INDEX}


def check_replaceable(folder: Path) -> None:
    """A folder that is replaced may hold a model and nothing else, so that nothing else is lost."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise Misfit(f"{folder} should become a folder, but there is a file of that name; choose another name")
    for path in sorted(folder.iterdir()):
        is_shard = path.name.startswith("model-") and path.name.endswith(".safetensors")
        if path.name not in FILES and not is_shard:
            raise Misfit(f"{folder} holds {path.name!r}, which is no part of a model; choose a new or an empty folder")


def read_config_header(folder: Path) -> dict[str, object]:
    """The settings in config.json, after a check that it is Transom's; "model" is the kind of model."""
    path = folder / CONFIG
    check_model_folder(folder, CONFIG)
    if (folder / MANIFEST).is_file() and (entry := read_manifest(folder / MANIFEST).files.get(CONFIG)):
        check_manifest_entry(path, entry)
    settings = read_json(path)
    if "format" not in settings or not isinstance(settings.get("model"), str):
        raise Misfit(f"{path} should name its format and model, but it does not; is it a model of another library?")
    if settings.pop("format") != FORMAT:
        raise Misfit(f"{path} should have format {FORMAT}, but it has another; update Transom")
    return settings


def match_tensors(folder: Path, shapes: dict[str, torch.Size], dtype: torch.dtype | None) -> dict[str, list[str]]:
    """Which file holds which tensors, after a check that names, shapes and dtypes are those of the parameters.

    A matrix in int8 must have its scales in the same file.
    """
    files: dict[str, list[str]] = {}
    for file, names in find_shards(folder).items():
        infos = read_tensor_info(folder / file)
        if names is not None and set(names) != set(infos):
            name = sorted(set(names) ^ set(infos))[0]
            raise Misfit(f"{folder / INDEX} and {file} disagree on {name!r}; take another copy")
        scales = find_scales(folder / file, infos, shapes)
        infos = {name: info for name, info in infos.items() if name not in scales}
        files[file] = list(infos)
        if unknown := [name for name in infos if name not in shapes]:
            way_out = suggest(unknown[0], set(shapes) - set(infos))
            raise Misfit(f"{folder / file} holds {and_more(unknown)}, which the model does not have; {way_out}")
        for name, info in infos.items():
            # The vectors of a file with int8 matrices are in float32, whatever the model will compute in.
            whole = bool(scales) and info.dtype == "F32" and dtype is not None
            check_tensor(folder / file, name, info, shapes[name], torch.float32 if whole else dtype)
    in_files = {name for names in files.values() for name in names}
    if missing := [name for name in shapes if name not in in_files]:
        raise Misfit(f"{folder} should hold {and_more(missing)}, but it does not; does {CONFIG} belong to it?")
    return files


def and_more(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    return repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def check_tensor(path: Path, name: str, info: TensorInfo, shape: torch.Size, dtype: torch.dtype | None) -> None:
    """A tensor has the shape of its parameter, and its dtype or, if the caller gave one, one that widens to it."""
    if info.shape != tuple(shape):
        raise Misfit(
            f"{path} holds {name!r} as {info.shape}, but the model has {tuple(shape)}; does config.json belong to it?"
        )
    expected, found = dtype or torch.float32, DTYPES.get(info.dtype)
    if found is None:
        raise Misfit(f"{path} holds {name!r} in {info.dtype}, but Transom reads {', '.join(DTYPES)}; convert it")
    wider = torch.promote_types(found, expected)
    if found != expected and (dtype is None or wider != expected):
        raise Misfit(
            f"{path} holds {name!r} in {found}, but the parameters are {expected}; give dtype={wider} to load it so"
        )
