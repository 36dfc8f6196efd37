"""Every public name of the layers, and every row of their tables, is on the page."""

from pathlib import Path

import pytest

from transom import layers

PAGE = (Path(__file__).parents[2] / "docs" / "layers.md").read_text(encoding="utf-8")
TABLES = {
    "POSITIONS": layers.POSITIONS,
    "NORMS": layers.NORMS,
    "FEED_FORWARDS": layers.FEED_FORWARDS,
    "ARRANGEMENTS": layers.ARRANGEMENTS,
}


@pytest.mark.parametrize("name", layers.__all__)
def test_every_public_name_is_on_the_page(name):
    assert hasattr(layers, name)
    assert f"`{name}`" in PAGE or f"`{name}(" in PAGE


@pytest.mark.parametrize(("table", "row"), [(table, row) for table, rows in TABLES.items() for row in rows])
def test_every_row_is_on_the_page(table, row):
    assert f"`{table}`" in PAGE
    assert f"`{row}`" in PAGE
