"""The list of what is audited: architectures of transformers, variants of them, and blocks written for the audit."""

import random
from dataclasses import dataclass

from audit.architectures import VARIANTS
from audit.blocks import BLOCKS

IMPLEMENTATIONS = ("sdpa", "eager")
BLOCK = "block"  # in place of an implementation


@dataclass(frozen=True, order=True)
class Configuration:
    """An architecture, a variant or a block, and how its attention is computed."""

    name: str
    implementation: str

    def __str__(self) -> str:
        return f"{self.name} ({self.implementation})"


def list_configurations() -> list[Configuration]:
    """All of them, in a fixed order."""
    from transformers import CONFIG_MAPPING

    names = sorted(CONFIG_MAPPING.keys()) + list(VARIANTS)
    found = [Configuration(name, implementation) for name in names for implementation in IMPLEMENTATIONS]
    return found + [Configuration(name, BLOCK) for name in BLOCKS]


def sample(configurations: list[Configuration], count: int, seed: int = 18) -> list[Configuration]:
    """The same few each time."""
    return sorted(random.Random(seed).sample(sorted(configurations), count))
