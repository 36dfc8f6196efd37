"""Generation settings of Hugging Face's models, in the same words as ours."""

from collections.abc import Mapping
from typing import Any

from transom.models.generation.config import GenerationConfig
from transom.names import Misfit

KNOWN = set(GenerationConfig.__struct_fields__)
TOKENS = ("eos_token_id", "pad_token_id", "decoder_start_token_id")
# Settings that change nothing, or that say how and not what.
NEUTRAL = {
    "_from_model_config",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "disable_compile",
    "max_length",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "return_dict_in_generate",
    "return_legacy_cache",
    "transformers_version",
    "use_cache",
    "assistant_confidence_threshold",
    "assistant_lookbehind",
    "is_assistant",
    "max_time",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "prefill_chunk_size",
    "target_lookbehind",
    "remove_invalid_values",
}
# Values that are Hugging Face's own defaults.
DEFAULTS = {
    "diversity_penalty": 0.0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "guidance_scale": 1.0,
    "num_beam_groups": 1,
    "renormalize_logits": False,
    "token_healing": False,
    "typical_p": 1.0,
    "penalty_alpha": 0.0,
    "low_memory": False,
}
TOP_K = 50  # Hugging Face's default, where sampling is on
EMPTY: tuple[Any, ...] = (None, [], {})


def read_generation(settings: Mapping[str, Any], config: Mapping[str, Any], where: str) -> GenerationConfig:
    """Our generation settings; those that would change the tokens and are unknown are errors."""
    tokens = {name: settings.get(name, config.get(name)) for name in TOKENS}
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if name in KNOWN and name not in TOKENS:
            found |= {} if value in EMPTY else {name: value}
        elif name not in NEUTRAL and name not in TOKENS and value not in EMPTY and value != DEFAULTS.get(name):
            raise Misfit(
                f"{where} generates with {name}={value!r:.60}, which Transom does not know, and which changes what it"
                " writes; take it out of generation_config.json"
            )
    if found.get("do_sample"):
        found.setdefault("top_k", TOP_K)
    found.pop("max_length", None)  # the model's longest, unless the caller says something else
    return GenerationConfig().replace(found | choose_tokens(tokens))


def choose_tokens(tokens: Mapping[str, Any]) -> dict[str, Any]:
    """The special tokens; without one of its own, an end token is padding too, as in Hugging Face's generate."""
    ends = tokens["eos_token_id"]
    first_end = ends[0] if isinstance(ends, list | tuple) and ends else ends
    padding = tokens["pad_token_id"] if tokens["pad_token_id"] is not None else first_end
    chosen = {"eos_token_id": ends, "pad_token_id": padding or 0}
    start = tokens["decoder_start_token_id"]
    return chosen if start is None else chosen | {"decoder_start_token_id": start}


def write_generation(generation: GenerationConfig) -> dict[str, Any]:
    """The settings for Hugging Face's generation_config."""
    settings = {name: value for name, value in generation.to_dict().items() if name != "stop_strings"}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()} | (
        {"stop_strings": list(generation.stops)} if generation.stops else {}
    )
