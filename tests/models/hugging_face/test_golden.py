"""Trained models with known answers: a writer's text, and published weights, vectors and logits of a small sorter."""

import base64
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import transom
from transom import models

GOLDEN = Path(__file__).parents[4] / "shared" / "data" / "golden"
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the trained models are not at hand (shared/data/golden)")
STORY = "Once upon a time, there was a little girl named Lily."
# The order of the tensors in a file of llama2.c, and their names in Transom.
LLAMA2_C = (
    "norm_attention.weight",
    "attention.W_Q.weight",
    "attention.W_K.weight",
    "attention.W_V.weight",
    "attention.W_O.weight",
    "norm_feed_forward.weight",
    "feed_forward.W_gate.weight",
    "feed_forward.W_down.weight",
    "feed_forward.W_up.weight",
)


def load_stories() -> models.Decoder:
    """stories260K, from llama2.c's format: seven sizes, then every tensor of all layers together."""
    content = (GOLDEN / "stories260K.bin").read_bytes()
    d_model, d_hidden, layers, heads, kv_heads, vocabulary, longest = struct.unpack("7i", content[:28])
    config = models.DecoderConfig(
        vocabulary=vocabulary,
        d_model=d_model,
        d_hidden=d_hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        longest=longest,
        positions="rotary",
        norm="rms",
        arrangement="pre_norm",
        feed_forward="swiglu",
        bias=False,
        scaled=False,
        padding=None,
    )
    model = models.Decoder(config).eval()
    numbers, parameters = torch.frombuffer(bytearray(content[28:]), dtype=torch.float32), dict(model.named_parameters())
    names = [f"stack.blocks.{layer}.{name}" for name in LLAMA2_C for layer in range(layers)]
    with torch.no_grad():
        for name in ["embedding.vectors", *names, "stack.closing.weight"]:
            count = parameters[name].numel()
            parameters.pop(name).view(-1).copy_(numbers[:count])
            numbers = numbers[count:]
    assert not parameters
    return model


def read_pieces() -> list[str]:
    """The pieces of tok512.bin: a length, then a score, a length and the bytes of each."""
    content, pieces, at = (GOLDEN / "tok512.bin").read_bytes(), [], 4
    while at < len(content):
        (length,) = struct.unpack("i", content[at + 4 : at + 8])
        pieces.append(content[at + 8 : at + 8 + length].decode("utf-8", errors="replace"))
        at += 8 + length
    return pieces


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_stories260k_writes_its_known_text(engine, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", engine)
    tokens = load_stories().generate([[1]], max_new_tokens=60, eos_token_id=None)[0].tolist()
    pieces = read_pieces()
    assert "".join(pieces[token] for token in tokens[1:]).strip().startswith(STORY)


def read_tensors(file: str) -> dict[str, torch.Tensor]:
    """The tensors of a file of llm-viz's: base64 in JSON."""
    content = json.loads((GOLDEN / file).read_text(encoding="utf-8"))
    return {
        name: torch.from_numpy(np.frombuffer(base64.b64decode(one["data"]), dtype=np.float32).copy()).view(one["shape"])
        for name, one in content.items()
        if name != "config"
    }


def test_the_sorter_has_its_published_activations(tmp_path):
    tensors = read_tensors("gpt-nano-sort-model.json")
    maps = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # minGPT's are not transposed
    tensors = {name: (one.mT if name.endswith(maps) else one).contiguous() for name, one in tensors.items()}
    save_file(tensors, tmp_path / "model.safetensors")
    sizes = {"n_layer": 3, "n_head": 3, "n_embd": 48, "vocab_size": 3, "n_positions": 11}
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(config | sizes))
    model, known = models.from_hugging_face(tmp_path), read_tensors("gpt-nano-sort-t0-partials.json")
    tokens = known["idx"].long()
    with torch.no_grad(), transom.watch(model) as trace:
        hidden = model.hidden(tokens)
        logits = model.logits(hidden)
    torch.testing.assert_close(trace[0].weights(), known["attSm"], rtol=0, atol=1e-5)
    torch.testing.assert_close(hidden, known["ln_f"], rtol=0, atol=1e-4)
    torch.testing.assert_close(logits, known["lm_head"], rtol=0, atol=1e-4)
    torch.testing.assert_close(logits.softmax(dim=-1), known["probs"], rtol=0, atol=1e-5)
