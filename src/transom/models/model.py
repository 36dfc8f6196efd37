"""What all models share: settings, a start, and their number of parameters."""

from typing import ClassVar

from torch import nn

from transom.models.config import Config
from transom.models.initial import INITIALS


class Model(nn.Module):
    """A model made from its config, and from nothing else."""

    config: Config
    kind: ClassVar[str]  # its row in MODELS

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def start(self) -> None:
        """Give the parameters the numbers they start from."""
        INITIALS[self.config.initial](self)

    def count(self) -> int:
        """How many numbers are learned; what is tied counts once."""
        return sum(parameter.numel() for parameter in self.parameters())
