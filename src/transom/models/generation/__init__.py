"""Writing: greedy, sampling and beam search over any model that can be asked for logits step by step."""

from transom.models.generation.config import GenerationConfig
from transom.models.generation.generate import GenerateOutput

__all__ = ["GenerateOutput", "GenerationConfig"]
