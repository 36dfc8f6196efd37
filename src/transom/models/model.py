"""What all models share: settings, a start, their number of parameters, and a folder to live in."""

from pathlib import Path
from typing import ClassVar, TypeVar

import torch
from torch import nn

from transom.models import folder as folders
from transom.models.config import Config
from transom.models.initial import INITIALS

Built = TypeVar("Built", bound="Model")


class Model(nn.Module):
    """A model made from its config, and from nothing else."""

    kind: ClassVar[str]  # its row in MODELS
    settings: ClassVar[type[Config]]
    config: Config

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def start(self) -> None:
        """Give the parameters the numbers they start from."""
        INITIALS[self.config.initial](self)

    def count(self) -> int:
        """How many numbers are learned; what is tied counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def save_pretrained(
        self,
        folder: str | Path,
        tokenizer: folders.Saved | None = None,
        readme: str | None = None,
        dtype: torch.dtype | None = None,
        shard_bytes: int = folders.SHARD_BYTES,
    ) -> None:
        """Write the model into a folder, which appears whole or not at all.

        tokenizer     anything with `save(path)`, such as `transom.text.Tokenizer`; written as tokenizer.json
        readme        what to say of the model; otherwise its sizes are listed
        dtype         of the numbers in the file, where it is not that of the parameters
        shard_bytes   a larger model is split into files of about that size
        """
        folders.save(self, Path(folder), tokenizer, readme, folders.Numbers(dtype, shard_bytes))

    @classmethod
    def from_pretrained(cls: type[Built], folder: str | Path, dtype: torch.dtype | None = None) -> Built:
        """The model in a folder, in evaluation mode, once all of it is found to fit.

        dtype   of the parameters, float32 unless given: numbers of fewer bits in the file are widened when it is
        """
        return folders.load(cls, Path(folder), dtype)
