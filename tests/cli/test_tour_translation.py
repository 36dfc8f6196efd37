"""The translation in the tour: the weights are the head's own, the knock-out is real, and nothing is left behind."""

import pytest
import torch

from transom.cli.seen import Asked
from transom.cli.seen import seen as see
from transom.cli.tour_translation import called, knocked_out, looked, told


@pytest.fixture(scope="module")
def look():
    return looked()


def test_the_weights_are_rows_over_the_source_tokens(look):
    weights = torch.tensor(look.weights)
    assert weights.shape == (len(look.targets), len(look.sources))
    assert torch.allclose(weights.sum(-1), torch.ones(len(weights)), atol=1e-5)
    assert look.receipt["holds"]
    assert look.receipt["difference"] <= look.receipt["tolerance"]
    assert "".join(look.sources).startswith(look.source)
    assert look.target.strip() == "".join(look.targets[:-1]).strip()
    assert look.reads == ["<s>", *look.targets[:-1]]


def test_the_arrow_knocked_out_is_a_rows_strongest_and_costs_its_token(look):
    assert look.column == torch.tensor(look.weights)[look.row].argmax()
    assert 0.0 <= look.after < look.before <= 1.0


def test_the_head_is_the_one_that_see_and_the_page_show_first(look):
    found = see(Asked(look.source, target=look.target))
    assert (f"decoder.blocks.{look.layer}.cross", look.head) == (found.layer, found.head)
    assert torch.allclose(torch.tensor(look.weights), found.sight.weights(batch=0, head=found.head), atol=1e-5)


def test_the_lines_hold_the_numbers(look):
    lines = [line.plain for line in told(look)]
    assert f"layer {look.layer}, head {look.head} looked" in lines[2]
    assert look.source in lines[1]
    assert look.target in lines[1]
    assert len(lines) == 4 + len(look.targets) + 2
    assert [line.plain for line in knocked_out(look)] == lines[-2:]
    assert f"{look.before:.3f} to {look.after:.3f}" in lines[-1]
    for row, line in enumerate(lines[4:-2]):
        assert line.startswith(f"   {called(look, row)} ")
