"""What all models share: a config, initial parameters, their number, and a folder to save in and load from."""

from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from transom.files.atomic_files import MANIFEST, atomic_folder, verify_manifest, write_file
from transom.files.strict_settings import parse_settings
from transom.models.config import Config
from transom.models.config_match import check_config_match
from transom.models.folder import (
    CONFIG,
    FORMAT,
    GENERATION,
    README,
    SHARD_BYTES,
    TOKENIZER,
    check_replaceable,
    match_tensors,
    read_config_header,
)
from transom.models.initialization import INITIALS
from transom.models.quantization import load_dequantized, quantize_parameters
from transom.models.safetensors_files import load_tensors, read_json, save_tensors, write_json
from transom.names import Misfit

AnyModel = TypeVar("AnyModel", bound="Model")


@runtime_checkable
class Saveable(Protocol):
    """Something that can write itself to a file."""

    def save(self, path: Any) -> Any: ...


class Model(nn.Module):
    """A model that its config describes completely."""

    kind: ClassVar[str]  # its row in MODELS
    config_class: ClassVar[type[Config]]
    config: Config
    generation: Any = None  # the GenerationConfig of a model that can generate

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def initialize(self) -> None:
        """Set the parameters to their initial values."""
        INITIALS[self.config.initial](self)

    def count(self) -> int:
        """The number of parameters; tied ones count once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def save_pretrained(
        self,
        folder: str | Path,
        tokenizer: Saveable | None = None,
        readme: str | None = None,
        dtype: torch.dtype | None = None,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        """Save the model in a folder, which appears whole or not at all.

        tokenizer     anything with `save(path)`, such as `transom.text.Tokenizer`; saved as tokenizer.json
        readme        a description of the model; by default its sizes are listed
        dtype         of the numbers in the file, by default that of the parameters; `torch.int8` keeps each matrix as
                      int8 with a scale for each row, and everything else in float32
        shard_bytes   a larger model is split into files of about that size
        """
        check_replaceable(Path(folder))
        check_config_match(self)
        parameters = {name: parameter.detach() for name, parameter in self.named_parameters()}
        if dtype == torch.int8:
            tensors = quantize_parameters(parameters)
        else:
            tensors = {name: parameter.to(dtype) for name, parameter in parameters.items()}
        with atomic_folder(Path(folder)) as new:
            write_json(new / CONFIG, {"format": FORMAT, "model": self.kind} | self.config.to_dict())
            save_tensors(new, tensors, shard_bytes)
            write_file(new / README, (self.default_readme() if readme is None else readme).encode())
            if self.generation is not None:
                write_json(new / GENERATION, self.generation.to_dict())
            if tokenizer is not None:
                tokenizer.save(new / TOKENIZER)

    def default_readme(self) -> str:
        """A README that lists the sizes of the model."""
        rows = "\n".join(f"| {name} | {value} |" for name, value in self.config.to_dict().items())
        return (
            f"# A Transom {self.kind.replace('_', '–')}\n\n{self.count():,} parameters. Load it with\n\n"
            f"    transom.models.{type(self).__name__}.from_pretrained(folder)\n\n"
            f"| setting | value |\n|---|---|\n{rows}\n"
        )

    @classmethod
    def from_pretrained(cls: type[AnyModel], folder: str | Path, dtype: torch.dtype | None = None) -> AnyModel:
        """Load the model in a folder, in evaluation mode; config, manifest and tensors are checked first.

        dtype   of the parameters; narrower numbers in the file are widened to it. By default all must be float32
        """
        folder = Path(folder)
        settings = read_config_header(folder)
        kind = settings.pop("model")
        if kind != cls.kind:
            raise Misfit(
                f"{folder} holds a model of kind {kind!r}, not {cls.kind!r}; use transom.models.from_pretrained"
            )
        manifest = verify_manifest(folder).files if (folder / MANIFEST).is_file() else None
        config = parse_settings(cls.config_class, settings, str(folder / CONFIG))
        # Built without memory first: a config that promises more than the file holds must not cost anything.
        with torch.device("meta"):
            shapes = {name: parameter.shape for name, parameter in cls(config).named_parameters()}
        files = match_tensors(folder, shapes, dtype)
        if manifest is not None and (missing := sorted({CONFIG, *files} - set(manifest))):
            raise Misfit(f"{folder / MANIFEST} should list {missing[0]!r}, but it does not; take another copy")
        with torch.random.fork_rng(devices=[]):  # the initial values are overwritten, so they use no random numbers
            model = cls(config).to(dtype or torch.float32)
        model.load_files(folder, files)
        return model.eval()

    def load_files(self, folder: Path, files: dict[str, list[str]]) -> None:
        """Copy the tensors of these names in files into the parameters, and read the generation settings."""
        parameters = dict(self.named_parameters())
        with torch.no_grad():
            for file, names in files.items():
                for name, tensor in load_tensors(folder / file, names):
                    if tensor.dtype == torch.int8:
                        tensor = load_dequantized(folder / file, name, tensor)
                    parameters[name].copy_(tensor)
        path = folder / GENERATION
        if self.generation is not None and path.is_file():
            self.generation = parse_settings(type(self.generation), read_json(path), str(path))
