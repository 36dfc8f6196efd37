"""Hugging Face's models as Transom's, and back."""

from transom.models.hugging_face.convert import from_hugging_face, to_hugging_face
from transom.models.hugging_face.families import FAMILIES

__all__ = ["FAMILIES", "from_hugging_face", "to_hugging_face"]
