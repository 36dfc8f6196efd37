"""The one door `attend`, and the engines behind it."""

from transom.kernels.door import attend

__all__ = ["attend"]
