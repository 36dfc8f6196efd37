"""Models compared with PyTorch's stacks: with the same parameters, outputs and all gradients are equal."""

import pytest
import torch
from layers.torch_twins import assert_twins, copy_parameters, decoder_pairs, encoder_pairs, same_pairs
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


def stack_pairs(ours, twin, pairs):
    """The parameters of two stacks in pairs; PyTorch's has a final norm only if ours has one."""
    for block, layer in zip(ours.blocks, twin.layers, strict=True):
        yield from pairs(block, layer)
    if twin.norm is not None:
        yield from same_pairs(ours.closing, twin.norm)


def final_norm(arrangement: str) -> nn.Module | None:
    return nn.LayerNorm(12, dtype=torch.float64) if arrangement == "pre_norm" else None


def embed_as_leaf(embedding, tokens):
    """The vectors of tokens, as a leaf that collects its own gradient."""
    return (embedding.vectors.detach()[tokens] * embedding.scale).requires_grad_()


def assert_embedding_gradient(embedding, tokens, x):
    """The embedding's gradient is that of the leaf x, added up by token."""
    gradient = torch.zeros_like(embedding.vectors)
    gradient.index_add_(0, tokens.flatten(), x.grad.flatten(0, 1) * embedding.scale)
    torch.testing.assert_close(embedding.vectors.grad, gradient, rtol=0, atol=1e-11)


@pytest.mark.parametrize("arrangement", ["post_norm", "pre_norm"])
@pytest.mark.parametrize("feed_forward", ["relu", "gelu"])
def test_an_encoder_is_pytorchs(arrangement, feed_forward):
    model = encoder(**SETTINGS, arrangement=arrangement, feed_forward=feed_forward, dropout=0.0).double()
    settings = twin_settings(arrangement, feed_forward)
    twin = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**settings), 2, final_norm(arrangement), enable_nested_tensor=False
    )
    copy_parameters(stack_pairs(model.stack, twin, encoder_pairs))
    tokens, real = padded(rows(7, 3))
    x = embed_as_leaf(model.embedding, tokens)
    # PyTorch gives other numbers for rows of padding, which are not compared.
    theirs = twin(x, src_key_padding_mask=~real)[real]
    ours = model.hidden(tokens, real)[real]
    assert_twins((ours, theirs), [], list(stack_pairs(model.stack, twin, encoder_pairs)))
    assert_embedding_gradient(model.embedding, tokens, x)


@pytest.mark.parametrize("arrangement", ["post_norm", "pre_norm"])
@pytest.mark.parametrize("feed_forward", ["relu", "gelu"])
def test_an_encoder_decoder_is_pytorchs(arrangement, feed_forward):
    parts = {"arrangement": arrangement, "feed_forward": feed_forward, "dropout": 0.0, "tying": "none"}
    model = encoder_decoder(**SETTINGS, **parts).double()
    settings = twin_settings(arrangement, feed_forward)
    encoder_twin = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**settings), 3, final_norm(arrangement), enable_nested_tensor=False
    )
    decoder_twin = nn.TransformerDecoder(nn.TransformerDecoderLayer(**settings), 2, final_norm(arrangement))
    twin = nn.Transformer(**settings, custom_encoder=encoder_twin, custom_decoder=decoder_twin)

    def pairs():
        yield from stack_pairs(model.encoder, encoder_twin, encoder_pairs)
        yield from stack_pairs(model.decoder, decoder_twin, decoder_pairs)

    copy_parameters(pairs())
    (source, source_real), (target, target_real) = padded(rows(7, 3)), padded(rows(5, 11))
    source_x, target_x = embed_as_leaf(model.source_embedding, source), embed_as_leaf(model.target_embedding, target)
    theirs = twin(
        source_x,
        target_x,
        tgt_mask=torch.ones(11, 11, dtype=torch.bool).triu(1),  # in theirs, True is masked
        src_key_padding_mask=~source_real,
        tgt_key_padding_mask=~target_real,
        memory_key_padding_mask=~source_real,
    )[target_real]
    ours = model.hidden(source, target, source_real, target_real)[target_real]
    assert_twins((ours, theirs), [], list(pairs()))
    assert_embedding_gradient(model.source_embedding, source, source_x)
    assert_embedding_gradient(model.target_embedding, target, target_x)
