"""Where a patch is in its image, and what does not fit."""

import pytest
import torch
from watched import Plain

import transom
from transom.lens import PatchGrid


def test_a_grid_that_is_given_names_what_stands_before_it():
    for before, names in ((0, ()), (1, ("[cls]",)), (2, ("[0]", "[1]"))):
        with transom.watch(model := Plain(), grid=(2, 3)) as trace:
            model(torch.randn(2, 6 + before, 14))
        assert trace.grid == PatchGrid(2, 3, names)
        assert trace.tokens[1][before] == "patch 0,0"


def test_what_does_not_fit_is_an_error(own_errors):
    with pytest.raises(transom.Misfit) as caught:
        PatchGrid(0, 3)
    assert str(caught.value) == "a grid has rows and columns of patches, but got 0 × 3; give 1 or more of each"
    with pytest.raises(transom.Misfit) as caught:
        PatchGrid(2, 3).to_image_grid(torch.ones(5, 7))
    assert str(caught.value) == "a grid of 2 × 3 has 6 tokens, but 7 numbers came; give one number per token"
    model = Plain()
    with pytest.raises(transom.Misfit) as caught, transom.watch(model, grid=(2, 5)):
        model(torch.randn(1, 7, 14))
    assert str(caught.value) == "a grid of 2 × 5 needs 10 keys, but there are 7; give rows and columns"
