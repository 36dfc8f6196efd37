"""A decoder without the causal mask: it sees later tokens, has no cache, and can still generate."""

import pytest
import torch
from models.small import assert_misfit, decoder, padded, rows

from transom.layers import POSITIONS
from transom.models import DecoderConfig

SIZES = {"vocabulary": 23, "layers": 2, "d_model": 12, "heads": 2, "d_hidden": 17}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(47)


def likeliest(model, row, real=None):
    return int(model(row[None], real)[0, -1].argmax())


@torch.no_grad()
def test_a_token_sees_later_ones():
    tokens = torch.stack(rows(11))
    changed = tokens.clone()
    changed[:, 7] = (tokens[:, 7] - 4 + 1) % 19 + 4
    model = decoder(causal=False)
    assert not torch.equal(model.hidden(tokens)[:, :7], model.hidden(changed)[:, :7])


@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_nobody_sees_padding(side):
    model, prompts = decoder(causal=False, positions="rotary"), rows(7, 3, 11)
    tokens, real = padded(prompts, side)
    alone = torch.cat([model.hidden(row[None])[0] for row in prompts])
    torch.testing.assert_close(model.hidden(tokens, real)[real], alone, rtol=0, atol=2e-5)


@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_each_token_follows_from_a_forward_pass_over_all(positions):
    model = decoder(causal=False, positions=positions, tying="none")
    prompts = rows(5, 3)
    tokens, real = padded(prompts, "left")
    sequences = model.generate(tokens, real, max_new_tokens=7, eos_token_id=None)
    for row, sequence in zip(prompts, sequences, strict=True):
        for _ in range(7):
            row = torch.cat([row, torch.tensor([likeliest(model, row)])])
        assert sequence[-len(row) :].tolist() == row.tolist()


@torch.no_grad()
def test_learned_positions_slide_here_too():
    model = decoder(causal=False, positions="learned", tying="none", longest=5)
    row = rows(3)[0]
    sequences = model.generate(row[None], max_new_tokens=6, eos_token_id=None)
    for _ in range(6):
        row = torch.cat([row, torch.tensor([likeliest(model, row[-5:])])])
    assert sequences[0].tolist() == row.tolist()


@torch.no_grad()
def test_beams_of_a_batch_are_those_of_each_row_alone():
    model = decoder(causal=False, tying="none")
    prompts = rows(5, 3)
    settings = {"max_new_tokens": 5, "num_beams": 3, "eos_token_id": None}
    together = model.generate(*padded(prompts, "left"), **settings)
    for prompt, sequence in zip(prompts, together, strict=True):
        alone = model.generate(prompt[None], **settings)
        assert sequence[-alone.shape[1] :].tolist() == alone[0].tolist()


def test_there_is_no_cache():
    message = (
        "a cache keeps the vectors of earlier tokens, but with causal=False each new token changes them;"
        " give all tokens at once"
    )
    model = decoder(causal=False)
    assert_misfit(message, model.new_cache)
    assert_misfit(message, model, torch.stack(rows(5)), cache=decoder().new_cache())


def test_the_mask_is_on_by_default():
    assert DecoderConfig(**SIZES).causal
    assert_misfit("causal must be true or false, but got 0; choose one", DecoderConfig, **SIZES, causal=0)
