"""Diagrams as Mermaid: every line has a form that Mermaid knows; where it is installed, Mermaid draws them."""

import os
import re
import shutil
from pathlib import Path

import pytest
from show.samples import sample

from transom.lessons.lesson_file import load_shipped
from transom.show import draw

DIAGRAMS = {
    "lesson": lambda: draw("sequence", load_shipped("three-tokens"), rows=0),
    "masked": lambda: draw("sequence", load_shipped("masked")),
    "sight": lambda: sample("sequence"),
    "architecture": lambda: draw("architecture", load_shipped("whole-transformer")),
    "config": lambda: sample("architecture"),
    "arrows": lambda: sample("arrows"),
}
LABEL = r"(?:[^#;\n<>{}\"]|#\d+;)*"  # no sign that Mermaid would read as its own, but by its number
SEQUENCE = [
    "sequenceDiagram",
    rf"  participant p\d+ as {LABEL}",
    rf"  p\d+->>p\d+: {LABEL}",
    rf"  Note over p\d+: {LABEL}",
]
FLOWCHART = [
    "flowchart (?:BT|LR)",
    rf"  subgraph \w+\[\"{LABEL}\"\]",
    "  end",
    rf"    \w+\[\"{LABEL}\"\]",
    r"    \w+ --> \w+",
    rf"  \w+ -->\|{LABEL}\| \w+",
]
# `npm install --no-save --ignore-scripts mermaid` puts it there; nothing is fetched by the test.
INSTALLED = Path(__file__).parents[2] / "node_modules/mermaid/dist/mermaid.min.js"
MERMAID = Path(os.environ.get("TRANSOM_MERMAID", INSTALLED))
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.parametrize("name", [name for name in DIAGRAMS if name != "arrows"])
def test_every_line_is_one_that_mermaid_knows(name):
    lines = DIAGRAMS[name]().mermaid().splitlines()
    forms = SEQUENCE if lines[0] == "sequenceDiagram" else FLOWCHART
    assert [line for line in lines if not any(re.fullmatch(form, line) for form in forms)] == []
    known = set(re.findall(r"participant (p\d+)|^ +(\w+)\[", "\n".join(lines), re.MULTILINE))
    names = {name for pair in known for name in pair if name}
    used = {name for line in lines if "->" in line for name in re.findall(r"\b(p\d+|t\db\d+)\b", line)}
    assert used <= names


@pytest.fixture(scope="module")
def page():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(offline=True)
        page.set_content("<div id=here></div>")
        page.add_script_tag(path=MERMAID)
        page.evaluate("mermaid.initialize({startOnLoad: false})")
        yield page
        browser.close()


@pytest.mark.slow
@pytest.mark.skipif(
    not MERMAID.is_file() or CHROMIUM is None,
    reason="no Chromium, or no mermaid.min.js (TRANSOM_MERMAID, node_modules)",
)
@pytest.mark.parametrize("name", DIAGRAMS)
def test_mermaid_draws_it(name, page):
    text = DIAGRAMS[name]().mermaid()
    svg = page.evaluate("async (text) => (await mermaid.render('drawn', text)).svg", text)
    assert svg.startswith("<svg")
    assert "Syntax error" not in svg
    words = re.sub(r"<[^>]+>", " ", svg)
    for label in ("Weighted Sum", "softmax") if "sequenceDiagram" in text else ():
        assert label in words


@pytest.mark.slow
@pytest.mark.skipif(not MERMAID.is_file() or CHROMIUM is None, reason="no Chromium, or no mermaid.min.js")
def test_mermaid_refuses_what_it_does_not_know(page):
    from playwright.sync_api import Error

    with pytest.raises(Error, match="Parse error"):
        page.evaluate("async (text) => (await mermaid.render('drawn', text)).svg", "sequenceDiagram\n  p1 ~~ p2")
