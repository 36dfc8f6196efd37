"""GGUF files, the format of llama.cpp: read under limits as models of Transom's, and written."""

from transom.models.gguf.load import from_gguf
from transom.models.gguf.save import to_gguf

__all__ = ["from_gguf", "to_gguf"]
