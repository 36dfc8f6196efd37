"""A model as a folder: config.json, model.safetensors, README.md, a manifest, and what belongs to it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec
import torch
from torch import nn

from transom.files.durable import MANIFEST, appearing, check_file, checked, read_manifest, write_file
from transom.files.model_paths import check_model_folder
from transom.files.strict import LONGEST_JSON, json_object, nearest, settings
from transom.models import tensors
from transom.models.config_match import check_config_match
from transom.names import Misfit

# A `transom.models.model.Model`, which imports this module, or one of its classes.
Model = Any
Kind = Any
FORMAT = 1
CONFIG, README, TOKENIZER, GENERATION = "config.json", "README.md", "tokenizer.json", "generation_config.json"
SHARD_BYTES = 2**31
OWN = {CONFIG, README, TOKENIZER, GENERATION, MANIFEST, tensors.WHOLE, tensors.INDEX}


@runtime_checkable
class Saved(Protocol):
    """Something that can write itself to a file."""

    def save(self, path: Any) -> Any: ...


class Numbers(NamedTuple):
    """How the parameters are written."""

    dtype: torch.dtype | None = None
    shard_bytes: int = SHARD_BYTES


def save(model: Model, folder: Path, tokenizer: Saved | None, readme: str | None, numbers: Numbers) -> None:
    """Write a model; the folder appears whole or not at all."""
    check_replaceable(folder)
    check_config_match(model)
    held = {name: parameter.detach().to(numbers.dtype) for name, parameter in named(model)}
    with appearing(folder) as new:
        write_file(
            new / CONFIG, as_json({"format": FORMAT, "model": model.kind} | msgspec.structs.asdict(model.config))
        )
        tensors.write(new, held, numbers.shard_bytes)
        write_file(new / README, (readme if readme is not None else described(model)).encode())
        generation = getattr(model, "generation", None)
        if generation is not None:
            write_file(new / GENERATION, as_json(generation.told()))
        if tokenizer is not None:
            tokenizer.save(new / TOKENIZER)


def named(model: nn.Module) -> Iterable[tuple[str, nn.Parameter]]:
    """Every parameter under its first name: what is tied comes once."""
    return model.named_parameters(remove_duplicate=True)


def as_json(found: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def described(model: Model) -> str:
    """What a folder says of itself when nobody else does."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in msgspec.structs.asdict(model.config).items())
    title = model.kind.replace("_", "–")
    return (
        f"# A Transom {title}\n\n{model.count():,} parameters. Load it with\n\n"
        f"    transom.models.{type(model).__name__}.from_pretrained(folder)\n\n| setting | value |\n|---|---|\n{rows}\n"
    )


def check_replaceable(folder: Path) -> None:
    """A folder that is written anew may hold a model and nothing else: replacing it must not take anything along."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise Misfit(f"{folder} should become a folder, but there is a file of that name; choose another name")
    others = [path.name for path in sorted(folder.iterdir()) if path.name not in OWN and not is_shard(path.name)]
    if others:
        raise Misfit(f"{folder} holds {others[0]!r}, which is no part of a model; choose a new or an empty folder")


def is_shard(name: str) -> bool:
    return name.startswith("model-") and name.endswith(".safetensors")


def load(kind: Kind, folder: Path, dtype: torch.dtype | None) -> Model:
    """The model in a folder, once its config, manifest and tensors are found to fit."""
    found = described_by(folder, kind)
    listed = checked(folder).files if (folder / MANIFEST).is_file() else None
    config = settings(kind.settings, found, str(folder / CONFIG))
    # Built without memory first: a config that promises more than the file holds must not cost anything.
    with torch.device("meta"):
        expected = {name: parameter.shape for name, parameter in named(kind(config))}
    places = matched(folder, expected, dtype)
    if listed is not None and (missing := sorted({CONFIG, *places} - set(listed))):
        raise Misfit(f"{folder / MANIFEST} should list {missing[0]!r}, but it does not; take another copy")
    with torch.random.fork_rng(devices=[]):  # the numbers it starts from are thrown away, and cost the caller none
        model = kind(config).to(dtype or torch.float32)
    fill(dict(named(model)), folder, places)
    told(model, folder)
    return model.eval()


def fill(parameters: dict[str, nn.Parameter], folder: Path, places: dict[str, list[str]]) -> None:
    """Copy the tensors of the files into the parameters of the same names."""
    with torch.no_grad():
        for file, names in places.items():
            for name, tensor in tensors.loaded(folder / file, names):
                parameters[name].copy_(tensor)


def told(model: Model, folder: Path) -> None:
    """Hand a writing model the generation settings of its folder."""
    path, generation = folder / GENERATION, getattr(model, "generation", None)
    if generation is None or not path.is_file():
        return
    tensors.check_size(path, LONGEST_JSON)
    model.generation = settings(type(generation), json_object(path.read_bytes(), str(path)), str(path))


def described_by(folder: Path, kind: Kind | None) -> dict[str, object]:
    """The settings in a folder's config.json, which must be those of this kind of model."""
    found = header_of(folder)
    name = found.pop("model")
    if kind is not None and name != kind.kind:
        raise Misfit(f"{folder} holds a model of kind {name!r}, not {kind.kind!r}; use transom.models.from_pretrained")
    return found


def header_of(folder: Path) -> dict[str, object]:
    """config.json as it stands, once it is known to be one of ours; "model" names the kind."""
    path = folder / CONFIG
    check_model_folder(folder, CONFIG)
    tensors.check_size(path, LONGEST_JSON)
    if (folder / MANIFEST).is_file() and (entry := read_manifest(folder / MANIFEST).files.get(CONFIG)):
        check_file(path, entry)
    found = json_object(path.read_bytes(), str(path))
    if "format" not in found or not isinstance(found.get("model"), str):
        raise Misfit(f"{path} should name its format and model, but it does not; is it a model of another library?")
    if found.pop("format") != FORMAT:
        raise Misfit(f"{path} should have format {FORMAT}, but it has another; update Transom")
    return found


def matched(folder: Path, expected: dict[str, torch.Size], dtype: torch.dtype | None) -> dict[str, list[str]]:
    """Which file holds which tensors, once every name, shape and dtype is found to be as expected."""
    places: dict[str, list[str]] = {}
    for file, names in tensors.files(folder).items():
        held = tensors.header(folder / file)
        places[file] = list(held)
        if names is not None and set(names) != set(held):
            odd = sorted(set(names) ^ set(held))[0]
            raise Misfit(f"{folder / tensors.INDEX} and {file} disagree on {odd!r}; take another copy")
        if odd := [name for name in held if name not in expected]:
            way_out = nearest(odd[0], set(expected) - set(held))
            raise Misfit(f"{folder / file} holds {and_more(odd)}, which the model does not have; {way_out}")
        for name, entry in held.items():
            check_tensor(folder / file, name, entry, expected[name], dtype)
    found = {name for names in places.values() for name in names}
    if odd := [name for name in expected if name not in found]:
        raise Misfit(f"{folder} should hold {and_more(odd)}, but it does not; does {CONFIG} belong to it?")
    return places


def and_more(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    return repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def check_tensor(path: Path, name: str, held: tensors.Held, shape: torch.Size, dtype: torch.dtype | None) -> None:
    """A tensor has the shape of its parameter, and its dtype or, when one was asked for, one that widens to it."""
    if held.shape != tuple(shape):
        raise Misfit(
            f"{path} holds {name!r} as {held.shape}, but the model has {tuple(shape)}; does config.json belong to it?"
        )
    wanted, came = dtype or torch.float32, tensors.DTYPES.get(held.dtype)
    if came is None:
        raise Misfit(
            f"{path} holds {name!r} in {held.dtype}, but Transom reads {', '.join(tensors.DTYPES)}; convert it"
        )
    if came == wanted or (dtype is not None and torch.promote_types(came, wanted) == wanted):
        return
    raise Misfit(
        f"{path} holds {name!r} in {came}, but the parameters are {wanted};"
        f" give dtype={torch.promote_types(came, wanted)} to take it so"
    )
