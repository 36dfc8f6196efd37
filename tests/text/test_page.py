"""Every public name of the text room, and every row of its tables, is on the page."""

from pathlib import Path

import pytest

from transom import text

PAGE = (Path(__file__).parents[2] / "docs" / "text.md").read_text(encoding="utf-8")
TABLES = {"KINDS": text.KINDS, "FORMATS": text.FORMATS, "VECTOR_FORMATS": text.VECTOR_FORMATS}


@pytest.mark.parametrize("name", text.__all__)
def test_every_public_name_is_on_the_page(name):
    assert hasattr(text, name)
    assert f"`{name}`" in PAGE or f"`{name}(" in PAGE


@pytest.mark.parametrize(("table", "row"), [(table, row) for table, rows in TABLES.items() for row in rows])
def test_every_row_is_on_the_page(table, row):
    assert f"`{table}`" in PAGE
    assert f"| `{row}` |" in PAGE
