"""The table of docs/lens.md that says who catches which attention names functions and tests that exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
CAPTURE = TESTS.parent.parent / "src/transom/lens/capture"


def functions_in(folder):
    return {
        name
        for path in folder.glob("*.py")
        for name in re.findall(r"^(?:def|class) (\w+)[(:]", path.read_text("utf-8"), re.M)
    }


def test_the_table_of_captures_names_what_exists():
    section = (TESTS.parent.parent / "docs/lens.md").read_text("utf-8").partition("\n## Who catches what\n")[2]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 13
    for kind, caught, cut, tests in rows:
        named = set(re.findall(r"`(\w+)`", caught + cut))
        assert named <= functions_in(CAPTURE), kind
        assert len(re.findall(r"`(\w+)`", tests)) == 2, kind
        assert set(re.findall(r"`(\w+)`", tests)) <= functions_in(TESTS), kind
