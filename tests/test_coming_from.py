"""docs/coming-from.md: the code of every row runs, and does what the row says.

A row has a check in `coming_from/`, or it says that Transom has no such thing. Hugging Face and PyTorch run beside
Transom. TransformerLens, BertViz, nnsight and nanoGPT are not installed: of their rows only Transom's side runs,
compared with Hugging Face or with arithmetic written out in the check.
"""

import re

import pytest

pytest.importorskip("transformers")

import coming_from.looking_checks
import coming_from.model_checks
import coming_from.nanogpt_checks
import coming_from.picture_checks
import coming_from.pytorch_checks  # noqa: F401  (each registers its checks)
import torch
from coming_from.page_rows import ABSENT, CHECKS, PAGE, SPAN, Row, is_python, public_names, read_rows, run_code
from coming_from.small_models import looking

import transom

ROWS = list(read_rows(PAGE.read_text(encoding="utf-8")))
PROJECTS = ["TransformerLens", "Hugging Face transformers", "PyTorch", "BertViz", "nnsight", "nanoGPT"]
PRESENT = [row for row in ROWS if row.ours != ABSENT]


def test_every_project_has_its_rows():
    assert list(dict.fromkeys(row.section for row in ROWS)) == ["The words", *PROJECTS]
    assert len({row.key for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", PRESENT, ids=lambda row: ": ".join(row.key))
def test_a_row_does_what_it_says(row, monkeypatch, tmp_path):
    assert row.key in CHECKS, "a row needs a check in tests/coming_from, or says that it is not there"
    monkeypatch.chdir(tmp_path)
    function, names = CHECKS[row.key]
    given = names()
    with torch.no_grad():
        values = [run_code(code, given) for code in row.code]
    function(*values)


def test_every_check_has_its_row():
    assert set(CHECKS) == {row.key for row in PRESENT}


def test_what_is_not_there_says_what_is():
    assert not [row for row in ROWS if row.ours == ABSENT and not row.note]


def test_rows_use_public_names():
    code = [code for row in ROWS for code in SPAN.findall(f"{row.ours} {row.note}") if is_python(code)]
    mentioned = [name for one in code for name in public_names(one)]
    assert len(mentioned) > 50
    for room, *rest in mentioned:
        assert room in transom.__all__
        assert not rest or rest[0] in getattr(transom, room).__all__


def test_notes_name_what_exists():
    known, methods = looking(), re.compile(r"(sight|trace|own)\.(\w+)")
    mentioned = [methods.match(code) for row in ROWS for code in SPAN.findall(row.note)]
    found = [one.groups() for one in mentioned if one]
    assert len(found) > 7
    assert not [(name, attribute) for name, attribute in found if not hasattr(known[name], attribute)]


def test_a_row_without_a_check_is_found():
    (row,) = read_rows(
        "## nnsight\n\n| nnsight | Transom | what differs |\n|---|---|---|\n| `new` | `trace.new()` | |\n"
    )
    assert row == Row("nnsight", "`new`", "`trace.new()`", "")
    assert row.key not in CHECKS
    with pytest.raises(AttributeError):
        run_code(row.code[0], looking())
