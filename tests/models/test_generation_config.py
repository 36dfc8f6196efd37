"""An argument of generate that changes nothing gives a warning; the model's own settings do not."""

import re
import warnings

import pytest
import torch
from models.small import decoder, encoder_decoder

from transom.models import GenerationConfig
from transom.models.generation.config import NEEDS

PROMPT = torch.tensor([[5, 7, 11]])
SAMPLING = "do_sample=True"
# For each argument: a call in which it changes nothing, what it needs, and what to add to the call.
ROWS = {
    "temperature": ({"temperature": 0.5}, SAMPLING, {"do_sample": True}),
    "top_k": ({"top_k": 5}, SAMPLING, {"do_sample": True}),
    "top_p": ({"top_p": 0.9}, SAMPLING, {"do_sample": True}),
    "min_p": ({"min_p": 0.1}, SAMPLING, {"do_sample": True}),
    "seed": ({"seed": 3}, SAMPLING, {"do_sample": True}),
    "early_stopping": ({"early_stopping": True}, "num_beams above 1", {"num_beams": 2}),
    "length_penalty": (
        {"length_penalty": 0.6},
        "num_beams above 1 or return_scores=True",
        {"return_scores": True},
    ),
    "max_length": ({"max_length": 9, "max_new_tokens": 3}, "max_new_tokens=None", {"max_new_tokens": None}),
    "min_length": ({"min_length": 5, "eos_token_id": None}, "an eos_token_id", {"eos_token_id": 2}),
    "min_new_tokens": ({"min_new_tokens": 2, "eos_token_id": None}, "an eos_token_id", {"eos_token_id": 2}),
    "decoder_start_token_id": ({"decoder_start_token_id": 1}, "an encoder–decoder", None),
    "eos_token_id": ({"eos_token_id": 50256}, "a token of the vocabulary", {"eos_token_id": (50256, 7)}),
}
NEUTRAL = {
    "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": None, "early_stopping": False, "length_penalty": 1.0,
    "max_length": None, "min_new_tokens": 0, "eos_token_id": None,
}  # fmt: skip


@pytest.fixture(autouse=True)
def warnings_are_errors():
    torch.manual_seed(61)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def build_model(**settings):
    model = decoder()
    model.generation = GenerationConfig(max_length=9, **settings)
    return model


def test_every_row_of_the_table_is_tested():
    assert set(ROWS) == set(NEEDS)


def test_every_setting_is_in_the_table_or_works_by_itself():
    by_itself = {
        "do_sample", "num_beams", "max_new_tokens", "repetition_penalty", "no_repeat_ngram_size",
        "num_return_sequences",  # without beams or sampling it is an error
        "stop_strings",  # without a tokenizer it is an error
        "bad_words_ids", "suppress_tokens", "begin_suppress_tokens",
        "forced_bos_token_id", "forced_eos_token_id",
        "pad_token_id",  # whether a row ends early is not known before
    }  # fmt: skip
    assert set(GenerationConfig.__struct_fields__) == by_itself | (set(NEEDS) - {"seed"})


@pytest.mark.parametrize("name", ROWS)
def test_an_argument_without_effect_gives_a_warning(name):
    without_effect, needed, met = ROWS[name]
    value = without_effect[name]
    message = f"{name}={value!r} changes nothing without {needed}; give that too, or leave {name} out"
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        build_model().generate(PROMPT, **without_effect)
    if met is None:
        encoder_decoder().generate(PROMPT, max_new_tokens=3, **without_effect)
    else:
        build_model().generate(PROMPT, **without_effect | met)


def test_a_value_that_changes_nothing_gives_no_warning():
    build_model().generate(PROMPT, seed=None, **NEUTRAL)
    build_model().generate(PROMPT, do_sample=False, num_beams=1, num_return_sequences=1)


def test_the_models_own_settings_give_no_warning(tmp_path):
    settings = {
        "temperature": 0.7,
        "top_k": 5,
        "top_p": 0.9,
        "min_p": 0.1,
        "early_stopping": True,
        "length_penalty": 0.6,
    }
    model = build_model(**settings, decoder_start_token_id=5)
    model.generate(PROMPT)
    model.save_pretrained(tmp_path / "model")
    loaded = type(model).from_pretrained(tmp_path / "model")
    assert loaded.generation == model.generation
    loaded.generate(PROMPT, max_new_tokens=3)
    with pytest.warns(UserWarning, match=r"^top_p=0\.8 changes nothing without do_sample=True"):
        loaded.generate(PROMPT, top_p=0.8)
    loaded.generate(PROMPT, top_p=0.8, do_sample=True)
