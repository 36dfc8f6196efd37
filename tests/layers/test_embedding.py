"""Embeddings: random or pretrained, frozen or trained, scaled, with positions, and tied to the output."""

import math
from functools import partial

import pytest
import torch
from models.small import assert_misfit
from torch import nn

from transom.layers import Embedding, Learned, Sinusoidal


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(29)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_looks_up_scales_and_adds_positions(dtype):
    embedding = Embedding(17, 5, positions=Learned(5, 11)).double()
    tokens = torch.tensor([[3, 16, 0, 3], [1, 1, 2, 7]], dtype=dtype)
    x = embedding(tokens, start=7)
    for b in range(2):
        for t in range(4):
            expected = embedding.vectors[int(tokens[b, t])] * math.sqrt(5) + embedding.positions.vectors[7 + t]
            torch.testing.assert_close(x[b, t], expected, rtol=0, atol=1e-14)


def test_unscaled_and_unpositioned_it_is_torchs():
    embedding, twin = Embedding(17, 5, padding=3, scaled=False), nn.Embedding(17, 5, padding_idx=3)
    with torch.no_grad():
        embedding.vectors.copy_(twin.weight)
    tokens = torch.tensor([[3, 16, 0], [1, 3, 2]])
    mine, theirs = embedding(tokens), twin(tokens)
    assert torch.equal(mine, theirs)
    gradient = torch.randn_like(mine)
    mine.backward(gradient)
    theirs.backward(gradient)
    assert torch.equal(embedding.vectors.grad, twin.weight.grad)


@pytest.mark.parametrize("at", [[4, 5, 9], [[4, 5, 9], [0, 1, 2]], [[4, 5, 9]]])
def test_positions_may_come_from_the_caller(at):
    embedding = Embedding(17, 5, positions=Sinusoidal(5))
    tokens, at = torch.tensor([[3, 16, 0], [1, 1, 2]]), torch.tensor(at)
    zero = torch.zeros(2, 3, 5)
    waves = embedding.positions.embed(zero, at if at.dim() == 2 else at[None])
    plain = embedding.vectors[tokens] * math.sqrt(5)
    torch.testing.assert_close(embedding(tokens, at=at), plain + waves)


def test_starts_with_unit_variance_after_scaling_and_padding_at_zero():
    embedding = Embedding(1009, 101, padding=7)
    assert not embedding.vectors[7].any()
    others = embedding(torch.arange(8, 1009)[None])
    assert others.std().item() == pytest.approx(1.0, abs=0.02)
    assert embedding.vectors[8:].std().item() == pytest.approx(101**-0.5, rel=0.02)


def test_padding_is_not_trained():
    embedding = Embedding(17, 5, padding=3)
    embedding(torch.tensor([[3, 4, 3]])).sum().backward()
    touched = embedding.vectors.grad.abs().sum(dim=1).nonzero().flatten().tolist()
    assert touched == [4]


@pytest.mark.parametrize("frozen", [False, True])
def test_pretrained_vectors_are_copied_and_trained_unless_frozen(frozen):
    vectors = torch.randn(17, 5)
    before = vectors.clone()
    embedding = Embedding.from_vectors(vectors, frozen=frozen, padding=3)
    tokens = torch.tensor([[3, 16, 0], [1, 1, 2]])
    assert torch.equal(embedding(tokens), vectors[tokens])
    trained = [parameter for parameter in embedding.parameters() if parameter.requires_grad]
    assert len(trained) == (not frozen)
    assert ("frozen" in repr(embedding)) == frozen
    if trained:
        embedding(tokens).sum().backward()
        torch.optim.SGD(trained, lr=1.0).step()
        assert not torch.equal(embedding.vectors, before)
    assert torch.equal(vectors, before)


def test_pretrained_vectors_may_be_scaled_positioned_and_of_any_dtype():
    vectors = torch.randn(17, 5, dtype=torch.float64)
    embedding = Embedding.from_vectors(vectors, scaled=True, positions=Sinusoidal(5), dropout=0.5).eval()
    x = embedding(torch.tensor([[16, 2]]))
    assert x.dtype == torch.float64
    waves = torch.tensor(
        [[math.sin(t / 10_000 ** ((i - i % 2) / 5) + (i % 2) * math.pi / 2) for i in range(5)] for t in (0, 1)]
    )
    torch.testing.assert_close(x[0], vectors[[16, 2]] * math.sqrt(5) + waves.double(), rtol=0, atol=1e-6)


def test_logits_share_the_parameter():
    embedding = Embedding(17, 5).double()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    logits = embedding.logits(x)
    assert logits.shape == (2, 3, 17)
    for token in range(17):
        torch.testing.assert_close(logits[..., token], (x * embedding.vectors[token]).sum(dim=-1), rtol=0, atol=1e-12)
    assert [name for name, _ in embedding.named_parameters()] == ["vectors"]
    tokens = torch.tensor([[3, 3, 4]])
    (embedding.logits(embedding(tokens)).sum()).backward()
    assert embedding.vectors.grad.abs().sum(dim=1).min() > 0  # every token is an answer, so every vector learns


def test_a_frozen_embedding_still_sends_gradients_through_its_logits():
    embedding = Embedding.from_vectors(torch.randn(17, 5), frozen=True)
    x = torch.randn(2, 3, 5, requires_grad=True)
    embedding.logits(x).sum().backward()
    torch.testing.assert_close(x.grad, embedding.vectors.sum(dim=0).expand(2, 3, 5))


def test_dropout_acts_in_training_only():
    embedding = Embedding(17, 5, dropout=0.5)
    tokens = torch.arange(17)[None]
    assert (embedding(tokens) == 0).any()
    embedding.eval()
    assert torch.equal(embedding(tokens), embedding.vectors[None] * math.sqrt(5))


def test_two_embeddings_never_start_equal():
    assert not torch.equal(Embedding(17, 5).vectors, Embedding(17, 5).vectors)


@pytest.mark.parametrize("empty", [(0, 7), (2, 0)])
def test_empty_tokens_give_empty_vectors(empty):
    tokens = torch.zeros(empty, dtype=torch.int64)
    assert Embedding(17, 5, positions=Learned(5, 11))(tokens).shape == (*empty, 5)


def test_types_and_a_norm_are_berts():
    modeling = pytest.importorskip("transformers.models.bert.modeling_bert")
    fields = {"vocab_size": 17, "hidden_size": 6, "type_vocab_size": 3, "max_position_embeddings": 13}
    theirs = modeling.BertEmbeddings(modeling.BertConfig(**fields, layer_norm_eps=0.1, hidden_dropout_prob=0.0))
    embedding = Embedding(
        17, 6, scaled=False, positions=Learned(6, 13), token_types=3, norm=partial(nn.LayerNorm, eps=0.1)
    )
    with torch.no_grad():
        for ours, parameter in (
            (embedding.vectors, theirs.word_embeddings.weight),
            (embedding.positions.vectors, theirs.position_embeddings.weight),
            (embedding.type_vectors, theirs.token_type_embeddings.weight),
            (embedding.norm.weight, nn.init.normal_(theirs.LayerNorm.weight)),
            (embedding.norm.bias, nn.init.normal_(theirs.LayerNorm.bias)),
        ):
            ours.copy_(parameter)
    tokens, types = torch.tensor([[3, 16, 0], [1, 3, 2]]), torch.tensor([[0, 1, 2], [0, 0, 1]])
    torch.testing.assert_close(embedding(tokens, types=types), theirs(tokens, types), rtol=0, atol=1e-6)
    torch.testing.assert_close(embedding(tokens), theirs(tokens), rtol=0, atol=1e-6)


def test_types_must_be_known():
    tokens = torch.tensor([[3, 1]])
    assert_misfit(
        "the embedding knows token types 0 to 1, but types 0 to 2 came; number the texts of a pair from 0",
        Embedding(17, 6, token_types=2),
        tokens,
        types=torch.tensor([[0, 2]]),
    )
    assert_misfit(
        "this embedding has no token types, but types came; build it with token_types, or leave them",
        Embedding(17, 6),
        tokens,
        types=tokens,
    )
