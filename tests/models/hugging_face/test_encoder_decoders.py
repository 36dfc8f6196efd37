"""Encoder–decoders of transformers in Transom: the same logits and texts, nothing lost, and back again equal."""

import pytest
import torch
from models.hugging_face.families import ENCODER_DECODERS, T5, assert_close, assert_same_tensors, build
from models.small import assert_misfit, encoder_decoder, padded, rows

from transom import models

each = pytest.mark.parametrize("name", ENCODER_DECODERS)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(79)


@each
@torch.no_grad()
def test_logits_are_those_of_transformers(name):
    theirs = build(*ENCODER_DECODERS[name])
    ours = models.from_hugging_face(theirs)
    (source, real), target = padded(rows(17, 3, 11, vocabulary=41)), torch.stack(rows(19, 19, 19, vocabulary=41))
    expected = theirs(source, attention_mask=real.long(), decoder_input_ids=target).logits
    assert_close(ours(source, target, real), expected)


@each
@pytest.mark.parametrize("engine", ["auto", "torch"])
@torch.no_grad()
def test_texts_are_those_of_transformers(name, engine, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", engine)
    theirs = build(*ENCODER_DECODERS[name])
    ours = models.from_hugging_face(theirs)
    source, real = padded(rows(17, 3, 11, vocabulary=41))
    rules = {"bad_words_ids": [[3], [5, 7]], "min_length": 4, "suppress_tokens": [11], "begin_suppress_tokens": [13]}
    for settings in ({"num_beams": 1}, {"num_beams": 3, "num_return_sequences": 2}, {"num_beams": 2, **rules}):
        expected = theirs.generate(source, attention_mask=real.long(), max_new_tokens=9, do_sample=False, **settings)
        found = ours.generate(source, real, max_new_tokens=9, **settings)
        assert torch.equal(found[:, : expected.shape[1]], expected), settings


@each
@torch.no_grad()
def test_nothing_is_lost_by_saving_and_back_again_it_is_equal(name, tmp_path):
    theirs = build(*ENCODER_DECODERS[name])
    theirs.save_pretrained(tmp_path / "theirs")
    models.from_hugging_face(tmp_path / "theirs").save_pretrained(tmp_path / "ours")
    again = models.to_hugging_face(models.from_pretrained(tmp_path / "ours"))
    assert_same_tensors(again, theirs)
    assert again.generation_config.forced_eos_token_id == theirs.generation_config.forced_eos_token_id


@torch.no_grad()
def test_a_translator_of_our_own_is_a_marian_model():
    ours = encoder_decoder(logits_bias=True, d_model=10, longest=31)
    theirs = models.to_hugging_face(ours)
    assert type(theirs).__name__ == "MarianMTModel"
    (source, real), target = padded(rows(7, 3)), torch.stack(rows(5, 5))
    found = theirs(source, attention_mask=real.long(), decoder_input_ids=target).logits
    torch.testing.assert_close(found, ours(source, target, real), rtol=0, atol=1e-4)


@torch.no_grad()
def test_an_output_of_its_own_is_kept(tmp_path):
    theirs = build("T5ForConditionalGeneration", T5 | {"tie_word_embeddings": False})
    theirs.lm_head.weight = torch.nn.Parameter(torch.randn(41, 12))
    ours = models.from_hugging_face(theirs)
    assert (ours.config.tying, ours.config.logits_scale) == ("embeddings", 1.0)
    source, target = torch.stack(rows(7, 7, vocabulary=41)), torch.stack(rows(5, 5, vocabulary=41))
    assert_close(ours(source, target), theirs(source, decoder_input_ids=target).logits)
    assert_misfit(
        "no model of Hugging Face's has all parts of this one; t5 comes nearest, but there the output is always tied to"
        " the embedding in transformers 5, but this model's is its own; build the model with what it has",
        models.to_hugging_face,
        ours,
        "t5",
    )


def test_sides_of_different_sizes_are_refused():
    fields = ENCODER_DECODERS["bart"][1] | {"decoder_ffn_dim": 19}
    assert_misfit(
        "BartForConditionalGeneration has encoder_ffn_dim=17 and decoder_ffn_dim=19, but Transom's two sides have one"
        " size; take another model",
        models.from_hugging_face,
        build("BartForConditionalGeneration", fields),
    )


def test_positions_that_are_no_sinusoids_are_refused():
    theirs = build(*ENCODER_DECODERS["marian"])
    with torch.no_grad():
        theirs.model.decoder.embed_positions.weight[3, 5] += 1.0
    assert_misfit(
        "MarianMTModel should hold sinusoids in 'model.decoder.embed_positions.weight', but these are others; take"
        " another model",
        models.from_hugging_face,
        theirs,
    )
