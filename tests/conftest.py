"""Shapes in signatures are checked while the tests run; error tests look at Transom's own messages instead."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import config, install_import_hook

# Only where shapes are spoken of: every call of a module under the hook costs a few dozen microseconds, and the
# modules that draw, serve and read make millions of them.
SOURCE = Path(__file__).parent.parent / "src"
SHAPED = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in sorted((SOURCE / "transom").rglob("*.py"))
    if "from jaxtyping import" in path.read_text(encoding="utf-8")
]
assert len(SHAPED) > 50, "the shapes in signatures would go unchecked"
install_import_hook(SHAPED, "beartype.beartype")

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


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """The folder of a small model by origin ("transom" or "hf") and kind, made when it is first needed."""
    folders = {}

    def find_folder(origin, kind):
        from model_folders import MAKERS

        if origin == "hf":
            pytest.importorskip("transformers")
        if (origin, kind) not in folders:
            folders[origin, kind] = MAKERS[origin](kind, tmp_path_factory.mktemp(origin) / kind)
        return folders[origin, kind]

    return find_folder
