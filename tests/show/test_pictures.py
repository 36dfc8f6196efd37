"""The pictures in docs: there, small, shown in a page, and those of lessons as they would be drawn today."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("draw_pictures", DOCS / "draw_pictures.py")
assert SPEC is not None
assert SPEC.loader is not None
DRAWING = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(DRAWING)


def test_every_picture_is_there_small_and_shown_in_a_page():
    files = [DRAWING.FOLDER / name for name in (*DRAWING.PICTURES, "page.png")]
    assert all(file.stat().st_size < 150_000 for file in files)
    shown = (DOCS / "show.md").read_text(encoding="utf-8")
    assert not [file.name for file in files if f"](pictures/{file.name})" not in shown]


@pytest.mark.parametrize("name", [name for name, (_, same) in DRAWING.PICTURES.items() if same])
def test_a_picture_of_a_lesson_is_up_to_date(name):
    assert DRAWING.PICTURES[name][0]().svg() == (DRAWING.FOLDER / name).read_text(encoding="utf-8")
