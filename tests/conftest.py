"""Shapes in signatures are checked while the tests run; error tests look at Transom's own messages instead."""

import pytest
from jaxtyping import config, install_import_hook

install_import_hook("transom", "beartype.beartype")


@pytest.fixture
def own_errors():
    """Switch the shape checks off, so that what a user would see is what the test sees."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
