"""Models beside PyTorch's own stacks: parameters copied, outputs and all gradients equal."""

import pytest
import torch
from layers.torch_twins import assert_twins, decoder_pairs, encoder_pairs, made_equal, same_pairs
from models.small import encoder, encoder_decoder, padded, rows
from torch import nn

SETTINGS = {"positions": "none", "d_model": 12, "heads": 3, "d_hidden": 17}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(37)


def twin_settings(arrangement: str, feed_forward: str) -> dict:
    return {
        "d_model": 12,
        "nhead": 3,
        "dim_feedforward": 17,
        "dropout": 0.0,
        "activation": feed_forward,
        "batch_first": True,
        "norm_first": arrangement == "pre_norm",
        "dtype": torch.float64,
    }


def stacked(ours, twin, pairs):
    """The parameters of two stacks, side by side; PyTorch's own norm at the end only where ours has one."""
    for block, layer in zip(ours.blocks, twin.layers, strict=True):
        yield from pairs(block, layer)
    if twin.norm is not None:
        yield from same_pairs(ours.closing, twin.norm)


def closing(arrangement: str) -> nn.Module | None:
    return nn.LayerNorm(12, dtype=torch.float64) if arrangement == "pre_norm" else None


def embedded(embedding, tokens):
    """The vectors of tokens, as a leaf of their own."""
    return (embedding.vectors.detach()[tokens] * embedding.scale).requires_grad_()


@pytest.mark.parametrize("arrangement", ["post_norm", "pre_norm"])
@pytest.mark.parametrize("feed_forward", ["relu", "gelu"])
def test_an_encoder_is_pytorchs(arrangement, feed_forward):
    model = encoder(**SETTINGS, arrangement=arrangement, feed_forward=feed_forward, dropout=0.0).double()
    settings = twin_settings(arrangement, feed_forward)
    twin = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**settings), 2, closing(arrangement), enable_nested_tensor=False
    )
    made_equal(stacked(model.stack, twin, encoder_pairs))
    tokens, real = padded(rows(7, 3))
    x = embedded(model.embedding, tokens)
    # PyTorch gives other numbers for rows of padding, which nobody reads.
    theirs = twin(x, src_key_padding_mask=~real)[real]
    ours = model.hidden(tokens, real)[real]
    assert_twins((ours, theirs), [], list(stacked(model.stack, twin, encoder_pairs)))
    sent = torch.zeros_like(model.embedding.vectors)
    sent.index_add_(0, tokens.flatten(), x.grad.flatten(0, 1) * model.embedding.scale)
    torch.testing.assert_close(model.embedding.vectors.grad, sent, rtol=0, atol=1e-11)


@pytest.mark.parametrize("arrangement", ["post_norm", "pre_norm"])
@pytest.mark.parametrize("feed_forward", ["relu", "gelu"])
def test_an_encoder_decoder_is_pytorchs(arrangement, feed_forward):
    parts = {"arrangement": arrangement, "feed_forward": feed_forward, "dropout": 0.0, "tying": "none"}
    model = encoder_decoder(**SETTINGS, **parts).double()
    settings = twin_settings(arrangement, feed_forward)
    encoder_twin = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**settings), 3, closing(arrangement), enable_nested_tensor=False
    )
    decoder_twin = nn.TransformerDecoder(nn.TransformerDecoderLayer(**settings), 2, closing(arrangement))
    twin = nn.Transformer(**settings, custom_encoder=encoder_twin, custom_decoder=decoder_twin)

    def pairs():
        yield from stacked(model.encoder, encoder_twin, encoder_pairs)
        yield from stacked(model.decoder, decoder_twin, decoder_pairs)

    made_equal(pairs())
    (source, source_real), (target, target_real) = padded(rows(7, 3)), padded(rows(5, 11))
    of_source, of_target = embedded(model.source_embedding, source), embedded(model.target_embedding, target)
    theirs = twin(
        of_source,
        of_target,
        tgt_mask=torch.ones(11, 11, dtype=torch.bool).triu(1),  # theirs says True where one may not look
        src_key_padding_mask=~source_real,
        tgt_key_padding_mask=~target_real,
        memory_key_padding_mask=~source_real,
    )[target_real]
    ours = model.hidden(source, target, source_real, target_real)[target_real]
    assert_twins((ours, theirs), [], list(pairs()))
    for embedding, tokens, x in (
        (model.source_embedding, source, of_source),
        (model.target_embedding, target, of_target),
    ):
        sent = torch.zeros_like(embedding.vectors)
        sent.index_add_(0, tokens.flatten(), x.grad.flatten(0, 1) * embedding.scale)
        torch.testing.assert_close(embedding.vectors.grad, sent, rtol=0, atol=1e-11)
