"""llama.cpp's greedy generation, in an interpreter that has it: what `bench llama` compares with Transom.

    python -m bench.peers.llama_cpp_generation '"parameters.safetensors"' '{"layers": 12, …, "new": 64}'

writes the parameters to a GGUF file in float32 (no quantisation, no vocabulary), loads it, and answers requests (see
`contender_loop`). llama.cpp comes from the wheel cyllama, built for any x86-64 machine with AVX2; one compiled for this
machine may be faster.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bench.peers.contender_loop import Work, answer_requests

FLOAT32 = 0  # GGML_TYPE_F32


def write_gguf(parameters: Path, sizes: dict[str, Any]) -> Path:
    """Write a safetensors file of parameters as GGUF beside it."""
    import gguf  # pyright: ignore[reportMissingImports]
    from safetensors.numpy import load_file

    path = parameters.with_suffix(".gguf")
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(sizes["layers"])
    writer.add_context_length(sizes["longest"])
    writer.add_embedding_length(sizes["d_model"])
    writer.add_feed_forward_length(sizes["d_hidden"])
    writer.add_head_count(sizes["heads"])
    writer.add_head_count_kv(sizes["kv_heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(sizes["d_model"] // sizes["heads"])
    writer.add_rope_freq_base(1e4)
    writer.add_vocab_size(sizes["vocabulary"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("no_vocab")
    for name, tensor in load_file(parameters).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def prepare_greedy(path: Path, sizes: dict[str, Any]) -> Work:
    """Decode the prompt in one batch, then one token at a time with llama.cpp's greedy sampler."""
    from cyllama.llama import llama_cpp  # pyright: ignore[reportMissingImports]

    llama_cpp.disable_logging()
    model = llama_cpp.LlamaModel(str(path), llama_cpp.LlamaModelParams())
    settings = llama_cpp.LlamaContextParams()
    settings.n_ctx = settings.n_batch = sizes["longest"]
    settings.n_threads = settings.n_threads_batch = sizes["threads"]
    settings.type_k = settings.type_v = FLOAT32
    context = llama_cpp.LlamaContext(model, settings)
    sampler = llama_cpp.LlamaSampler(llama_cpp.LlamaSamplerChainParams())
    sampler.add_greedy()

    def work() -> list[int]:
        context.kv_cache_clear()
        tokens, generated, past = sizes["prompt"], [], 0
        for _ in range(sizes["new"]):
            context.decode(llama_cpp.llama_batch_get_one(tokens, past))
            past += len(tokens)
            tokens = [sampler.sample(context, -1)]
            generated += tokens
        return generated

    return work


if __name__ == "__main__":
    sizes = json.loads(sys.argv[2])
    answer_requests(prepare_greedy(write_gguf(Path(json.loads(sys.argv[1])), sizes), sizes))
