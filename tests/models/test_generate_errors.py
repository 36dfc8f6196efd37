"""Every complaint of generate, matched whole."""

import re

import pytest
import torch
from models.small import decoder, encoder_decoder

from transom.models import GenerationConfig
from transom.names import Misfit

PROMPT = torch.full((2, 5), 7)


def complains(words, act, *given, **settings):
    with pytest.raises(Misfit, match=f"^{re.escape(words)}$"):
        act(*given, **settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be a whole number from 1 on, but got 0; give one"),
        ({"max_length": 1.5}, "max_length must be a whole number from 1 on, but got 1.5; give one"),
        ({"num_beams": None}, "num_beams must be a whole number from 1 on, but got None; give one"),
        ({"num_return_sequences": 0}, "num_return_sequences must be a whole number from 1 on, but got 0; give one"),
        ({"min_new_tokens": -1}, "min_new_tokens must be a whole number from 0 on, but got -1; give one"),
        ({"top_k": -1}, "top_k must be a whole number from 0 on, but got -1; give one"),
        ({"temperature": 0.0}, "temperature must be a number above 0, but got 0.0; 1.0 changes nothing"),
        ({"repetition_penalty": -1}, "repetition_penalty must be a number above 0, but got -1; 1.0 changes nothing"),
        ({"length_penalty": float("nan")}, "length_penalty must be a number, but got nan; 1.0 changes nothing"),
        ({"top_p": 1.5}, "top_p must be a number from 0 to 1, but got 1.5; leave it out for none"),
        ({"min_p": -0.1}, "min_p must be a number from 0 to 1, but got -0.1; leave it out for none"),
        ({"eos_token_id": (2, -1)}, "eos_token_id must be a whole number from 0 on, but got -1; give one"),
        ({"stop_strings": ("a", "")}, "stop_strings must hold text, but got ''; leave it out for none"),
        ({"do_sample": 1}, "do_sample must be true or false, but got 1; choose one"),
        (
            {"early_stopping": "soon"},
            "early_stopping must be true, false or 'never', but got 'soon'; choose one",
        ),
        (
            {"do_sample": True, "num_beams": 3},
            "beam search takes the likeliest, but do_sample came with num_beams=3; leave one of the two out",
        ),
        (
            {"num_return_sequences": 3, "num_beams": 2},
            "num_beams=2 find as many sequences, but num_return_sequences=3 came;"
            " raise num_beams, or sample with do_sample",
        ),
    ],
)
def test_settings_that_no_writing_has(settings, words):
    complains(words, GenerationConfig, **settings)
    with pytest.raises(Misfit, match=r"^generate(:| does not fit:) "):
        decoder().generate(PROMPT, **settings)


def test_an_unknown_setting_is_told_the_nearest():
    complains("generate has no setting 'num_beam'; did you mean 'num_beams'?", decoder().generate, PROMPT, num_beam=3)
    complains(
        "generate does not fit: Expected `int | null`, got `str` - at `$.top_k`; mend that setting",
        decoder().generate,
        PROMPT,
        top_k="5",
    )


@pytest.mark.usefixtures("own_errors")
def test_prompts_that_nothing_can_follow():
    model = decoder()
    complains(
        "generate takes tokens as (batch, token), but they are (token=5) of torch.int64;"
        " a single sequence goes in as tokens[None]",
        model.generate,
        PROMPT[0],
    )
    complains(
        "generate takes tokens as (batch, token), but they are (2, 5) of torch.float32;"
        " a single sequence goes in as tokens[None]",
        model.generate,
        PROMPT.float(),
    )
    complains(
        "each prompt needs a token, but they are empty; begin with the start token", model.generate, PROMPT[:, :0]
    )
    complains(
        "each prompt needs a token, but row 1 has none; give it the start token",
        model.generate,
        [[5, 7], []],
    )
    complains(
        "real must be (batch=2, token=5), as tokens are (batch=2, token=5), but it is (batch=2, token=3);"
        " give one entry per token, cached ones included",
        model.generate,
        PROMPT,
        torch.ones(2, 3, dtype=torch.bool),
    )
    complains(
        "source_real must be bool, True for real tokens, but it is torch.int64; use source_real.bool()",
        encoder_decoder().generate,
        PROMPT,
        torch.ones(2, 5, dtype=torch.int64),
    )


def test_no_room_to_write_in():
    complains(
        "max_length=5 leaves no room behind a prompt of 5 tokens; raise it, or shorten the prompt",
        decoder().generate,
        PROMPT,
        max_length=5,
    )
    complains(
        "the model's longest=3 leaves no room behind a prompt of 5 tokens; raise it, or shorten the prompt",
        decoder(longest=3).generate,
        PROMPT,
    )
    complains(
        "the model has positions for 7 tokens, but 12 were asked for; ask for max_length=7 or fewer",
        encoder_decoder(longest=7, positions="learned").generate,
        PROMPT,
        max_new_tokens=11,
    )


def test_what_else_a_call_may_lack():
    model = decoder()
    complains(
        "stop_strings are looked for in text, but no tokenizer came; give tokenizer",
        model.generate,
        PROMPT,
        stop_strings="a",
    )
    complains(
        "a streamer is told each token as it is chosen, but num_beams=3 may still change them; use num_beams=1",
        model.generate,
        PROMPT,
        num_beams=3,
        streamer=print,
    )
    complains(
        "there are 4 rows to draw, but 2 seeds came; give one each, or one for all",
        model.generate,
        PROMPT,
        do_sample=True,
        num_return_sequences=2,
        seed=[1, 2],
    )
