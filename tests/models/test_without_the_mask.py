"""A decoder without the causal mask: it sees what follows, keeps nothing, and still can be asked to write."""

import re

import pytest
import torch
from models.small import decoder, padded, rows

from transom.layers import POSITIONS
from transom.models import DecoderConfig
from transom.names import Misfit

SIZES = {"vocabulary": 23, "layers": 2, "d_model": 12, "heads": 2, "d_hidden": 17}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(47)


def complains(words, act, *given, **parts):
    with pytest.raises(Misfit, match=f"^{re.escape(words)}$"):
        act(*given, **parts)


def likeliest(model, row, real=None):
    return int(model(row[None], real)[0, -1].argmax())


@torch.no_grad()
def test_a_token_sees_those_behind_it():
    tokens = torch.stack(rows(11))
    other = tokens.clone()
    other[:, 7] = (tokens[:, 7] - 4 + 1) % 19 + 4
    model = decoder(causal=False)
    assert not torch.equal(model.hidden(tokens)[:, :7], model.hidden(other)[:, :7])


@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_nobody_sees_padding(side):
    model, found = decoder(causal=False, positions="rotary"), rows(7, 3, 11)
    tokens, real = padded(found, side)
    alone = torch.cat([model.hidden(row[None])[0] for row in found])
    torch.testing.assert_close(model.hidden(tokens, real)[real], alone, rtol=0, atol=2e-5)


@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_each_token_is_written_from_a_whole_reading(positions):
    model = decoder(causal=False, positions=positions, tying="none")
    found = rows(5, 3)
    tokens, real = padded(found, "left")
    told = model.generate(tokens, real, max_new_tokens=7, eos_token_id=None)
    for row, written in zip(found, told, strict=True):
        for _ in range(7):
            row = torch.cat([row, torch.tensor([likeliest(model, row)])])
        assert written[-len(row) :].tolist() == row.tolist()


@torch.no_grad()
def test_learned_positions_slide_here_too():
    model = decoder(causal=False, positions="learned", tying="none", longest=5)
    row = rows(3)[0]
    told = model.generate(row[None], max_new_tokens=6, eos_token_id=None)
    for _ in range(6):
        row = torch.cat([row, torch.tensor([likeliest(model, row[-5:])])])
    assert told[0].tolist() == row.tolist()


@torch.no_grad()
def test_one_beam_of_several_is_read_as_it_stands():
    model = decoder(causal=False, tying="none")
    tokens, real = padded(rows(5, 3), "left")
    together = model.generate(tokens, real, max_new_tokens=5, num_beams=3, eos_token_id=None)
    for place, row in enumerate(rows_of(tokens, real)):
        alone = model.generate(row[None], max_new_tokens=5, num_beams=3, eos_token_id=None)
        assert together[place, -alone.shape[1] :].tolist() == alone[0].tolist()


def rows_of(tokens, real):
    return [row[here] for row, here in zip(tokens, real, strict=True)]


def test_there_is_no_cache():
    words = (
        "a cache keeps what tokens are once and for all, but with causal=False each new one changes those before it;"
        " give all tokens at once"
    )
    model = decoder(causal=False)
    complains(words, model.new_cache)
    complains(words, model, torch.stack(rows(5)), cache=decoder().new_cache())


def test_the_mask_is_there_unless_told():
    assert DecoderConfig(**SIZES).causal
    complains("causal must be true or false, but got 0; choose one", DecoderConfig, **SIZES, causal=0)
