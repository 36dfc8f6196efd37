"""A small configuration of any Hugging Face architecture: its own defaults, with every size made small by rules."""

import re
from typing import Any

from transformers import PreTrainedConfig

WIDTH, HEADS, D_HEAD, LAYERS, VOCABULARY = 64, 4, 16, 2, 99
FIRST_SPECIAL_TOKEN = 3  # 0 pads, 1 begins, 2 ends; the tokens of images, sounds and masks follow
MOST_SPECIAL_TOKENS = 20
Rule = tuple[str, Any]

# Names of settings as regular expressions, matched whole, and the size that they get; the first match counts.
COUNTS: list[Rule] = [
    (r"(.*_)?vocab_size(_per_layer_input)?", VOCABULARY),
    (r"type_vocab_size|modality_type_vocab_size", 2),
    (r"num_(hidden_|encoder_|decoder_)?layers|n_layers?|(encoder|decoder|query_dec|text_encoder_num)_layers", LAYERS),
    (r"(decoder_|mit_|pred_|text_|encoder_)?num_(hidden_)?layers|depth|resampler_depth|num_blocks", LAYERS),
    (r"num_(spatial|temporal|auxiliary|pooler)_layers|prompt_layers|num_self_attends_per_block", LAYERS),
    (r"num_(local_|routed_)?experts|n_routed_experts|moe_num_experts|num_moe_experts", 4),
    (r"num_experts_per_tok(en)?|moe_topk|moe_k|num_selected_experts|top_k_experts", 2),
    (r"n_group|topk_group|num_expert_group|n_groups", 1),
    (r"first_k_dense_replace|moe_layer_start_index|num_dense_layers", 1),
    (r"num_nextn_predict_layers|num_mtp_layers", 0),
    (r"num_queries|num_detection_tokens|num_query_tokens|num_latents", 7),
    (r"num_denoising", 0),
]
WIDTHS: list[Rule] = [
    (r"(out_|text_|encoder_|decoder_|input_|output_|vision_|audio_|cross_attention_)?hidden_size", WIDTH),
    (r"(audio|vision|text|qformer|backbone|visual|speech)_(hidden_size|embed_dim|embedding_dim|width|dim)", WIDTH),
    (r"d_model|n_embd|dim|embed_dim|embedding_size|embedding_dim|d_embed|hidden_dim|word_embed_proj_dim", WIDTH),
    (r"d_latents|encoder_hidden_dim|decoder_hidden_dim|projection_dim|(input|output)_embedding_size", WIDTH),
    (r"(mit_|pred_|fusion_|neck_|bottleneck_|projector_|router_)hidden_size|mask_feature_size|feature_size_", WIDTH),
    (r"num_attention_heads|n_heads?|num_heads|num_attn_heads|attention_heads|self_attn_heads", HEADS),
    (r"(encoder|decoder)_(num_)?attention_heads|num_(encoder|decoder|self|cross)_attention_heads", HEADS),
    (r"(mit|pred|prompt|decoder)_num_attention_heads|num_(self|cross)_attention_heads|index_n_heads", HEADS),
    (r"head_dim|d_kv|attention_head_dim|attention_head_size|kv_channels|v_head_dim|global_head_dim", D_HEAD),
    (r"qk_rope_head_dim|qk_nope_head_dim|index_head_dim", D_HEAD // 2),
    (r"qk_head_dim", D_HEAD),
    (r"q_lora_rank|kv_lora_rank|o_lora_rank", 24),
    (
        r"(.*_)?intermediate_size(_mlp|_local|_global)?|(encoder_|decoder_)?ffn_dim|d_ff|d_inner|n_inner|ffn_hidden_size",
        48,
    ),
    (r"(.*_)?mlp_dim|dim_feedforward|feed_forward_size|ffn_dim|shared_expert_dim|share_expert_dim", 48),
    (r"linear_((key|value)_)?head_dim", 16),
    (r"linear_num_key_heads", 2),
    (r"linear_num_(value_)?heads", 4),
    (r"max_position_embeddings|n_positions|n_ctx|max_seq_len|max_target_positions|max_text_positions", 64),
    (r"max_2d_position_embeddings|max_source_positions|max_speech_positions|max_sequence_length", 128),
    (r"sliding_window|attention_window_size|window_size_left", 5),
    (r"num_mel_bins|input_feat_per_channel|feature_size|num_mel_channels", 16),
    (r"query_pre_attn_scalar", D_HEAD),
    (r"rotary_dim", 8),
]
# Rotary sections, one number for each axis of a position, that add up to half a small head.
SECTIONS: dict[str, list[int]] = {"mrope_section": [4, 2, 2], "xdrope_section": [2, 2, 2, 2]}
STAGED = (
    "hidden_size",
    "embed_dim",
    "num_channels",
    "intermediate_size",
)  # of hierarchical models, whose stages depend on them
ALIASES = {"head_dim": D_HEAD, "num_key_value_heads": HEADS}  # what some architectures leave open, and need

# Ways to make a config small, tried in this order: all sizes; all sizes and those left open; depth and vocabulary.
WAYS: list[tuple[list[Rule], dict[str, Any]]] = [(COUNTS + WIDTHS, {}), (COUNTS + WIDTHS, ALIASES), (COUNTS, {})]


def shrink(config: PreTrainedConfig, way: int, exceptions: dict[str, Any]) -> PreTrainedConfig:
    """A config of the same class with small sizes; the configs inside it are shrunk in the same way."""
    settings = vars(config)
    rules, aliases = WAYS[way]
    sizes = {name: small for name, value in settings.items() if (small := small_size(settings, name, value, rules))}
    sizes |= {name: size for name, size in aliases.items() if name in settings and settings[name] is None}
    sizes |= key_value_heads(settings, sizes) | layer_kinds(settings, sizes) | special_tokens(settings)
    if way != 2:
        sizes |= rotary_sizes(settings, sizes)
    sizes |= image_sizes(settings)
    for name, value in settings.items():
        if isinstance(value, PreTrainedConfig):
            given = exceptions.get(name, {})
            sizes[name] = given if isinstance(given, PreTrainedConfig) else shrink(value, way, given)
    sizes |= {name: value for name, value in exceptions.items() if not isinstance(settings.get(name), PreTrainedConfig)}
    return type(config)(**sizes)


def small_size(settings: dict[str, Any], name: str, value: Any, rules: list[Rule]) -> Any:
    """What a setting becomes; None if no rule says so."""
    staged = any(
        isinstance(settings.get(one), list | tuple)
        for one in ("depths", "hidden_sizes", "embed_dims", "blocks_per_stage")
    )
    if (
        name in {"depths", "blocks_per_stage"}
        and isinstance(value, list | tuple)
        and all(isinstance(v, int) for v in value)
    ):
        return type(value)(min(LAYERS, depth) for depth in value)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0 or (staged and name in STAGED):
        return None
    size = next((size for pattern, size in rules if re.fullmatch(pattern, name)), None)
    return None if size is None else min(size, value)


def key_value_heads(settings: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Fewer key heads than query heads where the architecture has fewer by default, but at least one."""
    found = {}
    for name, value in settings.items():
        if re.fullmatch(r"num_(global_)?key_value_heads|num_kv_heads|num_query_groups", name) and isinstance(
            value, int
        ):
            heads = settings.get("num_attention_heads") or settings.get("num_heads") or value
            small = sizes.get("num_attention_heads", sizes.get("num_heads", heads))
            if isinstance(heads, int) and isinstance(small, int):
                found[name] = small if value >= heads else 1 if value == 1 else max(1, small // 2)
    return found


def layer_kinds(settings: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Lists with one entry for each layer: one layer of each kind, and at least two layers."""
    layers = settings.get("num_hidden_layers") or 0
    lists = {
        name: list(value)
        for name, value in settings.items()
        if isinstance(value, list | tuple) and layers > LAYERS and len(value) == layers
    }
    if not lists or "num_hidden_layers" not in sizes:
        return {}
    rows = [tuple(map(str, row)) for row in zip(*lists.values(), strict=True)]
    chosen = sorted({rows.index(row) for row in rows})[:4]
    if len(chosen) < LAYERS:
        chosen = sorted({0, layers - 1})
    found: dict[str, Any] = {name: [values[index] for index in chosen] for name, values in lists.items()}
    return found | {"num_hidden_layers": len(chosen)}


def special_tokens(settings: dict[str, Any]) -> dict[str, Any]:
    """Small ids for the tokens with a meaning, all different."""
    known = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "sep_token_id": 2}
    found: dict[str, Any] = {name: known[name] for name in known if settings.get(name) is not None or name[:3] == "pad"}
    others = [
        name
        for name, value in settings.items()
        if re.search(r"token_(id|index)$", name) and name not in known and isinstance(value, int)
    ]
    for number, name in enumerate(others[:MOST_SPECIAL_TOKENS]):
        found[name] = FIRST_SPECIAL_TOKEN + number
    return found


def rotary_sizes(settings: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Rotary settings that fit a small head."""
    found: dict[str, Any] = {}
    for name in ("rope_parameters", "rope_scaling"):
        value = settings.get(name)
        if isinstance(value, dict) and set(value) & set(SECTIONS):
            found[name] = {key: SECTIONS.get(key, item) for key, item in value.items()}
    if settings.get("head_dim") and settings["head_dim"] == settings.get("qk_rope_head_dim"):
        found["head_dim"] = sizes["qk_rope_head_dim"]
    return found


def image_sizes(settings: dict[str, Any]) -> dict[str, Any]:
    """An image of four by four patches, where the patches are those of a plain vision transformer."""
    size, patch = settings.get("image_size"), settings.get("patch_size")
    if not isinstance(patch, int) or patch < 14:
        return {}
    if isinstance(size, int):
        return {"image_size": 4 * patch}
    return {"image_size": type(size)([4 * patch] * 2)} if isinstance(size, list | tuple) and len(size) == 2 else {}
