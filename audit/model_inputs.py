"""Inputs for any Hugging Face model, built from the arguments that its forward takes and the sizes in its config."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from audit.small_configs import FIRST_SPECIAL_TOKEN, MOST_SPECIAL_TOKENS, WIDTH

BATCH, TOKENS, TARGETS, FRAMES, SAMPLES = 2, 11, 7, 32, 1600
FIRST_TOKEN = FIRST_SPECIAL_TOKEN + MOST_SPECIAL_TOKENS
GRID = (4, 6)  # of patches, for models that take an image as a list of patches


class Sizes:
    """Looks settings up in a config, and in the configs inside it."""

    def __init__(self, config: Any) -> None:
        self.configs = [config, *(part for part in vars(config).values() if hasattr(part, "model_type"))]

    def find(self, names: str, default: Any) -> Any:
        """The first of these settings (words of one string) that some config has."""
        for name in names.split():
            for config in self.configs:
                value = getattr(config, name, None)
                if value is not None:
                    return value
        return default

    def number(self, names: str, default: int) -> int:
        value = self.find(names, default)
        return value if isinstance(value, int) else int(value[0])

    def pair(self, names: str, default: int) -> list[int]:
        """A height and a width."""
        value = self.find(names, default)
        if isinstance(value, dict):
            value = list(value.values())
        return [value, value] if isinstance(value, int) else list(value)[-2:]


def token_ids(sizes: Sizes, length: int) -> Tensor:
    """Random tokens without special ones."""
    return torch.randint(FIRST_TOKEN, max(sizes.number("vocab_size", 99), FIRST_TOKEN + 1), (BATCH, length))


def hidden_states(sizes: Sizes, length: int = TOKENS) -> Tensor:
    return torch.randn(BATCH, length, sizes.number("hidden_size d_model", WIDTH))


def images(sizes: Sizes) -> Tensor:
    return torch.randn(BATCH, sizes.number("num_channels in_channels in_chans", 3), *sizes.pair("image_size", 64))


def videos(sizes: Sizes) -> Tensor:
    frames = sizes.number("num_frames frames_per_clip", 4)
    channels = sizes.number("num_channels in_channels in_chans", 3)
    return torch.randn(BATCH, frames, channels, *sizes.pair("image_size crop_size", 32))


def patches(sizes: Sizes) -> Tensor:
    """A list of patches, each as one row of numbers."""
    patch, frames = sizes.number("patch_size", 14), sizes.number("temporal_patch_size", 1)
    return torch.randn(GRID[0] * GRID[1], sizes.number("num_channels in_channels in_chans", 3) * frames * patch * patch)


def spectrogram(sizes: Sizes, frames: int) -> Tensor:
    return torch.randn(BATCH, sizes.number("num_mel_bins feature_size", 16), frames)


def boxes(sizes: Sizes) -> Tensor:
    corners = torch.randint(0, 50, (BATCH, TOKENS, 2))
    return torch.cat([corners, corners + torch.randint(1, 30, (BATCH, TOKENS, 2))], -1)


Maker = Callable[[Sizes], Any]
# How to make each argument that some model cannot do without; where several are listed, the first that works counts.
MAKERS: dict[str, list[Maker]] = {
    "input_ids": [lambda sizes: token_ids(sizes, TOKENS)],
    "decoder_input_ids": [lambda sizes: token_ids(sizes, TARGETS)],
    "qformer_input_ids": [lambda sizes: token_ids(sizes, TARGETS)],
    "pixel_values": [images, videos, patches, lambda sizes: images(sizes)[:, None].expand(-1, 2, -1, -1, -1)],
    "pixel_values_videos": [videos],
    "input_features": [
        lambda sizes: spectrogram(sizes, 2 * sizes.number("max_source_positions", FRAMES // 2)),
        lambda sizes: torch.randn(BATCH, FRAMES, sizes.number("feature_projection_input_dim num_mel_bins", 16)),
        lambda sizes: spectrogram(sizes, FRAMES),
        lambda sizes: torch.randn(BATCH, 1, 1001, sizes.number("num_mel_bins", 64)),
    ],
    "input_values": [
        lambda sizes: torch.randn(BATCH, SAMPLES),
        lambda sizes: torch.randn(BATCH, 1, SAMPLES),
        lambda sizes: torch.randn(BATCH, sizes.number("max_length", 64), sizes.number("num_mel_bins", 16)),
        lambda sizes: torch.randn(BATCH, TOKENS, sizes.number("hidden_size d_model", WIDTH)),
    ],
    "hidden_states": [hidden_states, patches],
    "inputs_embeds": [hidden_states],
    "encoder_hidden_states": [hidden_states],
    "query_embeds": [lambda sizes: hidden_states(sizes, TARGETS)],
    "inputs": [lambda sizes: torch.randn(BATCH, TOKENS, sizes.number("d_model", WIDTH))],
    "grid_thw": [lambda sizes: torch.tensor([[1, *GRID]])],
    "merge_sizes": [lambda sizes: torch.tensor([1])],
    "input_features_mask": [lambda sizes: torch.ones(BATCH, FRAMES, dtype=torch.long)],
    "bbox": [boxes],
    "past_values": [
        lambda sizes: torch.randn(BATCH, sizes.number("context_length", 32), sizes.number("num_input_channels", 1))
    ],
    "pixel_mask": [lambda sizes: torch.ones(BATCH, *sizes.pair("image_size", 64), dtype=torch.long)],
    "attention_mask": [lambda sizes: torch.ones(BATCH, TOKENS, dtype=torch.long)],
}
GIVEN = ("input_ids", "decoder_input_ids")  # given wherever they are taken
# Given as well, in this order, if the model refuses to run without.
OPTIONAL = ("pixel_values", "bbox", "attention_mask", "input_features", "input_values", "encoder_hidden_states")


def candidate_inputs(model: nn.Module, exceptions: dict[str, Maker]) -> Iterator[dict[str, Any]]:
    """Arguments for a call, the likeliest first: what must be given, other layouts of it, and what may be given too."""
    sizes = Sizes(model.config)
    signature = inspect.signature(model.forward).parameters
    names = [
        name for name, one in signature.items() if one.default is one.empty and one.kind == one.POSITIONAL_OR_KEYWORD
    ]
    main = str(getattr(model, "main_input_name", ""))
    names = [name for name in signature if name in names or name in GIVEN or name == main]
    fixed = {name: make(sizes) for name, make in exceptions.items()}
    extras: list[str] = []
    for optional in (None, *(name for name in OPTIONAL if name in signature and name not in names)):
        extras += [optional] if optional else []
        wanted = [name for name in (*names, *extras) if name in MAKERS and name not in fixed]
        for turn in range(max([len(MAKERS[name]) for name in wanted], default=1)):
            inputs = {name: MAKERS[name][min(turn, len(MAKERS[name]) - 1)](sizes) for name in wanted}
            yield inputs | fixed
