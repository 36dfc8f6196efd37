"""python -m bench.quantization: the same sentences in float32 and int8, on a model that is trained in the test."""

import json
import sys
import tomllib

import pytest
import torch
from models.small import encoder_decoder

from bench import quantization
from transom.models.quantization import dequantize_rows, quantize_rows
from transom.training.recipe import parse_recipe
from transom.training.train import train


def test_every_matrix_is_rounded_and_every_vector_stays():
    torch.manual_seed(3)
    model = encoder_decoder()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    quantization.round_matrices(model)
    for name, parameter in model.named_parameters():
        matrix = before[name].ndim == 2
        expected = dequantize_rows(*quantize_rows(before[name])) if matrix else before[name]
        assert torch.equal(parameter, expected)


@pytest.mark.slow
def test_it_prints_the_share_of_equal_texts_and_both_scores(tmp_path, monkeypatch, capsys):
    pairs = "".join(f"number {i} of {i % 7}\tnuméro {i} de {i % 7}\n" for i in range(90))
    (tmp_path / "pairs.tsv").write_text(pairs, encoding="utf-8")
    recipe = f"""task = "translate"
folder = "{tmp_path / "run"}"
data = {{ train = "{tmp_path / "pairs.tsv"}", format = "tsv", held_out = 5, test = 11 }}
model = {{ encoder_layers = 1, decoder_layers = 1, d_model = 16, d_hidden = 32, heads = 2 }}
tokens = {{ kind = "words" }}
train = {{ updates = 5, threads = 1 }}
judge = {{ write = false }}
"""
    (tmp_path / "recipe.toml").write_text(recipe)
    folder = train(parse_recipe(tomllib.loads(recipe), "the test"))
    args = ["quantization", str(tmp_path / "recipe.toml"), "--model", str(folder), "--sentences", "7", "--json"]
    monkeypatch.setattr(sys, "argv", args)
    quantization.main()
    found = json.loads(capsys.readouterr().out)
    assert found["sentences"] == 7
    assert 0.0 <= found["same"] <= 1.0
    assert all(0.0 <= found[name] <= 100.0 for name in ("bleu_float32", "bleu_int8"))
