"""docs/notes.md: every item names a lesson, a command or a view that exists, and a test or picture that exists."""

import re
from pathlib import Path

import pytest

from transom.cli import COMMANDS
from transom.lessons.lesson_file import load_shipped, shipped_paths
from transom.show import VIEWS

ROOT = Path(__file__).parent.parent.parent
NOTES = (ROOT / "docs/notes.md").read_text(encoding="utf-8")
READING = (ROOT / "docs/further-reading.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (?!the note says|---)(.+?) \| (.+?) \| (.+?) \|$", NOTES, re.MULTILINE)
NAMED = ("lesson", "view", "transom ", "](", "`b_Q`")


def test_every_note_has_its_table():
    headings = re.findall(r"^## Note (\d{3}): ", NOTES, re.MULTILINE)
    assert headings == ["000", "001", "002", "003", "004"]
    assert len(ROWS) >= 79


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:50] for row in ROWS])
def test_what_an_item_names_exists(row):
    _, shown, held = row
    assert any(word in shown for word in NAMED)
    numbers = [
        int(n) for group in re.findall(r"lessons? ((?:\d+(?:, | and )?)+)", shown) for n in re.findall(r"\d+", group)
    ]
    assert all(1 <= number <= len(shipped_paths()) for number in numbers)
    for case in re.findall(r"case “([^”]+)”", shown):
        assert any(case in load_shipped(number).cases for number in numbers)
    for title in re.findall(r", “([^”]+)”", shown.replace("case “", "case ")):
        assert any(step.title.startswith(title) for number in numbers for step in load_shipped(number).script)
    assert all(name in VIEWS for name in re.findall(r"view `(\w+)`", shown))
    assert all(name in COMMANDS for name in re.findall(r"`transom (\w+)", shown))
    file = re.search(r"`(tests/[^`]+)`|\((pictures/[^)]+)\)", held)
    assert file is not None
    path = ROOT / file[1] if file[1] else ROOT / "docs" / file[2]
    assert path.is_file()


def test_every_reading_says_what_it_is_for():
    rows = re.findall(r"^\| \[(.+?)\]\((https://[^)]+)\)(.*?) \| (.+) \|$", READING, re.MULTILINE)
    assert len(rows) >= 20
    assert len({address for _, address, _, _ in rows}) == len(rows)
    assert all(len(purpose.split()) >= 5 for *_, purpose in rows)
