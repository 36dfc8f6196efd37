"""Models: encoder, decoder and both together, each from a small frozen config."""

from pathlib import Path

import torch

from transom.files.strict_settings import check_choice
from transom.models.config import PRESETS, Config, DecoderConfig, EncoderConfig, EncoderDecoderConfig
from transom.models.decoder import Decoder
from transom.models.encoder import Encoder
from transom.models.encoder_decoder import EncoderDecoder
from transom.models.folder import read_config_header
from transom.models.generation import GenerateOutput, GenerationConfig
from transom.models.hugging_face import from_hugging_face, to_hugging_face
from transom.models.model import Model

MODELS: dict[str, type[Model]] = {"encoder": Encoder, "decoder": Decoder, "encoder_decoder": EncoderDecoder}

__all__ = [
    "MODELS",
    "PRESETS",
    "Config",
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "EncoderDecoder",
    "EncoderDecoderConfig",
    "GenerateOutput",
    "GenerationConfig",
    "Model",
    "from_hugging_face",
    "from_pretrained",
    "to_hugging_face",
]


def from_pretrained(folder: str | Path, dtype: torch.dtype | None = None) -> Model:
    """Load the model in a folder, of any kind; see `Model.from_pretrained`."""
    kind = str(read_config_header(Path(folder))["model"])
    check_choice(f"the model of {folder}", kind, MODELS)
    return MODELS[kind].from_pretrained(folder, dtype)
