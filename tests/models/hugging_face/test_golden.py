"""Trained models with known answers: a writer's text, and published weights, vectors and logits of a small sorter."""

import base64
import json
import math
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import transom
from bench.llama2_c import read_model, read_tokenizer
from transom import models

GOLDEN = Path(__file__).parents[4] / "shared" / "data" / "golden"
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the trained models are not at hand (shared/data/golden)")
# What llama2.c writes at temperature 0: 200 tokens of stories260K, from its tests, and the story of stories15M.
STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. "
    "One day, she saw a big, red ball. She wanted to play with it, but it was too high.\nLily's mom "
    'said, "Lily, let\'s go to the park." Lily was sad and didn\'t know what to do. She said, "I want '
    "to play with your ball, but I can't find it.\"\nLily was sad and didn't know what to do. She "
    "said, \"I'm sorry, Lily. I didn't know what to do.\"\nLily didn't want to help her mom, so she"
)
STORY_15M = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the "
    "sunshine. One day, she saw a big, red ball in the sky. It was the sun! She thought it was so "
    "pretty.\nLily wanted to play with the ball, but it was too high up in the sky. She tried to jump "
    "and reach it, but she couldn't. Then, she had an idea. She would use a stick to knock the ball "
    "down.\nLily found a stick and tried to hit the ball. But the stick was too short. She tried "
    "again and again, but she couldn't reach it. She felt sad.\nSuddenly, a kind man came by and saw "
    'Lily. He asked her what was wrong. Lily told him about the ball. The man smiled and said, "I '
    'have a useful idea!" He took out a long stick and used it to knock the ball down. Lily was so '
    "happy! She thanked the man and they played together in the sunshine."
)


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_stories260k_writes_its_known_text(engine, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", engine)
    model, tokenizer = read_model(GOLDEN / "stories260K.bin"), read_tokenizer(GOLDEN / "tok512.bin")
    tokens = model.generate([[1]], max_new_tokens=200, eos_token_id=None)[0].tolist()
    assert tokenizer.decode(tokens) == STORY


@pytest.mark.slow
def test_stories15m_writes_its_known_text(tmp_path):
    """TRANSOM_STORIES15M is a folder with stories15M.bin and tokenizer.bin."""
    folder = Path(os.environ.get("TRANSOM_STORIES15M", tmp_path))
    if not (folder / "stories15M.bin").is_file():
        pytest.skip("set TRANSOM_STORIES15M to a folder with stories15M.bin and tokenizer.bin of llama2.c")
    model, tokenizer = read_model(folder / "stories15M.bin"), read_tokenizer(folder / "tokenizer.bin")
    ids = tokenizer.template.wrap(tokenizer.encode("Once upon a time"))
    tokens = model.generate([ids], max_new_tokens=250 - len(ids), eos_token_id=None)[0].tolist()
    assert tokenizer.decode(tokens).startswith(STORY_15M)


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


class Ct2File:
    """The tensors of a model of CTranslate2, version 2: names, shapes and float32, one after another."""

    def __init__(self, path):
        self.content, self.at = path.read_bytes(), 0
        assert (self.number("I"), self.text(), self.number("I")) == (2, "TransformerBase", 2)
        self.tensors = dict(self.tensor() for _ in range(self.number("I")))

    def number(self, kind):
        (value,) = struct.unpack_from(f"<{kind}", self.content, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return value

    def text(self):
        length = self.number("H")
        self.at += length
        return self.content[self.at - length : self.at].rstrip(b"\0").decode()

    def tensor(self):
        name, axes = self.text(), self.number("B")
        shape, size = [self.number("I") for _ in range(axes)], self.number("B")
        assert size == 4
        count = self.number("I")
        numbers = np.frombuffer(self.content, "<f4", count, self.at).copy()
        self.at += 4 * count
        return name, torch.from_numpy(numbers).view(shape)


# The parts of a block, by their names in CTranslate2; its linear_0 of self-attention is Q, K and V, of attention Q.
CT2_BLOCK = {
    "self_attention/layer_norm": ("norm_attention",),
    "self_attention/linear_0": ("attention.W_Q", "attention.W_K", "attention.W_V"),
    "self_attention/linear_1": ("attention.W_O",),
    "attention/layer_norm": ("norm_cross",),
    "attention/linear_0": ("cross.W_Q",),
    "attention/linear_1": ("cross.W_K", "cross.W_V"),
    "attention/linear_2": ("cross.W_O",),
    "ffn/layer_norm": ("norm_feed_forward",),
    "ffn/linear_0": ("feed_forward.W_1",),
    "ffn/linear_1": ("feed_forward.W_2",),
}
CT2_ENDINGS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
WORDS = ["آتزمون", "آتشيسون", "آرباتشو", "محمد", "القاهرة"]  # the first is of CTranslate2's own tests: atzmon


def opennmt_positions(longest, d_model):
    """OpenNMT's sinusoids: sines, then cosines, of positions from 1 on; the slowest has a rate of 1/10,000."""
    rates = torch.exp(-torch.arange(d_model // 2) * (math.log(10_000) / (d_model // 2 - 1)))
    angles = torch.arange(1, longest + 1)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def place_tensor(name, tensor):
    """The parameters that a tensor of CTranslate2 is, by their names in Transom."""
    side, layer, rest = (
        name.split("/", 2)
        if "/layer_" in name and "layer_norm" not in name.split("/")[1]
        else (*name.split("/", 1), "")
    )
    if not rest:
        whole = {
            "encoder/embeddings/weight": "source_embedding.vectors",
            "decoder/embeddings/weight": "target_embedding.vectors",
            "decoder/projection/weight": "output",
            "decoder/projection/bias": "logits_bias",
        }
        ending = CT2_ENDINGS[name.rsplit("/", 1)[1]]
        return {whole.get(name, f"{side}.closing.{ending}"): tensor}
    part, ending = rest.rsplit("/", 1)
    block = f"{side}.blocks.{layer.removeprefix('layer_')}"
    parts = CT2_BLOCK[part]
    return {
        f"{block}.{one}.{CT2_ENDINGS[ending]}": piece
        for one, piece in zip(parts, tensor.chunk(len(parts)), strict=True)
    }


def load_transliteration() -> models.EncoderDecoder:
    config = models.EncoderDecoderConfig(
        vocabulary=43,
        source_vocabulary=51,
        d_model=32,
        d_hidden=128,
        heads=8,
        encoder_layers=6,
        decoder_layers=6,
        longest=64,
        positions="learned",
        arrangement="pre_norm",
        tying="none",
        logits_bias=True,
        padding=0,
    )
    found = {f"{side}_embedding.positions.vectors": opennmt_positions(64, 32) for side in ("source", "target")}
    for name, tensor in Ct2File(GOLDEN / "aren-transliteration" / "model.bin").tensors.items():
        found |= place_tensor(name, tensor)
    model = models.EncoderDecoder(config).eval()
    model.load_state_dict(found)  # strict: every tensor has its place
    return model


def read_vocabulary(name):
    return (GOLDEN / "aren-transliteration" / f"{name}_vocabulary.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_the_transliteration_model_writes_what_ctranslate2_writes(engine, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", engine)
    model, sources, targets = load_transliteration(), read_vocabulary("source"), read_vocabulary("target")
    rows = [[sources.index(letter) for letter in word] for word in WORDS]
    settings = {"decoder_start_token_id": 1, "eos_token_id": 2, "max_new_tokens": 30}
    found = ["".join(targets[token] for token in row.tolist() if token > 2) for row in model.generate(rows, **settings)]
    assert found[0] == "atzmon"
    ctranslate2 = pytest.importorskip("ctranslate2")
    peer = ctranslate2.Translator(str(GOLDEN / "aren-transliteration"))
    for beams in (1, 4):
        theirs = peer.translate_batch([list(word) for word in WORDS], beam_size=beams)
        ours = model.generate(rows, num_beams=beams, **settings)
        texts = ["".join(targets[token] for token in row.tolist() if token > 2) for row in ours]
        assert texts == ["".join(one.hypotheses[0]) for one in theirs]
