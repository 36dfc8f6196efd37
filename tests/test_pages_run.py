"""The pages for newcomers do what they say: every block is run, and prints what the page shows."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
SPEC = importlib.util.spec_from_file_location("run_pages", DOCS / "run_pages.py")
assert SPEC is not None
assert SPEC.loader is not None
RUNNING = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(RUNNING)

pytestmark = pytest.mark.usefixtures("own_errors")
SLOW = {"build", "classify", "README", "research", "write"}  # they train a model, or read a long text
SET_UP = {"make run", "make test", "source .venv/bin/activate"} | {
    f"pip install -c constraints.txt -e '.[{extra}]'" for extra in ("hf", "eval")
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in RUNNING.PAGES]
)
def test_a_page_shows_what_its_blocks_print(name):
    blocks = list(RUNNING.run_blocks(RUNNING.PAGES[name]))
    assert blocks
    for one in blocks:
        assert RUNNING.matches(one), f"{name}, line {one.line}: $ {one.command}\n{one.printed}"


@pytest.mark.parametrize("name", RUNNING.PAGES)
def test_what_is_not_run_only_sets_up(name):
    blocks = RUNNING.FENCED.finditer(RUNNING.PAGES[name].read_text(encoding="utf-8"))
    lines = [line for block in blocks if block["language"] == "sh" for line in block["code"].splitlines()]
    assert {re.sub(r"\s+#.*", "", line) for line in lines} <= SET_UP


@pytest.mark.parametrize("page", sorted((DOCS / "getting-started").glob("*.md")), ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere_and_the_readme_to_it(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert links
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert f"(docs/getting-started/{page.name})" in RUNNING.PAGES["README"].read_text(encoding="utf-8")


def test_every_figure_of_the_readme_stands_in_the_page_it_names():
    readme = RUNNING.PAGES["README"].read_text(encoding="utf-8")
    table = readme.partition("## What was measured")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .*\*\*.*\|$", table, re.MULTILINE)
    assert len(rows) > 5
    for row in rows:
        page = (DOCS.parent / re.findall(r"\]\((.+?)\)", row)[0]).read_text(encoding="utf-8")
        assert not [figure for figure in re.findall(r"\*\*(.+?)\*\*", row) if figure not in page], row


def test_a_page_that_lies_is_found_out(tmp_path):
    page = tmp_path / "lying.md"
    page.write_text(
        "```python\nprint(7)\n```\n\n```text\n8\n```\n\n```console\n$ echo one; echo two; echo three\n…\nthree\n```\n"
    )
    blocks = list(RUNNING.run_blocks(page))
    assert [RUNNING.matches(one) for one in blocks] == [False, True]
    assert RUNNING.update_page(page) == page.read_text().replace("\n8\n", "\n7\n")


def test_output_that_no_block_shows_is_an_error(tmp_path):
    page = tmp_path / "silent.md"
    page.write_text("```python\nprint(7)\n```\n")
    with pytest.raises(SystemExit, match=r"silent\.md:1: prints something that no block of text shows: 7\n"):
        list(RUNNING.run_blocks(page))


def test_numbers_that_differ_by_machine_may_differ_and_words_may_not():
    assert RUNNING.same_words("loss 0.123  ▓▓▓ bank", "loss 0.1239 ░░░ bank")
    assert not RUNNING.same_words("loss 0.123 bank", "loss 0.123 river")
