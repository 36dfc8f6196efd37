"""Encoders of transformers in Transom: the same vectors and logits, nothing lost by saving, and back again equal."""

import json

import pytest
import torch
from models.hugging_face.families import ENCODERS, assert_close, assert_same_tensors, build
from models.small import assert_misfit, padded, rows

from transom import models

each = pytest.mark.parametrize("name", ENCODERS)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(73)


def outputs(ours, theirs, tokens, real, types):
    """What both models give for the same tokens, in pairs."""
    inputs = {"attention_mask": real.long()} | ({} if types is None else {"token_type_ids": types})
    result = theirs(tokens, **inputs)
    if hasattr(result, "last_hidden_state"):
        yield ours.hidden(tokens, real, types)[real], result.last_hidden_state[real]
        if getattr(result, "pooler_output", None) is not None:
            yield ours.pool(tokens, real, types), result.pooler_output
    elif ours.config.masked_tokens:
        yield ours.masked_logits(tokens, real, types)[real], result.logits[real]
    else:
        assert ours.config.labels == ("good", "bad", "neither")
        yield ours(tokens, real, types), result.logits


@each
@torch.no_grad()
def test_vectors_and_logits_are_those_of_transformers(name):
    theirs = build(*ENCODERS[name])
    ours = models.from_hugging_face(theirs)
    tokens, real = padded(rows(7, 3, 11, vocabulary=41))
    tokens[~real] = theirs.config.pad_token_id
    types = torch.randint(0, 2, tokens.shape) if name.startswith("bert") else None
    pairs = list(outputs(ours, theirs, tokens, real, types))
    assert pairs
    for found, expected in pairs:
        assert_close(found, expected)


@each
@torch.no_grad()
def test_nothing_is_lost_by_saving_and_back_again_it_is_equal(name, tmp_path):
    theirs = build(*ENCODERS[name])
    theirs.save_pretrained(tmp_path / "theirs")
    models.from_hugging_face(tmp_path / "theirs").save_pretrained(tmp_path / "ours")
    again = models.to_hugging_face(models.from_pretrained(tmp_path / "ours"))
    assert type(again) is type(theirs)
    assert_same_tensors(again, theirs)
    assert again.config.id2label == theirs.config.id2label


def test_sentence_vectors_are_the_mean_if_the_folder_says_so(tmp_path):
    theirs = build(*ENCODERS["bert"])
    theirs.save_pretrained(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    file = tmp_path / "1_Pooling" / "config.json"
    file.write_text(json.dumps({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}))
    tokens, real = padded(rows(7, 3, vocabulary=41))
    with torch.no_grad():
        vectors = theirs(tokens, attention_mask=real.long()).last_hidden_state
        expected = (vectors * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
        ours = models.from_hugging_face(tmp_path)
        assert_close(ours.pool(tokens, real), expected)
        again = models.to_hugging_face(ours)
        assert not [name for name in again.state_dict() if "pooler" in name]
        assert_close(again(tokens, attention_mask=real.long()).last_hidden_state[real], vectors[real])
        file.write_text(json.dumps({"pooling_mode_cls_token": True}))
        assert_close(models.from_hugging_face(tmp_path).pool(tokens, real), vectors[:, 0])
    file.write_text(json.dumps({"pooling_mode_max_tokens": True}))
    assert_misfit(
        f"{file} should pool by the mean or by the first token, but it says pooling_mode_max_tokens; take another"
        " model",
        models.from_hugging_face,
        tmp_path,
    )


def test_an_encoder_without_a_head_says_so():
    model = models.from_hugging_face(build(*ENCODERS["bert"]))
    assert_misfit(
        "this encoder predicts no masked tokens; use hidden or pool, or build it with masked_tokens",
        model.masked_logits,
        torch.tensor([[5, 7]]),
    )
