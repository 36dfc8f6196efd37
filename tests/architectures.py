"""Hugging Face architectures, small and random: a table of how to build one, and what it takes."""

from dataclasses import dataclass, field

import torch
import transformers

torch.manual_seed(43)
IDS = torch.randint(5, 97, (2, 11))
MASK = torch.ones(2, 11, dtype=torch.long)
MASK[1, 7:] = 0
TEXT = {"input_ids": IDS, "attention_mask": MASK}
PIXELS = {"pixel_values": torch.randn(2, 3, 12, 12)}
PAIR = {**TEXT, "decoder_input_ids": IDS[:, :7]}
SOUND = {"input_features": torch.randn(2, 8, 26), "decoder_input_ids": IDS[:, :7]}

LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL = {**LAYERS, "vocab_size": 97, "intermediate_size": 48, "max_position_embeddings": 64}
GROUPED = {**SMALL, "num_key_value_heads": 2}
WINDOWED = {**GROUPED, "head_dim": 6, "sliding_window": 5}
GPT = {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
VISION = {**LAYERS, "intermediate_size": 48, "image_size": 12, "patch_size": 4}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
TWO_SIDES = {
    **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (("layers", 2), ("ffn_dim", 37))},
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "vocab_size": 97,
    "d_model": 32,
    **ENDS,
}


@dataclass
class Architecture:
    """A model class with its sizes and inputs; `attentions` run in one call."""

    model: str
    config: str
    sizes: dict
    inputs: dict = field(default_factory=lambda: TEXT)
    attentions: int = 2
    parameter_scale: float = 6.0  # what its random parameters are multiplied by, for weights that are far from uniform

    def build(self, attention):
        """The model with that attention, the same parameters each time."""
        kind = getattr(transformers, self.model)
        torch.manual_seed(47)
        model = kind._from_config(getattr(transformers, self.config)(**self.sizes), attn_implementation=attention)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(self.parameter_scale)
        return model.eval()


def causal(name, sizes, **kwargs):
    return Architecture(f"{name}ForCausalLM", f"{name}Config", sizes, **kwargs)


def plain(name, sizes, **kwargs):
    return Architecture(f"{name}Model", f"{name}Config", sizes, **kwargs)


# Those that PyTorch's own function computes.
SDPA = {
    "GPT-2": Architecture("GPT2LMHeadModel", "GPT2Config", GPT),
    "Llama, grouped": causal("Llama", GROUPED),
    "Mistral, sliding window": causal("Mistral", WINDOWED),
    "Mixtral, experts": causal("Mixtral", {**GROUPED, "num_local_experts": 2}),
    "Qwen2": causal("Qwen2", GROUPED),
    "Qwen3": causal("Qwen3", {**GROUPED, "head_dim": 6}),
    "Gemma, one key head": causal("Gemma", {**SMALL, "num_key_value_heads": 1, "head_dim": 6}),
    "Gemma 3, sliding window": Architecture("Gemma3ForCausalLM", "Gemma3TextConfig", WINDOWED),
    "Phi": causal("Phi", SMALL),
    "Phi-3": causal("Phi3", {**SMALL, "pad_token_id": 0}),
    "GPT-NeoX": causal("GPTNeoX", SMALL),
    "Falcon": causal("Falcon", {**LAYERS, "vocab_size": 97}),
    "OPT": causal(
        "OPT", {**LAYERS, "vocab_size": 97, "ffn_dim": 37, "max_position_embeddings": 64, "word_embed_proj_dim": 32}
    ),
    "OLMo": causal("Olmo", SMALL),
    "OLMo 2": causal("Olmo2", SMALL),
    "Cohere": causal("Cohere", GROUPED),
    "StarCoder 2": causal("Starcoder2", GROUPED),
    "StableLM": causal("StableLm", {**SMALL, "num_key_value_heads": 4}),
    "Granite": causal("Granite", GROUPED),
    "SmolLM 3": causal("SmolLM3", {**GROUPED, "pad_token_id": 0}),
    "BERT": plain("Bert", SMALL),
    "RoBERTa": plain("Roberta", SMALL),
    "ELECTRA": plain("Electra", {**SMALL, "embedding_size": 32}),
    "ALBERT, shared layers": plain("Albert", {**SMALL, "embedding_size": 32}),
    "DistilBERT": plain(
        "DistilBert",
        {"vocab_size": 97, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37, "max_position_embeddings": 64},
    ),
    "ModernBERT": plain(
        "ModernBert",
        {**SMALL, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "ViT": plain("ViT", VISION, inputs=PIXELS),
    "DeiT": plain("DeiT", VISION, inputs=PIXELS),
    "DINOv2": plain("Dinov2", {**LAYERS, "image_size": 12, "patch_size": 4}, inputs=PIXELS),
    "CLIP, text": Architecture("CLIPTextModel", "CLIPTextConfig", {**SMALL, "eos_token_id": 2}),
    "CLIP, vision": Architecture("CLIPVisionModel", "CLIPVisionConfig", VISION, PIXELS),
    "T5, relative bias": Architecture(
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": 97, "d_model": 32, "d_kv": 6, "d_ff": 37, "num_layers": 2, "num_heads": 4, **ENDS},
        PAIR,
        6,
        parameter_scale=1.0,
    ),
    "BART": plain("Bart", {**TWO_SIDES, "max_position_embeddings": 64}, inputs=PAIR, attentions=6),
    "Marian": Architecture(
        "MarianMTModel", "MarianConfig", {**TWO_SIDES, "max_position_embeddings": 64, "forced_eos_token_id": 2}, PAIR, 6
    ),
    "Whisper": plain(
        "Whisper",
        {**TWO_SIDES, "num_mel_bins": 8, "max_source_positions": 13, "max_target_positions": 64},
        inputs=SOUND,
        attentions=6,
    ),
}

GPT_NEO = {**SMALL, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 5}
GPT_NEO = {key: size for key, size in GPT_NEO.items() if key not in {"num_hidden_layers", "num_attention_heads"}}

# Those whose eager attention goes through Hugging Face's interface, and can be had no other way.
INTERFACE = {
    "Gemma 2, soft-capped": causal("Gemma2", {**WINDOWED, "attn_logit_softcapping": 5.0}),
    "GPT-OSS, with sinks": causal(
        "GptOss", {**GROUPED, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1}
    ),
    "ESM": plain("Esm", {**SMALL, "pad_token_id": 0, "mask_token_id": 3}),
}

# Those that compute their softmax by hand: only their weights are seen.
BY_HAND = {
    "GPT-J": causal("GPTJ", {**GPT, "rotary_dim": 4}),
    "CodeGen": causal("CodeGen", {**GPT, "rotary_dim": 4}),
    "GPT-Neo": causal("GPTNeo", GPT_NEO),
    "BLOOM, ALiBi": causal("Bloom", {"vocab_size": 97, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "MPT, ALiBi": causal("Mpt", {"vocab_size": 97, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}),
    "MPNet": plain("MPNet", SMALL),
    "DeBERTa, disentangled": plain(
        "DebertaV2", {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, parameter_scale=1.0
    ),
    "XLNet": plain("XLNet", {"vocab_size": 97, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 37}),
    "BigBird": plain("BigBird", {**SMALL, "attention_type": "original_full"}),
    "RoFormer": plain("RoFormer", {**SMALL, "embedding_size": 32}),
}
CHUNKED = plain("Longformer", {**SMALL, "attention_window": 4})
