"""GGUF files, the format of llama.cpp: read under limits, as models of Transom's."""

from transom.models.gguf.load import from_gguf

__all__ = ["from_gguf"]
