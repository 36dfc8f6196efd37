"""How a shape is spelled in an error."""

import torch

from transom.names import AXES, Misfit, format_shape


def test_a_shape_is_spelled_with_its_axis_words():
    assert format_shape(torch.zeros(2, 5, 7), "batch token d_model") == "(batch=2, token=5, d_model=7)"
    assert format_shape((2, 5), "batch token") == "(batch=2, token=5)"


def test_a_shape_that_does_not_have_those_axes_is_spelled_plain():
    assert format_shape(torch.zeros(2, 5), "batch token d_model") == "(2, 5)"


def test_a_misfit_is_a_value_error():
    assert issubclass(Misfit, ValueError)


def test_every_axis_word_is_explained():
    assert all(AXES.values())
