"""What the rules for small configs and inputs do not know: settings and inputs of single architectures.

A row of VARIANTS is one more configuration of an architecture, for a form of attention that is not its default.
"""

from typing import Any

import torch
from transformers import ResNetConfig

from audit.model_inputs import BATCH, TARGETS, TOKENS, Maker, Sizes, images, token_ids


def backbone() -> dict[str, Any]:
    """A small convolutional backbone, in place of one from a library that is not here."""
    sizes: dict[str, Any] = {"embedding_size": 16, "hidden_sizes": [16, 16, 24, 32], "depths": [1, 1, 1, 1]}
    sizes["out_features"] = ["stage2", "stage3", "stage4"]
    config = ResNetConfig(**sizes)
    return {"backbone_config": config, "use_timm_backbone": False, "backbone": None, "use_pretrained_backbone": False}


ROTARY_IN_THREE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
PARTLY_ROTARY = {**ROTARY_IN_THREE, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
SERIES = {"prediction_length": 7, "context_length": 24, "lags_sequence": [1, 2, 3], "num_time_features": 1}
# Settings by architecture, with those of its inner configs inside.
SETTINGS: dict[str, dict[str, Any]] = {
    "autoformer": {**SERIES, "label_length": 7},
    "bamba": {"attn_layer_indices": [1], "mamba_chunk_size": 8},
    "conditional_detr": backbone(),
    "csm": {"codec_config": {"upsample_groups": 64}},
    "dab-detr": backbone(),
    "deepseek_v2": {"num_experts_per_tok": 2},
    "deformable_detr": {**backbone(), "num_feature_levels": 3},
    "detr": backbone(),
    "esm": {"vocab_size": 99, "mask_token_id": 3},
    "falcon_h1": {"mamba_chunk_size": 8},
    "flaubert": {"emb_dim": 64},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 5},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "mamba_chunk_size": 8},
    "informer": SERIES,
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8, "head_dim": 16, "chunk_size": 8},
    "mimi": {"upsample_groups": 64},
    "mimi_decoder": {"upsample_groups": 64},
    "nemotron_h": {"chunk_size": 8},
    "pegasus_x": {"block_size": 16, "num_global_tokens": 5},
    "qwen2_5_vl_text": {"rope_parameters": ROTARY_IN_THREE},
    "qwen2_vl_text": {"rope_parameters": ROTARY_IN_THREE},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "swin2sr": {"image_size": 32, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 2], "window_size": 4},
    "table-transformer": backbone(),
    "textnet": {"image_size": [32, 32]},
    "time_series_transformer": SERIES,
    "videoprism": {"vision_config": {"image_size": 54, "num_frames": 2}},
    "videoprism_vision_model": {"image_size": 54, "num_frames": 2},
    "vjepa2": {"frames_per_clip": 4, "crop_size": 32, "tubelet_size": 2},
    "vivit": {"image_size": 32, "num_frames": 4, "tubelet_size": [2, 16, 16]},
    "xlm": {"emb_dim": 64},
    "zamba2": {"chunk_size": 8},
    **{
        name: {"text_config": {"rope_parameters": ROTARY_IN_THREE}}
        for name in ("qwen2_vl", "qwen2_5_vl", "paddleocr_vl")
    },
    **{name: {"rope_parameters": ROTARY_IN_THREE} for name in ("glm4v_text", "glm_image_text")},
    **{
        name: {"text_config": {"rope_parameters": ROTARY_IN_THREE}}
        for name in ("glm4v", "glm46v", "glm_ocr", "glmga", "glm_image")
    },
    "glm4v_moe_text": {"rope_parameters": PARTLY_ROTARY},
    "glm4v_moe": {"text_config": {"rope_parameters": PARTLY_ROTARY}},
}


def series(features: int, length: int) -> Maker:
    return lambda sizes: torch.randn(BATCH, length, features) if features else torch.randn(BATCH, length)


TIME_SERIES: dict[str, Maker] = {
    "past_values": series(0, 27),
    "past_time_features": series(1, 27),
    "past_observed_mask": lambda sizes: torch.ones(BATCH, 27),
    "future_values": series(0, 7),
    "future_time_features": series(1, 7),
}


def patch_list(sizes: Sizes) -> torch.Tensor:
    return torch.randn(BATCH, 16, 3 * sizes.number("patch_size", 16) ** 2)


# Inputs by architecture, in addition to what the signature asks for, or in place of it.
INPUTS: dict[str, dict[str, Maker]] = {
    "autoformer": TIME_SERIES,
    "decision_transformer": {
        "states": series(17, TOKENS),
        "actions": series(4, TOKENS),
        "rewards": series(1, TOKENS),
        "returns_to_go": series(1, TOKENS),
        "timesteps": lambda sizes: torch.arange(TOKENS).expand(BATCH, -1),
    },
    "informer": TIME_SERIES,
    "lxmert": {"visual_feats": series(2048, TARGETS), "visual_pos": series(4, TARGETS)},
    "seggpt": {"prompt_pixel_values": images, "prompt_masks": images},
    "siglip2_vision_model": {
        "pixel_values": patch_list,
        "pixel_attention_mask": lambda sizes: torch.ones(BATCH, 16, dtype=torch.long),
        "spatial_shapes": lambda sizes: torch.tensor([[4, 4]] * BATCH),
    },
    "time_series_transformer": TIME_SERIES,
}


def long_text(length: int) -> dict[str, Maker]:
    return {"input_ids": lambda sizes: token_ids(sizes, length)}


LARGE = "it takes images of a thousand pixels a side, and no smaller ones"
# Not tried at all, with the reason.
SKIPPED: dict[str, str] = {
    name: LARGE
    for family in ("sam2", "sam3", "sam3_tracker", "edgetam")
    for name in (family, f"{family}_video", f"{family}_vision_model", f"{family}_hiera_det_model")
}
Variant = tuple[str, dict[str, Any], dict[str, Maker]]
# Name of the variant: its architecture, and the settings and inputs on top.
VARIANTS: dict[str, Variant] = {
    "big_bird, in blocks": (
        "big_bird",
        {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 2},
        long_text(48),
    ),
    "bigbird_pegasus, in blocks": ("bigbird_pegasus", {"block_size": 4, "num_random_blocks": 2}, long_text(48)),
    "falcon, ALiBi": ("falcon", {"alibi": True, "new_decoder_architecture": False}, {}),
    "gpt_bigcode, many heads": ("gpt_bigcode", {"multi_query": False}, {}),
    "led, long": ("led", {"attention_window": 4}, long_text(31)),
    "longformer, narrow": ("longformer", {"attention_window": 4}, long_text(31)),
    "longformer, with global tokens": (
        "longformer",
        {"attention_window": 4},
        {**long_text(31), "global_attention_mask": lambda sizes: torch.eye(31)[:2].long()},
    ),
    "longt5, narrow": ("longt5", {"local_radius": 3}, long_text(31)),
    "longt5, transient global": (
        "longt5",
        {"encoder_attention_type": "transient-global", "local_radius": 3, "global_block_size": 4},
        long_text(31),
    ),
    "nystromformer, landmarks": ("nystromformer", {"num_landmarks": 4, "segment_means_seq_len": 24}, long_text(24)),
    "pegasus_x, in blocks": ("pegasus_x", {"block_size": 8, "num_global_tokens": 3}, long_text(31)),
    "reformer, hashed": (
        "reformer",
        {"attn_layers": ["lsh", "lsh"], "lsh_attn_chunk_length": 4, "num_buckets": 2, "axial_pos_embds": False},
        long_text(16),
    ),
    "reformer, local": (
        "reformer",
        {"attn_layers": ["local", "local"], "local_attn_chunk_length": 4, "axial_pos_embds": False},
        long_text(16),
    ),
    "roberta, decoder": ("roberta", {"is_decoder": True}, {}),
    "bert, decoder with cross-attention": (
        "bert",
        {"is_decoder": True, "add_cross_attention": True},
        {"encoder_hidden_states": lambda sizes: torch.randn(BATCH, TARGETS, 64)},
    ),
    "bert, relative keys": ("bert", {"position_embedding_type": "relative_key_query"}, {}),
    "gpt2, scaled by layer": ("gpt2", {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True}, {}),
    "mistral, window of three": ("mistral", {"sliding_window": 3}, {}),
    "t5, gated": ("t5", {"feed_forward_proj": "gated-gelu"}, {}),
    "informer, few queries": ("informer", {**SERIES, "sampling_factor": 1}, TIME_SERIES),
}


def find_settings(name: str) -> tuple[str, dict[str, Any], dict[str, Maker]]:
    """The architecture, settings and inputs of an architecture or of a variant."""
    architecture, settings, inputs = VARIANTS.get(name, (name, {}, {}))
    return architecture, SETTINGS.get(architecture, {}) | settings, INPUTS.get(architecture, {}) | inputs
