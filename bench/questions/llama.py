"""How fast does a Llama-shaped decoder write, beside Hugging Face's generate and llama.cpp, with the same parameters?

RMS norms, SwiGLU, rotary positions, grouped heads: 12 layers of d_model 576, 9 heads that share 3 keys and values, a
hidden layer of 1,536, a vocabulary of 8,192 (SmolLM2-135M has 30 such layers and a larger vocabulary). One prompt of 16
tokens, 64 new ones, greedily. Transom's parameters go to Hugging Face's Llama, and as a GGUF file in float32 to
llama.cpp; each works in a process that ends with its turn, and times count only if the tokens of all are the same.
llama.cpp keeps its cache in half precision unless told otherwise; here it is float32 too, so that everybody computes
the same.

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

from bench.measuring.instruments import answer, machine, note
from bench.measuring.timing import Work, interleaved, unsteady
from bench.peers.contender_process import ContenderProcess
from bench.peers.environment import Absent, contender, own_contender, present, version
from transom.models import Decoder, DecoderConfig

SIZES = {"layers": 12, "d_model": 576, "heads": 9, "kv_heads": 3, "d_hidden": 1536, "vocabulary": 8192}
QUICK = {"layers": 4, "d_model": 192, "heads": 6, "kv_heads": 2, "d_hidden": 512, "vocabulary": 2048}
LONGEST, PROMPT = 128, 16


def writer(sizes: dict[str, Any]) -> Decoder:
    """With larger random parameters than training starts from: others write the same token for ever."""
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


def outer(model: Decoder) -> tuple[Tensor, Tensor]:
    """The embedding, and the norm behind the last block."""
    norm: Any = model.stack.closing
    return model.embedding.vectors, norm.weight


def hugging_face(model: Decoder, sizes: dict[str, int]) -> Any:
    """Hugging Face's Llama with our parameters; it turns halves of a head where we turn neighbours."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=sizes["vocabulary"], hidden_size=sizes["d_model"], intermediate_size=sizes["d_hidden"],
        num_hidden_layers=sizes["layers"], num_attention_heads=sizes["heads"], num_key_value_heads=sizes["kv_heads"],
        max_position_embeddings=LONGEST, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e4},
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    twin = LlamaForCausalLM(config).eval()
    words, norm = outer(model)
    state = {"model.embed_tokens.weight": words, "lm_head.weight": words, "model.norm.weight": norm}
    for number, block in blocks(model):
        names = named(block)
        for letter, heads in (("q_proj", sizes["heads"]), ("k_proj", sizes["kv_heads"])):
            names[f"self_attn.{letter}"] = halves(names[f"self_attn.{letter}"], heads)
        state |= {f"model.layers.{number}.{name}.weight": tensor for name, tensor in names.items()}
    twin.load_state_dict(state)
    return twin


def named(block: Any) -> dict[str, Tensor]:
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


def halves(W: Tensor, heads: int) -> Tensor:
    """Rows in pairs (0, 1), (2, 3) … of each head, put where halves are paired: all first ones, then all second."""
    return W.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def for_llama_cpp(model: Decoder, folder: Path) -> Path:
    """Our parameters by llama.cpp's names, for the script that writes the GGUF file: it turns neighbours as we do."""
    from safetensors.torch import save_file

    names = {
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    words, norm = outer(model)
    found = {"token_embd.weight": words, "output_norm.weight": norm}
    for number, block in blocks(model):
        found |= {f"blk.{number}.{names[name]}.weight": tensor for name, tensor in named(block).items()}
    save_file({name: tensor.detach().contiguous() for name, tensor in found.items()}, folder / "parameters.safetensors")
    return folder / "parameters.safetensors"


def prompt(sizes: dict[str, int]) -> Tensor:
    return torch.randint(sizes["vocabulary"], (1, PROMPT), generator=torch.Generator().manual_seed(1))


def prepare(name: str, sizes: dict[str, int], new: int) -> Work:
    """A contender of this interpreter, for a process of its own: it gives the new tokens."""
    model, given = writer(sizes), prompt(sizes)
    if name == "Transom":
        write = partial(model.generate, given, max_new_tokens=new, eos_token_id=None)
    else:
        settings = {"do_sample": False, "max_new_tokens": new, "eos_token_id": None}
        twin = hugging_face(model, sizes)
        write = partial(twin.generate, input_ids=given, attention_mask=torch.ones_like(given), **settings)

    @torch.no_grad()
    def work() -> list[int]:
        found = write()
        assert isinstance(found, Tensor)
        return found[0, PROMPT:].tolist()

    return work


def contenders(
    sizes: dict[str, int], new: int, options: Namespace, folder: Path
) -> tuple[dict[str, ContenderProcess], dict[str, str]]:
    """Each as a process; and why some are not here."""
    found = {name: own_contender(__name__, [name, sizes, new], options.threads) for name in ("Transom", "Hugging Face")}
    try:
        if options.quick:
            raise Absent("left out of a quick run")
        present("llama.cpp")
    except Absent as reason:
        note(f"llama.cpp is left out: {reason}")
        return found, {"llama.cpp": str(reason)}
    told = {**sizes, "new": new, "threads": options.threads, "longest": LONGEST, "prompt": prompt(sizes)[0].tolist()}
    return found | {"llama.cpp": contender("llama_cpp_generation", str(for_llama_cpp(writer(sizes), folder)), told)}, {}


def run(options: Namespace) -> int:
    """Measure and print."""
    sizes, new = (QUICK, 16) if options.quick else (SIZES, 64)
    with tempfile.TemporaryDirectory() as folder:
        who, missing = contenders(sizes, new, options, Path(folder))
        note(f"{len(who)} processes in turn, twice, {new} tokens each …")
        times = interleaved(who, 8 if options.quick else 16, 10 if options.quick else 90, missing)
    written = {name: who[name].found for name in times}
    if any(tokens != written["Transom"] for tokens in written.values()):
        raise RuntimeError(f"not all wrote the same tokens, so no time counts: {written}")
    result = {
        "machine": machine(),
        "sizes": sizes,
        "new_tokens": new,
        "milliseconds_a_step": {name: 1e3 * time["best"] / new for name, time in times.items()},
        "median_milliseconds_a_step": {name: 1e3 * time["median"] / new for name, time in times.items()},
        "versions": {name: version(name) for name in times if name != "Transom"},
        "unsteady": unsteady(times),
        "not run": missing,
    }
    answer(options, result, table(result))
    return 0


def table(result: dict[str, Any]) -> str:
    lines = [f"{'':<14}{'ms a step':>10}{'median':>9}{'÷ Transom':>11}{'tokens/s':>10}"]
    own = result["milliseconds_a_step"]["Transom"]
    for name, time in result["milliseconds_a_step"].items():
        median = result["median_milliseconds_a_step"][name]
        lines.append(f"{name:<14}{time:>10.2f}{median:>9.2f}{time / own:>11.2f}{1e3 / time:>10,.0f}")
    lines += [f"{name:<14}not run: {why}" for name, why in result["not run"].items()]
    return "\n".join(lines)
