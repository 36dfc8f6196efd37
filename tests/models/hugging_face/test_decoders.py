"""Decoders of transformers in Transom: the same logits and texts, nothing lost by saving, and back again equal."""

import pytest
import torch
from models.hugging_face.families import DECODERS, assert_close, assert_same_tensors, build
from models.small import padded, rows

from transom import models


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(67)


each = pytest.mark.parametrize("name", DECODERS)


@each
@torch.no_grad()
def test_logits_are_those_of_transformers(name):
    theirs = build(*DECODERS[name])
    ours = models.from_hugging_face(theirs)
    tokens = torch.stack(rows(23, 23, 23, vocabulary=41))
    assert_close(ours(tokens), theirs(tokens).logits)


@each
@torch.no_grad()
def test_texts_are_those_of_transformers(name):
    theirs = build(*DECODERS[name])
    ours = models.from_hugging_face(theirs)
    tokens, real = padded(rows(7, 3, 11, vocabulary=41), "left")
    for settings in ({"num_beams": 1}, {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.7}):
        expected = theirs.generate(
            tokens, attention_mask=real.long(), max_new_tokens=13, do_sample=False, pad_token_id=3, **settings
        )
        found = ours.generate(tokens, real, max_new_tokens=13, pad_token_id=3, **settings)
        assert torch.equal(found[:, : expected.shape[1]], expected)


@each
@torch.no_grad()
def test_nothing_is_lost_by_saving_and_back_again_it_is_equal(name, tmp_path):
    theirs = build(*DECODERS[name])
    theirs.save_pretrained(tmp_path / "theirs")
    ours = models.from_hugging_face(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    again = models.to_hugging_face(models.from_pretrained(tmp_path / "ours"))
    assert_same_tensors(again, theirs)
    tokens = torch.stack(rows(23, 23, 23, vocabulary=41))
    assert torch.equal(again(tokens).logits, theirs(tokens).logits)
    assert again.generation_config.eos_token_id == theirs.generation_config.eos_token_id
