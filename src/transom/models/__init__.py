"""Models: encoder, decoder and both together, each from a small frozen config."""

from transom.models.config import Config, DecoderConfig, EncoderConfig, EncoderDecoderConfig
from transom.models.decoder import Decoder
from transom.models.encoder import Encoder
from transom.models.encoder_decoder import EncoderDecoder
from transom.models.model import Model
from transom.models.presets import PRESETS

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
    "Model",
]
