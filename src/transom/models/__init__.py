"""Models: encoder, decoder and both together, each from a small frozen config."""

from pathlib import Path

import torch

from transom.files.strict import chosen
from transom.models.config import Config, DecoderConfig, EncoderConfig, EncoderDecoderConfig
from transom.models.decoder import Decoder
from transom.models.encoder import Encoder
from transom.models.encoder_decoder import EncoderDecoder
from transom.models.folder import header_of
from transom.models.model import Model
from transom.models.presets import PRESETS
from transom.models.writing import GenerationConfig, Written

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
    "GenerationConfig",
    "Model",
    "Written",
    "from_pretrained",
]


def from_pretrained(folder: str | Path, dtype: torch.dtype | None = None) -> Model:
    """The model in a folder, of whichever kind it is; see `Model.from_pretrained`."""
    kind = str(header_of(Path(folder))["model"])
    chosen(f"the model of {folder}", kind, MODELS)
    return MODELS[kind].from_pretrained(folder, dtype)
