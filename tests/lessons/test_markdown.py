"""Lessons in Markdown: which blocks are lessons, their lines in the Markdown file, and the corrected copy."""

import json
from pathlib import Path

import pytest
import yaml

from transom.cli import main
from transom.lessons.markdown_blocks import fenced_blocks

LESSON = """tokens = ["The", "cat"]
embeddings = [[1, 0], [1, 1]]
[parameters]
all = "identity"
[[claim]]
of = "scores"
value = [[1, 1], [1, 3]]
[[claim]]
of = "weights"
row = "cat"
value = [0.33, 0.67]
"""


def write_book(path, fence="```", name="attention", prefix=""):
    """A page with one lesson in it; its fence is on line 5."""
    block = [f"{fence}{name}", *LESSON.splitlines(), fence]
    lines = ["# A book", "", "## Two tokens", "", *(prefix + line for line in block), "", "The end."]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("fence", "name", "prefix"),
    [
        ("```", "attention", ""),
        ("~~~~", " attention", ""),
        ("```", "toml attention", ""),
        ("```", "{.attention}", ""),
        ("```", "{attention}", "   "),
        ("```", "attention", "> "),
    ],
)
def test_a_block_named_attention_is_a_lesson(tmp_path, capsys, fence, name, prefix):
    path = write_book(tmp_path / "book.md", fence, name, prefix)
    assert main(["check", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == (
        f"{path}:12: wrong: scores: 1 of 4 entries, printed → right\n"
        "            cat\n"
        "    cat   3 → 2\n"
        f"{path}:16: right: weights of cat\n"
        f"{path}:5: 2 claims: 1 right, 1 wrong\n"
    )
    assert err == ""


def test_the_json_has_the_line_and_the_heading_is_the_title(tmp_path, capsys):
    path = write_book(tmp_path / "book.md")
    assert main(["check", str(path), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["file"], found["line"], found["title"], found["right"]) == (str(path), 5, "Two tokens", False)
    assert found["claims"][0]["where"] == f"{path}, line 12"


@pytest.mark.parametrize("prefix", ["", "  ", "> "])
def test_only_the_wrong_figures_are_corrected(tmp_path, capsys, prefix):
    path = write_book(tmp_path / "book.md", prefix=prefix)
    before = path.read_text()
    assert main(["check", str(path), "--fix"]) == 1
    copy = tmp_path / "book.fixed.md"
    assert copy.read_text() == before.replace("[1, 3]", "[1, 2]")
    assert path.read_text() == before
    assert capsys.readouterr().err == f"{copy}: the corrected copy\n"
    assert main(["check", str(path), "--in-place"]) == 1
    assert path.read_text() == copy.read_text()
    assert main(["check", str(path)]) == 0


def test_every_block_is_checked_whatever_another_is(tmp_path, capsys):
    path = write_book(tmp_path / "book.md")
    path.write_text(path.read_text() + "```attention\ntokens =\n```\n" + f"```attention\n{LESSON}```\n")
    assert main(["check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert f"{path}:5: 2 claims: 1 right, 1 wrong\n" in out
    assert f"{path}:23: 2 claims: 1 right, 1 wrong\n" in out
    assert err == f"transom: {path} should be TOML, but Invalid value (at line 21, column 9); mend that place\n"


def test_a_page_without_lessons_is_fine_and_a_misspelt_name_is_reported(tmp_path, capsys):
    path = tmp_path / "plain.md"
    path.write_text("# Nothing\n\n```python\nattention = 1\n```\n")
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr() == ("", f"{path}: it has no block named 'attention', so nothing is checked\n")
    path.write_text("```atention\nx = 1\n```\n")
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().err.startswith(
        f"{path}: line 1: a block named 'atention' is not checked; did you mean 'attention'?\n"
    )


def test_a_block_inside_another_is_no_lesson():
    text = "````markdown\n```attention\nx\n```\n````\n\n```attention\ny\n"
    outer, open_one = fenced_blocks(text)
    assert (outer.is_lesson, outer.lines[0]) == (False, "```attention")
    assert (open_one.is_lesson, open_one.line, open_one.lines) == (True, 7, ("y", ""))


def test_the_hooks_for_pre_commit_name_the_command():
    hooks = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks] == ["transom-check", "transom-check-lessons"]
    assert {hook["entry"] for hook in hooks} == {"transom check"}
