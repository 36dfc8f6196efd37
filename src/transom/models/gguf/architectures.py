"""The architectures of GGUF files that Transom has: their names and settings in Hugging Face's words."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from transom.files.strict_settings import check_choice
from transom.models.gguf.header import GgufHeader
from transom.names import Misfit

LAYER = re.compile(r"^blk\.(\d+)\.")
LLAMA_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.{i}.attn_norm": "model.layers.{i}.input_layernorm",
    "blk.{i}.attn_q": "model.layers.{i}.self_attn.q_proj",
    "blk.{i}.attn_k": "model.layers.{i}.self_attn.k_proj",
    "blk.{i}.attn_v": "model.layers.{i}.self_attn.v_proj",
    "blk.{i}.attn_output": "model.layers.{i}.self_attn.o_proj",
    "blk.{i}.attn_q_norm": "model.layers.{i}.self_attn.q_norm",
    "blk.{i}.attn_k_norm": "model.layers.{i}.self_attn.k_norm",
    "blk.{i}.ffn_norm": "model.layers.{i}.post_attention_layernorm",
    "blk.{i}.ffn_gate": "model.layers.{i}.mlp.gate_proj",
    "blk.{i}.ffn_up": "model.layers.{i}.mlp.up_proj",
    "blk.{i}.ffn_down": "model.layers.{i}.mlp.down_proj",
}
GPT2_NAMES = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
    "blk.{i}.attn_norm": "transformer.h.{i}.ln_1",
    "blk.{i}.attn_qkv": "transformer.h.{i}.attn.c_attn",
    "blk.{i}.attn_output": "transformer.h.{i}.attn.c_proj",
    "blk.{i}.ffn_norm": "transformer.h.{i}.ln_2",
    "blk.{i}.ffn_up": "transformer.h.{i}.mlp.c_fc",
    "blk.{i}.ffn_down": "transformer.h.{i}.mlp.c_proj",
}
# Settings by the name after that of the architecture.
LLAMA_FIELDS = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "context_length": "max_position_embeddings",
    "rope.freq_base": "rope_theta",
}
GPT2_FIELDS = {
    "embedding_length": "n_embd",
    "feed_forward_length": "n_inner",
    "block_count": "n_layer",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "context_length": "n_positions",
}
CHECKED = {"vocab_size", "attention.value_length", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor"}
TRANSPOSED = ("attn_qkv", "attn_output", "ffn_up", "ffn_down")


Arrange = Callable[[str, Tensor, Mapping[str, Any]], Tensor]


class Architecture(NamedTuple):
    """An architecture of GGUF: its names and fields beside Hugging Face's, and how its tensors are laid out.

    arrange        a tensor of a file as Hugging Face has it
    arrange_back   the other way round
    """

    class_name: str
    names: Mapping[str, str]
    fields: Mapping[str, str]
    arrange: Arrange
    arrange_back: Arrange


def undo_pairs(name: str, tensor: Tensor, settings: Mapping[str, Any]) -> Tensor:
    """W_Q and W_K with the rows of a head in Hugging Face's order: llama.cpp pairs neighbours, not halves."""
    heads = rotated_heads(name, settings)
    if not heads or tensor.shape[0] % (2 * heads):
        return tensor  # if its shape does not fit, an error says so later
    paired = tensor.reshape(heads, -1, 2, *tensor.shape[1:])
    return paired.transpose(1, 2).reshape(tensor.shape)


def pair_neighbours(name: str, tensor: Tensor, settings: Mapping[str, Any]) -> Tensor:
    """The inverse of `undo_pairs`."""
    heads = rotated_heads(name, settings)
    if not heads:
        return tensor
    return tensor.reshape(heads, 2, -1, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def rotated_heads(name: str, settings: Mapping[str, Any]) -> int:
    """The number of heads in W_Q or W_K, and 0 for any other tensor."""
    part = name.split(".")[2] if name.startswith("blk.") else ""
    if part not in ("attn_q", "attn_k"):
        return 0
    return settings["num_attention_heads" if part == "attn_q" else "num_key_value_heads"]


def transpose_maps(name: str, tensor: Tensor, settings: Mapping[str, Any]) -> Tensor:
    """GPT-2's maps: (out, in) in a file, (in, out) in Hugging Face's models."""
    is_map = name.endswith(".weight") and name.removesuffix(".weight").split(".")[-1] in TRANSPOSED
    return tensor.mT if is_map else tensor


def keep(name: str, tensor: Tensor, settings: Mapping[str, Any]) -> Tensor:
    return tensor


ARCHITECTURES = {
    "llama": Architecture("LlamaForCausalLM", LLAMA_NAMES, LLAMA_FIELDS, undo_pairs, pair_neighbours),
    "qwen2": Architecture("Qwen2ForCausalLM", LLAMA_NAMES, LLAMA_FIELDS, keep, keep),
    "qwen3": Architecture("Qwen3ForCausalLM", LLAMA_NAMES, LLAMA_FIELDS, keep, keep),
    "gpt2": Architecture("GPT2LMHeadModel", GPT2_NAMES, GPT2_FIELDS, transpose_maps, transpose_maps),
}


def find_architecture(header: GgufHeader, where: str) -> str:
    name = header.metadata.get("general.architecture")
    check_choice(f"the architecture of {where}", str(name), ARCHITECTURES)
    return str(name)


def rename(name: str, architecture: Architecture) -> str:
    """The name of a tensor in Hugging Face's words; an unknown one stays, and is named by an error later."""
    found = LAYER.match(name)
    general = f"blk.{{i}}.{name[found.end() :]}" if found else name
    stem, _, ending = general.rpartition(".")
    theirs = architecture.names.get(stem)
    return name if theirs is None else f"{theirs.replace('{i}', found[1] if found else '')}.{ending}"


def read_settings(header: GgufHeader, where: str) -> dict[str, Any]:
    """The config of the model in Hugging Face's words; a setting that is unknown is an error that names it."""
    name = find_architecture(header, where)
    architecture, metadata = ARCHITECTURES[name], header.metadata
    own = {key.removeprefix(f"{name}."): value for key, value in metadata.items() if key.startswith(f"{name}.")}
    for key, value in own.items():
        if key not in architecture.fields and key not in CHECKED:
            raise Misfit(
                f"{where} has a setting '{name}.{key}' ({value!r:.40}) that Transom does not know, and it might change"
                " the result; take another model"
            )
    if "token_embd.weight" not in header.tensors:
        raise Misfit(f"{where} should hold 'token_embd.weight', but it does not; is the copy complete?")
    settings: dict[str, Any] = {theirs: own[key] for key, theirs in architecture.fields.items() if key in own}
    settings |= {
        "model_type": name,
        "architectures": [architecture.class_name],
        "vocab_size": header.tensors["token_embd.weight"].shape[0],
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }
    check_sizes(settings, where)
    if name != "gpt2":
        settings |= rope_settings(own, settings, where)
        settings["num_key_value_heads"] = settings.get("num_key_value_heads", settings["num_attention_heads"])
    if name == "llama":
        settings["attention_bias"] = "blk.0.attn_q.bias" in header.tensors
    return settings


def check_sizes(settings: Mapping[str, Any], where: str) -> None:
    """The sizes that the layout of tensors is worked out from must be there, and be numbers."""
    needed = ("n_embd", "n_head") if settings["model_type"] == "gpt2" else ("hidden_size", "num_attention_heads")
    for name in (*needed, "num_key_value_heads", "head_dim"):
        value = settings.get(name, 1 if name not in needed else None)
        if type(value) is not int or not 1 <= value <= 2**20:
            raise Misfit(f"{where} should say {name} as a number, but it says {value!r:.40}; take another model")


def rope_settings(own: Mapping[str, Any], settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Base and scaling of the rotary positions; they must turn whole heads."""
    d_head = settings.get("head_dim", settings["hidden_size"] // settings["num_attention_heads"])
    for key in ("rope.dimension_count", "attention.value_length"):
        if own.get(key, d_head) != d_head:
            raise Misfit(f"{where} has {key}={own[key]!r:.40}, but its heads have {d_head} numbers; take another model")
    kind = own.get("rope.scaling.type", "none")
    scaling = {"rope_type": "linear", "factor": own.get("rope.scaling.factor")} if kind == "linear" else {}
    if kind not in ("none", "linear"):
        raise Misfit(
            f"{where} has rope.scaling.type={kind!r:.40}, but Transom reads none and linear; take another model"
        )
    return {"rope_parameters": {"rope_theta": settings.get("rope_theta", 10_000.0), **scaling}}
