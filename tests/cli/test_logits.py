"""`transom logits`: what it prints is what the library gives."""

import json

import pytest

import transom
from transom.cli import main
from transom.runner import load_text_model

TEXT = "the cat sat"


@pytest.mark.parametrize("origin", ["transom", "hf"])
def test_parts_and_layers_are_those_of_the_library(model_folder, capsys, origin):
    folder = model_folder(origin, "decoder")
    loaded = load_text_model(str(folder))
    inputs = loaded.encode_text(TEXT).inputs
    assert main(["logits", TEXT, "--model", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = transom.attribute_logit(loaded.model, inputs)
    assert found["value"] == expected.value
    assert found["receipt"]["holds"]
    assert [part["value"] for part in found["parts"]] == [part.value for part in expected.parts]
    assert found["tokens"] == loaded.token_strings([expected.target])
    assert main(["logits", TEXT, "--model", str(folder), "--lens", "--row", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["blocks", "logit", "chance", "rank", "likeliest"]
    assert len(lines) == 1 + len(transom.logit_lens(loaded.model, inputs, row=1).rows)


def test_a_token_is_named_as_the_model_spells_it(model_folder, capsys):
    folder = str(model_folder("transom", "decoder"))
    loaded = load_text_model(folder)
    (number, *_) = loaded.encode_text(TEXT).ids
    word = loaded.token_strings([number])[0]
    assert main(["logits", TEXT, "--model", folder, "--token", word, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["target"] == number
    assert main(["logits", TEXT, "--model", folder, "--token", "cat sat on"]) == 2
    assert "should be one token of" in capsys.readouterr().err
    assert main(["logits", TEXT, "--model", folder, "--lens", "--against", word]) == 2
    assert "--lens follows one token, but --against names another" in capsys.readouterr().err


def test_an_encoder_has_no_logits_of_tokens(model_folder, capsys):
    assert main(["logits", TEXT, "--model", str(model_folder("hf", "encoder"))]) == 2
    assert "parts of a logit are known for Transom's decoders" in capsys.readouterr().err
