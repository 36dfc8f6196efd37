"""The translation in the tour: the weights are the head's own, the knock-out is real, and nothing is left behind."""

import pytest
import torch

from transom.cli.tour_translation import knocked_out, looked, most_needed, seen, told
from transom.equations import attention
from transom.models.embedded import embedded
from transom.run.texts import ready


@pytest.fixture(scope="module")
def look():
    return looked()


@pytest.fixture(scope="module")
def model():
    return ready(embedded(), "encoder_decoder").model


def fed(model):
    torch.manual_seed(41)
    source, target = torch.randint(4, 500, (1, 7)), torch.randint(4, 500, (1, 5))
    with torch.no_grad():
        return lambda: model(source, target)


def test_the_weights_are_rows_over_the_source_tokens(look):
    weights = torch.tensor(look.weights)
    assert weights.shape == (len(look.targets), len(look.sources))
    assert torch.allclose(weights.sum(-1), torch.ones(len(weights)), atol=1e-5)
    assert look.receipt["holds"]
    assert look.receipt["difference"] <= look.receipt["tolerance"]
    assert "".join(look.sources).startswith(look.source)
    assert look.target.strip() == "".join(look.targets[:-1]).strip()


def test_the_arrow_knocked_out_is_a_rows_strongest_and_costs_its_token(look):
    assert look.column == torch.tensor(look.weights)[look.row].argmax()
    assert 0.0 <= look.after < look.before <= 1.0


def test_what_is_seen_is_the_attention_of_that_layer(model):
    run = fed(model)
    with torch.no_grad():
        sight = seen(model, 1, run)
        scores = attention.scaled(attention.scores(sight.Q, sight.K), sight.Q.shape[-1])
    assert torch.allclose(sight.weights(), torch.softmax(scores, -1), atol=1e-6)
    assert sight.receipt().holds


def test_the_most_needed_head_is_the_one_without_which_most_is_lost(model):
    run = fed(model)
    with torch.no_grad():
        whole = run()
        lost = []
        place = most_needed(model, lambda: lost.append(float((run() - whole).abs().sum())) or lost[-1])
        layer, head = place
        assert len(lost) == sum(block.cross.heads for block in model.decoder.blocks)
        W_O = model.decoder.blocks[layer].cross.W_O.weight
        kept, width = W_O.detach().clone(), model.decoder.blocks[layer].cross.d_value
        W_O[:, head * width : (head + 1) * width] = 0.0
        assert float((run() - whole).abs().sum()) == pytest.approx(max(lost), rel=1e-4)
        W_O.copy_(kept)
        assert torch.equal(run(), whole)


def test_the_lines_hold_the_numbers(look):
    lines = [line.plain for line in told(look)]
    assert f"layer {look.layer}, head {look.head} looked" in lines[2]
    assert look.source in lines[1]
    assert look.target in lines[1]
    assert len(lines) == 4 + len(look.targets) + 2
    assert [line.plain for line in knocked_out(look)] == lines[-2:]
    assert f"{look.before:.3f} to {look.after:.3f}" in lines[-1]
