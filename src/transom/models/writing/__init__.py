"""Writing: greedy, sampling and beam search over any model that can be asked for logits step by step."""

from transom.models.writing.generate import Written
from transom.models.writing.settings import GenerationConfig

__all__ = ["GenerationConfig", "Written"]
