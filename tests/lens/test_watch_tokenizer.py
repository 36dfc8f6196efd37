"""`watch(tokenizer=…)`: the tokens of a trace come from the ids that the model is called with."""

import pytest
import torch

import transom
from transom.lens.capture.token_ids import join_ids
from transom.models import Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig
from transom.names import Misfit

WORDS = ["<s>", "</s>", "▁the", "▁cat", "Ġsat", "ing", "Ċ"]


class Speller:
    """A tokenizer of the package tokenizers, as far as it is needed."""

    def id_to_token(self, number):
        return WORDS[number]


def build_decoder():
    torch.manual_seed(0)
    return Decoder(DecoderConfig(vocabulary=7, layers=2, d_model=12, heads=3, d_hidden=17)).eval()


def test_tokens_are_spelled_from_the_ids_that_came_in():
    model = build_decoder()
    ids = torch.tensor([[0, 2, 3, 5], [1, 4, 6, 2]])
    with torch.no_grad():
        plain = model(ids)
        with transom.watch(model, tokenizer=Speller()) as trace:
            watched = model(ids)
    assert torch.equal(plain, watched)
    assert trace.tokens == [["<s>", " the", " cat", "ing"], ["</s>", " sat", "\n", " the"]]
    assert not model._forward_pre_hooks


def test_a_generation_goes_on_token_by_token():
    """With a cache a call brings one token more; without one it brings all of them again."""
    assert join_ids([[0, 2]], [[3]]) == [[0, 2, 3]]
    assert join_ids([[0, 2]], [[0, 2, 3]]) == [[0, 2, 3]]
    with pytest.warns(UserWarning, match="the model ran on two texts; the tokens are those of the first"):
        assert join_ids([[0, 2]], [[3, 4]]) == [[0, 2]]


def test_the_decoders_tokens_are_the_targets():
    torch.manual_seed(0)
    config = EncoderDecoderConfig(vocabulary=7, encoder_layers=1, decoder_layers=1, d_model=12, heads=3, d_hidden=17)
    model = EncoderDecoder(config).eval()
    with torch.no_grad(), transom.watch(model, tokenizer=Speller()) as trace:
        model(torch.tensor([[2, 3]]), torch.tensor([[0, 4, 5]]))
    assert (trace.tokens, trace.targets) == ([[" the", " cat"]], [["<s>", " sat", "ing"]])


def test_a_tokenizer_that_cannot_spell_is_an_error():
    with pytest.raises(Misfit) as caught, transom.watch(build_decoder(), tokenizer=3):
        pass
    assert str(caught.value) == (
        "tokenizer must turn ids into tokens, but int has neither convert_ids_to_tokens nor pieces nor id_to_token;"
        " give tokens= instead"
    )


def test_tokens_and_a_tokenizer_are_one_too_many():
    complaint, model = "tokens came and a tokenizer too", build_decoder()
    with pytest.raises(Misfit, match=complaint), transom.watch(model, tokens=["a"], tokenizer=Speller()):
        pass


def test_without_ids_it_says_so():
    model = torch.nn.TransformerEncoderLayer(12, 3, batch_first=True).eval()
    warns = pytest.warns(UserWarning, match="no input ids came by")
    with warns, torch.no_grad(), transom.watch(model, tokenizer=Speller()):
        model(torch.randn(1, 4, 12))
