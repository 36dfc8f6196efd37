"""Models: a row is the same alone, in a batch, padded on either side, packed and step by step."""

import pytest
import torch
from models.small import PARTS, decoder, encoder, encoder_decoder, padded, rows

from transom.layers import ARRANGEMENTS, POSITIONS

LENGTHS = (7, 3, 11)
CLOSE = {"rtol": 0, "atol": 2e-5}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(31)


def choices():
    """Every position with every arrangement, and every kind of part once."""
    yield from ({"positions": positions, "arrangement": name} for positions in POSITIONS for name in ARRANGEMENTS)
    yield from ({"positions": "rotary", **parts} for parts in PARTS.values())


def format_parts(parts) -> str:
    return ", ".join(f"{name}={value}" for name, value in parts.items())


every_choice = pytest.mark.parametrize("parts", list(choices()), ids=format_parts)
# Checking shapes takes most of the time of small models; for every choice, one test with the checks is enough.
unchecked = pytest.mark.usefixtures("own_errors")


@every_choice
@torch.no_grad()
def test_a_padded_batch_is_each_row_alone(parts):
    prompts = rows(*LENGTHS)
    for model in (encoder(**parts), decoder(**parts)):
        alone = [model.hidden(row[None])[0] for row in prompts]
        for side in ("right", "left"):
            tokens, real = padded(prompts, side)
            torch.testing.assert_close(model.hidden(tokens, real)[real], torch.cat(alone), **CLOSE)


@every_choice
@torch.no_grad()
def test_a_padded_pair_is_each_pair_alone(parts):
    model, sources, targets = encoder_decoder(**parts), rows(*LENGTHS), rows(5, 13, 2)
    alone = [model(source[None], target[None])[0] for source, target in zip(sources, targets, strict=True)]
    for side in ("right", "left"):
        (source, source_real), (target, target_real) = padded(sources, side), padded(targets, side)
        together = model(source, target, source_real, target_real)
        assert together.shape == (3, 13, 23)
        torch.testing.assert_close(together[target_real], torch.cat(alone), **CLOSE)


@unchecked
@every_choice
@torch.no_grad()
def test_packed_documents_are_each_document_alone(parts):
    model, texts = decoder(**parts), rows(*LENGTHS)
    row = torch.cat(texts)[None]
    documents = torch.cat([torch.full((len(text),), number) for number, text in zip((3, 1, 2), texts, strict=True)])
    packed = model.hidden(row, documents=documents[None])[0].split(LENGTHS)
    for hidden, tokens in zip(packed, texts, strict=True):
        torch.testing.assert_close(hidden, model.hidden(tokens[None])[0], **CLOSE)


@torch.no_grad()
def test_packed_documents_may_be_padded():
    model, texts = decoder(positions="sinusoidal"), rows(5, 3)
    pad = torch.full((2,), 5)
    row = torch.cat([pad, texts[0], pad, texts[1], pad])[None]
    documents = torch.tensor([[0] * 7 + [1] * 7])
    real = torch.tensor([[False] * 2 + [True] * 5 + [False] * 2 + [True] * 3 + [False] * 2])
    packed = model.hidden(row, real, documents=documents)[0]
    torch.testing.assert_close(packed[2:7], model.hidden(texts[0][None])[0], **CLOSE)
    torch.testing.assert_close(packed[9:12], model.hidden(texts[1][None])[0], **CLOSE)


@unchecked
@every_choice
@torch.no_grad()
def test_cached_is_uncached_wherever_it_is_split(parts):
    model = decoder(**parts)
    tokens, real = padded(rows(7, 4), "left")
    uncached = model(tokens, real)
    for split in (1, 4, 6):
        cache = model.new_cache()
        steps = [model(tokens[:, :split], real[:, :split], cache), model(tokens[:, split:], real, cache)]
        torch.testing.assert_close(torch.cat(steps, dim=1)[real], uncached[real], **CLOSE)


@unchecked
@every_choice
@torch.no_grad()
def test_a_translation_step_by_step_is_that_at_once(parts):
    model, (source, source_real), target = encoder_decoder(**parts), padded(rows(7, 3)), torch.stack(rows(5, 5))
    at_once, cache = model(source, target, source_real), model.new_cache()
    encoded = model.encode(source, source_real)
    steps = [model.decode(target[:, :1], encoded, source_real, cache=cache)]
    steps += [model.decode(token, None, source_real, cache=cache) for token in target[:, 1:].split(1, dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1) @ model.unembedding.mT, at_once, **CLOSE)


@torch.no_grad()
def test_a_token_never_sees_later_ones():
    tokens = torch.stack(rows(11, 11))
    changed = tokens.clone()
    changed[:, 7:] = torch.stack(rows(4, 4))
    for model, source in ((decoder(), ()), (encoder_decoder(), (torch.stack(rows(5, 5)),))):
        assert torch.equal(model(*source, tokens)[:, :7], model(*source, changed)[:, :7])
        assert not torch.equal(model(*source, tokens)[:, 7:], model(*source, changed)[:, 7:])


@torch.no_grad()
def test_an_encoder_sees_both_ways():
    model, tokens = encoder(), torch.stack(rows(11))
    changed = tokens.clone()
    changed[:, 7] = (tokens[:, 7] - 4 + 1) % 19 + 4
    assert not torch.equal(model.hidden(tokens)[:, :7], model.hidden(changed)[:, :7])


@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_pooling_reads_real_tokens_only(side):
    texts = rows(*LENGTHS)
    tokens, real = padded(texts, side)
    for pooling, pick in (("mean", lambda x: x.mean(dim=0)), ("first", lambda x: x[0])):
        model = encoder(pooling=pooling)
        expected = torch.stack([pick(model.hidden(row[None])[0]) for row in texts])
        torch.testing.assert_close(model.pool(tokens, real), expected, **CLOSE)
        torch.testing.assert_close(model.pool(texts[0][None])[0], expected[0], **CLOSE)
        torch.testing.assert_close(model(tokens, real), expected @ model.head.weight.mT + model.head.bias, **CLOSE)


@torch.no_grad()
def test_a_row_of_nothing_but_padding_is_zero_in_the_mean():
    model, tokens = encoder(), torch.stack(rows(5, 5))
    real = torch.tensor([[True] * 5, [False] * 5])
    assert model.pool(tokens, real)[1].tolist() == [0.0] * 12


@pytest.mark.parametrize(("tying", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tying(tying, matrices):
    model = encoder_decoder(tying=tying)
    shared = {id(model.source_embedding.vectors), id(model.target_embedding.vectors), id(model.unembedding)}
    assert len(shared) == matrices
    assert sum(parameter.shape == (23, 12) for parameter in model.parameters()) == matrices
    model(torch.stack(rows(5)), torch.stack(rows(7))).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_output_of_a_decoder_is_tied_by_default():
    tied, untied = decoder(), decoder(tying="none")
    assert tied.unembedding is tied.embedding.vectors
    assert untied.unembedding is not untied.embedding.vectors
    assert untied.count() - tied.count() == 23 * 12


def test_source_and_target_may_have_different_vocabularies():
    model = encoder_decoder(tying="target", source_vocabulary=41)
    assert model.source_embedding.vectors.shape == (41, 12)
    assert model(torch.tensor([[40, 7]]), torch.tensor([[1, 22, 5]])).shape == (1, 3, 23)


def test_no_biases_means_none_in_norms_either():
    names = [name for name, _ in encoder_decoder(bias=False).named_parameters()]
    assert names
    assert not [name for name in names if name.endswith("bias")]


def test_the_initial_values_of_gpt2():
    torch.manual_seed(5)
    model = decoder(initial="gpt2", d_model=64, d_hidden=128, heads=4, vocabulary=503, layers=8)
    block = model.stack.blocks[3]
    assert float(block.attention.W_Q.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert float(block.feed_forward.W_1.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    for last in (block.attention.W_O, block.feed_forward.W_2):
        assert float(last.weight.detach().std()) == pytest.approx(0.02 / 4, rel=0.05)
    assert float(model.embedding.vectors[1:].detach().std()) == pytest.approx(0.02, rel=0.05)
    assert not model.embedding.vectors[0].any()
    untied = decoder(initial="gpt2", tying="none", vocabulary=503)
    assert float(untied.unembedding.detach().std()) == pytest.approx(0.02, rel=0.05)


def test_dropout_goes_where_the_config_says():
    model = encoder_decoder(dropout=0.3, attention_dropout=0.2, hidden_dropout=0.1)
    block = model.decoder.blocks[0]
    assert (model.source_embedding.dropout.share, block.dropout.share) == (0.3, 0.3)
    assert block.feed_forward.dropout.share == 0.1
    assert (block.attention.dropout, block.cross.dropout) == (0.2, 0.2)
