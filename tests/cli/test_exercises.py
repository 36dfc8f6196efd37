"""`transom exercises`: a sheet on the terminal, as JSON and as a PDF."""

import json

import pytest

from transom.lessons import check_lesson, parse_lesson


def test_a_sheet_has_what_is_given_what_is_asked_and_the_solutions(run_command):
    out = run_command("exercises", "three-tokens", "--seed", "7", "--count", "2").out
    lines = out.splitlines()
    assert lines[0] == "Exercise 1"
    assert "Exercise 2" in lines
    assert "  Given: scores are divided by √d_head." in lines
    assert lines.index("Solutions") > lines.index("Exercise 2")
    assert [line for line in lines if line.startswith("  1a) ")]
    assert run_command("exercises", "1", "--seed", "7", "--count", "2").out == out


def test_solutions_can_be_left_out(run_command):
    assert "Solutions" not in run_command("exercises", "1", "--no-solutions").out


def test_the_sheet_as_json_is_a_lesson_that_checks(run_command):
    rows = json.loads(run_command("exercises", "1", "--count", "1", "--json").out)
    lesson = parse_lesson(rows[0]["lesson"], "exercise.toml")
    assert all(finding.verdict == "right" for finding in check_lesson(lesson))
    assert set(rows[0]["tasks"][0]) == {"question", "solution", "arithmetic"}


def test_the_sheet_as_a_pdf(run_command, tmp_path):
    pytest.importorskip("typst", reason="the extra `export` is not installed")
    file = tmp_path / "sheet.pdf"
    assert run_command("exercises", "3", "--seed", "7", "--pdf", str(file)).out == f"{file}\n"
    assert file.read_bytes().startswith(b"%PDF-")


def test_a_sheet_must_be_a_pdf(run_command, tmp_path):
    file = tmp_path / "sheet.txt"
    assert run_command("exercises", "3", "--pdf", str(file), code=2).err == (
        f"transom: --pdf writes a file that ends in .pdf, but got {file}; try sheet.pdf\n"
    )
