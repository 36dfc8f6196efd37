"""One call of `generate`, put in order."""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from transom.models.writing.rules import Rules
from transom.models.writing.settings import GenerationConfig
from transom.models.writing.stopping import Stopping


@dataclass(frozen=True)
class Job:
    """What to write after which prompts, under which rules, and for how long."""

    prompt: Int[Tensor, "batch token"]  # padding, where there is any, stands in front
    real: Bool[Tensor, "batch token"] | None
    longest: int  # tokens of a whole sequence, the prompt included
    settings: GenerationConfig
    rules: Rules
    stopping: Stopping
    scored: bool
