"""Every error of generate, with its whole message."""

from types import SimpleNamespace

import pytest
import torch
from models.small import assert_misfit, decoder, encoder_decoder

from transom.models import GenerationConfig
from transom.names import Misfit

PROMPT = torch.full((2, 5), 7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be a whole number, 1 or more, but got 0; give one"),
        ({"max_length": 1.5}, "max_length must be a whole number, 1 or more, but got 1.5; give one"),
        ({"num_beams": None}, "num_beams must be a whole number, 1 or more, but got None; give one"),
        ({"num_return_sequences": 0}, "num_return_sequences must be a whole number, 1 or more, but got 0; give one"),
        ({"min_new_tokens": -1}, "min_new_tokens must be a whole number, 0 or more, but got -1; give one"),
        ({"top_k": -1}, "top_k must be a whole number, 0 or more, but got -1; give one"),
        ({"temperature": 0.0}, "temperature must be a number above 0, but got 0.0; 1.0 changes nothing"),
        ({"repetition_penalty": -1}, "repetition_penalty must be a number above 0, but got -1; 1.0 changes nothing"),
        ({"length_penalty": float("nan")}, "length_penalty must be a number, but got nan; 1.0 changes nothing"),
        ({"top_p": 1.5}, "top_p must be a number from 0 to 1, but got 1.5; leave it out for none"),
        ({"min_p": -0.1}, "min_p must be a number from 0 to 1, but got -0.1; leave it out for none"),
        ({"eos_token_id": (2, -1)}, "eos_token_id must be a whole number, 0 or more, but got -1; give one"),
        ({"stop_strings": ("a", "")}, "stop_strings must hold text, but got ''; leave it out for none"),
        ({"do_sample": 1}, "do_sample must be true or false, but got 1; choose one"),
        (
            {"early_stopping": "soon"},
            "early_stopping must be true, false or 'never', but got 'soon'; choose one",
        ),
        (
            {"do_sample": True, "num_beams": 3},
            "beam search does not sample, but do_sample came with num_beams=3; leave one of the two out",
        ),
        (
            {"num_return_sequences": 3, "num_beams": 2},
            "num_beams=2 finds as many sequences, but num_return_sequences=3 came;"
            " raise num_beams, or sample with do_sample",
        ),
    ],
)
def test_invalid_settings(settings, message):
    assert_misfit(message, GenerationConfig, **settings)
    with pytest.raises(Misfit, match=r"^generate(:| does not fit:) "):
        decoder().generate(PROMPT, **settings)


def test_the_error_for_an_unknown_setting_suggests_the_nearest():
    assert_misfit(
        "generate has no setting 'num_beam'; did you mean 'num_beams'?", decoder().generate, PROMPT, num_beam=3
    )
    assert_misfit(
        "generate does not fit: Expected `int | null`, got `str` - at `$.top_k`; correct that setting",
        decoder().generate,
        PROMPT,
        top_k="5",
    )


@pytest.mark.usefixtures("own_errors")
def test_prompts_that_nothing_can_follow():
    model = decoder()
    assert_misfit(
        "generate takes tokens as (batch, token), but they are (token=5) of torch.int64;"
        " a single sequence goes in as tokens[None]",
        model.generate,
        PROMPT[0],
    )
    assert_misfit(
        "generate takes tokens as (batch, token), but they are (2, 5) of torch.float32;"
        " a single sequence goes in as tokens[None]",
        model.generate,
        PROMPT.float(),
    )
    assert_misfit(
        "each prompt needs a token, but they are empty; begin with the start token", model.generate, PROMPT[:, :0]
    )
    assert_misfit(
        "each prompt needs a token, but row 1 has none; give it the start token",
        model.generate,
        [[5, 7], []],
    )
    assert_misfit(
        "real must be (batch=2, token=5), as tokens are (batch=2, token=5), but it is (batch=2, token=3);"
        " give one entry per token, cached ones included",
        model.generate,
        PROMPT,
        torch.ones(2, 3, dtype=torch.bool),
    )
    assert_misfit(
        "source_real must be bool, True for real tokens, but it is torch.int64; use source_real.bool()",
        encoder_decoder().generate,
        PROMPT,
        torch.ones(2, 5, dtype=torch.int64),
    )


def test_no_room_for_new_tokens():
    assert_misfit(
        "max_length=5 leaves no room behind a prompt of 5 tokens; raise it, or shorten the prompt",
        decoder().generate,
        PROMPT,
        max_length=5,
    )
    assert_misfit(
        "the model's longest=3 leaves no room behind a prompt of 5 tokens; raise it, or shorten the prompt",
        decoder(longest=3).generate,
        PROMPT,
    )
    assert_misfit(
        "the model has positions for 7 tokens, but 12 are asked for; ask for max_length=7 or fewer",
        encoder_decoder(longest=7, positions="learned").generate,
        PROMPT,
        max_new_tokens=11,
    )


def test_other_arguments_that_do_not_fit():
    model = decoder()
    assert_misfit(
        "stop_strings are searched in text, but no tokenizer came; give tokenizer",
        model.generate,
        PROMPT,
        stop_strings="a",
    )
    assert_misfit(
        "a streamer gets each token as it is chosen, but num_beams=3 may still change them; use num_beams=1",
        model.generate,
        PROMPT,
        num_beams=3,
        streamer=print,
    )
    assert_misfit(
        "a streamer with put and end takes one sequence, but there are 2 to generate; give a function of (row, token)",
        model.generate,
        PROMPT,
        streamer=SimpleNamespace(put=print, end=print),
    )
    assert_misfit(
        "there are 4 rows to draw, but 2 seeds came; give one each, or one for all",
        model.generate,
        PROMPT,
        do_sample=True,
        num_return_sequences=2,
        seed=[1, 2],
    )
