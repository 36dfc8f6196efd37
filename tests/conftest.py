"""Shapes in signatures are checked while the tests run; error tests look at Transom's own messages instead."""

import os

import pytest
import torch
from hypothesis import settings
from jaxtyping import config, install_import_hook

install_import_hook("transom", "beartype.beartype")

# A test that minds the width of the terminal says it itself, however wide that of whoever runs it is.
os.environ.pop("COLUMNS", None)

# The tensors of tests are small: threads would only wait for each other, badly so on a busy machine.
torch.set_num_threads(1)

# The same examples every time, and no failure because the machine was slow.
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("steady")


@pytest.fixture
def own_errors():
    """Switch the shape checks off, so that what a user would see is what the test sees."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
