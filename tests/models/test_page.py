"""Every public name, setting, preset and choice is on the page of the models."""

from pathlib import Path

import pytest

from transom import models
from transom.models.initialization import INITIALS
from transom.models.pooling import POOLINGS

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
KINDS = [models.EncoderConfig, models.DecoderConfig, models.EncoderDecoderConfig, models.GenerationConfig]
SETTINGS = sorted({name for kind in KINDS for name in kind.__struct_fields__})


@pytest.mark.parametrize("name", [name for name in models.__all__ if name != "from_pretrained"])
def test_every_public_name_is_on_the_page(name):
    assert hasattr(models, name)
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", [*SETTINGS, *models.MODELS, *models.PRESETS, *INITIALS, *POOLINGS])
def test_every_setting_and_row_is_on_the_page(name):
    assert f"`{name}`" in PAGE
