"""How fast does a Llama-shaped decoder generate, beside Hugging Face's generate and llama.cpp?

RMS norms, SwiGLU, rotary positions, grouped heads: 12 layers of d_model 576, 9 heads that share 3 keys and values, a
hidden layer of 1,536, a vocabulary of 8,192 (SmolLM2-135M has 30 such layers and a larger vocabulary). One prompt of 16
tokens, 64 new ones, greedily. All have the same parameters: Transom's are copied to Hugging Face's Llama, and to
llama.cpp as a GGUF file in float32. Each works in a process that ends with its turn, and times count only if all
generate the same tokens. llama.cpp's cache is in half precision by default; here it is float32, as the others' is.

    python -m bench llama [--json] [--quick] [--threads N]
"""

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.measuring.instruments import machine_info, note, print_answer
from bench.measuring.timing import Work, measure_interleaved, unsteady_contenders
from bench.peers.contender_process import ContenderProcess
from bench.peers.environment import PeerUnavailable, module_contender, peer_version, question_contender, require_peer
from transom.models import Decoder, DecoderConfig

SIZES = {"layers": 12, "d_model": 576, "heads": 9, "kv_heads": 3, "d_hidden": 1536, "vocabulary": 8192}
QUICK = {"layers": 4, "d_model": 192, "heads": 6, "kv_heads": 2, "d_hidden": 512, "vocabulary": 2048}
LONGEST, PROMPT = 128, 16


def build_decoder(sizes: dict[str, Any]) -> Decoder:
    """A decoder with larger random parameters than at initialisation, which would repeat one token for ever."""
    torch.manual_seed(0)
    parts: dict[str, Any] = {"positions": "rotary", "norm": "rms", "arrangement": "pre_norm", "feed_forward": "swiglu"}
    config = DecoderConfig(**sizes, **parts, bias=False, scaled=False, dropout=0.0, longest=LONGEST, padding=None)
    model = Decoder(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0 if parameter.dim() == 2 else 1.0)
    return model


def blocks(model: Decoder) -> Iterator[tuple[int, Any]]:
    yield from enumerate(model.stack.blocks)


def embedding_and_norm(model: Decoder) -> tuple[Tensor, Tensor]:
    """The embedding, and the norm after the last block."""
    norm: Any = model.stack.closing
    return model.embedding.vectors, norm.weight


def build_hugging_face(model: Decoder, sizes: dict[str, int]) -> Any:
    """Hugging Face's Llama with our parameters; its rotary positions pair the halves of a head, ours neighbours."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=sizes["vocabulary"], hidden_size=sizes["d_model"], intermediate_size=sizes["d_hidden"],
        num_hidden_layers=sizes["layers"], num_attention_heads=sizes["heads"], num_key_value_heads=sizes["kv_heads"],
        max_position_embeddings=LONGEST, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e4},
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    twin = LlamaForCausalLM(config).eval()
    words, norm = embedding_and_norm(model)
    state = {"model.embed_tokens.weight": words, "lm_head.weight": words, "model.norm.weight": norm}
    for number, block in blocks(model):
        names = block_parameters(block)
        for letter, heads in (("q_proj", sizes["heads"]), ("k_proj", sizes["kv_heads"])):
            names[f"self_attn.{letter}"] = pairs_to_halves(names[f"self_attn.{letter}"], heads)
        state |= {f"model.layers.{number}.{name}.weight": tensor for name, tensor in names.items()}
    twin.load_state_dict(state)
    return twin


def block_parameters(block: Any) -> dict[str, Tensor]:
    """The parameters of a block under Hugging Face's names."""
    attention, feed_forward = block.attention, block.feed_forward
    return {
        "input_layernorm": block.norm_attention.weight,
        "self_attn.q_proj": attention.W_Q.weight,
        "self_attn.k_proj": attention.W_K.weight,
        "self_attn.v_proj": attention.W_V.weight,
        "self_attn.o_proj": attention.W_O.weight,
        "post_attention_layernorm": block.norm_feed_forward.weight,
        "mlp.gate_proj": feed_forward.W_gate.weight,
        "mlp.up_proj": feed_forward.W_up.weight,
        "mlp.down_proj": feed_forward.W_down.weight,
    }


def pairs_to_halves(W: Tensor, heads: int) -> Tensor:
    """Reorder the rows of each head from neighbouring pairs (0, 1), (2, 3) … to all first ones, then all second."""
    return W.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def save_for_llama_cpp(model: Decoder, folder: Path) -> Path:
    """Save our parameters under llama.cpp's names, for the GGUF file; it pairs neighbours as we do."""
    from safetensors.torch import save_file

    names = {
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    words, norm = embedding_and_norm(model)
    found = {"token_embd.weight": words, "output_norm.weight": norm}
    for number, block in blocks(model):
        found |= {f"blk.{number}.{names[name]}.weight": tensor for name, tensor in block_parameters(block).items()}
    save_file({name: tensor.detach().contiguous() for name, tensor in found.items()}, folder / "parameters.safetensors")
    return folder / "parameters.safetensors"


def random_prompt(sizes: dict[str, int]) -> Tensor:
    return torch.randint(sizes["vocabulary"], (1, PROMPT), generator=torch.Generator().manual_seed(1))


def prepare(name: str, sizes: dict[str, int], new: int) -> Work:
    """A contender of this interpreter, for a process of its own: it returns the new tokens."""
    model, given = build_decoder(sizes), random_prompt(sizes)
    if name == "Transom":
        generate = partial(model.generate, given, max_new_tokens=new, eos_token_id=None)
    else:
        settings = {"do_sample": False, "max_new_tokens": new, "eos_token_id": None}
        twin = build_hugging_face(model, sizes)
        generate = partial(twin.generate, input_ids=given, attention_mask=torch.ones_like(given), **settings)

    @torch.no_grad()
    def work() -> list[int]:
        found = generate()
        assert isinstance(found, Tensor)
        return found[0, PROMPT:].tolist()

    return work


def build_contenders(
    sizes: dict[str, int], new: int, options: Namespace, folder: Path
) -> tuple[dict[str, ContenderProcess], dict[str, str]]:
    """Each contender as a process; and why some are left out."""
    found = {
        name: question_contender(__name__, [name, sizes, new], options.threads) for name in ("Transom", "Hugging Face")
    }
    try:
        if options.quick:
            raise PeerUnavailable("left out of a quick run")
        require_peer("llama.cpp")
    except PeerUnavailable as reason:
        note(f"llama.cpp is left out: {reason}")
        return found, {"llama.cpp": str(reason)}
    settings = {
        **sizes,
        "new": new,
        "threads": options.threads,
        "longest": LONGEST,
        "prompt": random_prompt(sizes)[0].tolist(),
    }
    return found | {
        "llama.cpp": module_contender(
            "llama_cpp_generation", str(save_for_llama_cpp(build_decoder(sizes), folder)), settings
        )
    }, {}


def run(options: Namespace) -> int:
    """Measure and print."""
    sizes, new = (QUICK, 16) if options.quick else (SIZES, 64)
    with tempfile.TemporaryDirectory() as folder:
        contenders, missing = build_contenders(sizes, new, options, Path(folder))
        note(f"{len(contenders)} processes in turn, twice, {new} tokens each …")
        times = measure_interleaved(contenders, 8 if options.quick else 16, 10 if options.quick else 90, missing)
    generated = {name: contenders[name].result for name in times}
    if any(tokens != generated["Transom"] for tokens in generated.values()):
        raise RuntimeError(f"not all wrote the same tokens, so no time counts: {generated}")
    result = {
        "machine": machine_info(),
        "sizes": sizes,
        "new_tokens": new,
        "milliseconds_a_step": {name: 1e3 * time["best"] / new for name, time in times.items()},
        "median_milliseconds_a_step": {name: 1e3 * time["median"] / new for name, time in times.items()},
        "versions": {name: peer_version(name) for name in times if name != "Transom"},
        "unsteady": unsteady_contenders(times),
        "not run": missing,
    }
    print_answer(options, result, render_table(result))
    return 0


def render_table(result: dict[str, Any]) -> str:
    lines = [f"{'':<14}{'ms a step':>10}{'median':>9}{'÷ Transom':>11}{'tokens/s':>10}"]
    own = result["milliseconds_a_step"]["Transom"]
    for name, time in result["milliseconds_a_step"].items():
        median = result["median_milliseconds_a_step"][name]
        lines.append(f"{name:<14}{time:>10.2f}{median:>9.2f}{time / own:>11.2f}{1e3 / time:>10,.0f}")
    lines += [f"{name:<14}not run: {why}" for name, why in result["not run"].items()]
    return "\n".join(lines)
