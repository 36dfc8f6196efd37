"""One Picture in every form: text, SVG, a page, JSON, diagrams, files, notebooks."""

import json
import re
import sys
from xml.etree import ElementTree

import msgspec
import pytest
from show.samples import HEAD, formed, sample, sight, tensors

from transom import Misfit
from transom.show import VIEWS, Picture
from transom.show.formatting import display_width, to_fixed
from transom.show.picture import WRITERS

SVG = "{http://www.w3.org/2000/svg}"
DIAGRAMS = {"sequence", "arrows"}
NO_ENDING = "no ending"


@pytest.mark.parametrize("view", VIEWS)
def test_text_keeps_to_its_width_and_has_no_colour_unless_asked(view):
    text = sample(view).text(width=80)
    assert max(display_width(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert text.endswith("\n")
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("view", VIEWS)
def test_colour_adds_nothing_but_colour(view):
    bare = re.sub(r"\x1b\[[0-9;]*m", "", sample(view).text(colour=True))
    shades = str.maketrans("", "", " ░▒▓█\n")
    assert bare.translate(shades) == formed(view, "text").translate(shades)


@pytest.mark.parametrize("view", VIEWS)
def test_svg_is_well_formed_with_real_text_and_nothing_from_elsewhere(view):
    drawn = ElementTree.fromstring(formed(view, "svg"))
    kinds = {one.tag.removeprefix(SVG) for one in drawn.iter()}
    assert kinds <= {"svg", "g", "rect", "text", "path", "line", "circle", "title"}
    assert "text" in kinds
    assert not [
        name for one in drawn.iter() for name in one.attrib if name in {"style", "href", "src"} or name[:2] == "on"
    ]
    assert drawn.attrib["aria-label"].startswith(sample(view).title)


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_drawn_outside_of_the_figure(view):
    drawn = ElementTree.fromstring(formed(view, "svg"))
    wide, tall = (float(drawn.attrib[name]) for name in ("width", "height"))

    def walk(one, x, y):
        moved = re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", one.attrib.get("transform", ""))
        x, y = (x + float(moved[1]), y + float(moved[2])) if moved else (x, y)
        for across, down in (("x", "y"), ("x1", "y1"), ("x2", "y2"), ("cx", "cy")):
            if across in one.attrib:
                assert 0 <= x + float(one.attrib[across]) <= wide
                assert 0 <= y + float(one.attrib[down]) <= tall
        for child in one:
            walk(child, x, y)

    walk(drawn, 0.0, 0.0)


@pytest.mark.parametrize("view", VIEWS)
def test_a_page_is_one_file_under_a_policy_that_allows_its_style_alone(view):
    page = formed(view, "html")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/]{43}='; base-uri 'none'; form-action 'none'", policy[1]
    )
    assert "<script" not in page
    assert not re.search(r"\s(src|href|style|on\w+)=", page)
    assert page.index("Content-Security-Policy") < page.index("<style>")


@pytest.mark.parametrize("view", VIEWS)
def test_json_says_the_same_and_is_plain_ascii(view):
    picture = sample(view)
    found = json.loads(picture.json())
    assert picture.json().isascii()
    assert found["title"] == picture.title
    assert len(found["panels"]) == len(picture.panels)
    assert msgspec.convert(found, Picture) == picture


@pytest.mark.parametrize("view", VIEWS)
def test_each_carries_where_it_comes_from_and_a_table(view):
    picture = sample(view)
    assert picture.table.rows
    assert all(len(row) == len(picture.table.columns) for row in picture.table.rows)
    if view not in {"steps", "context", "curves", "architecture"}:
        assert picture.source.receipt.startswith("holds")


@pytest.mark.parametrize("view", VIEWS)
def test_a_diagram_is_mermaid_and_dot_and_others_say_so(view):
    picture = sample(view)
    if view == "architecture":
        assert picture.mermaid().splitlines()[0] == "flowchart BT"
    if view in DIAGRAMS:
        assert picture.mermaid().splitlines()[0] in {"sequenceDiagram", "flowchart LR"}
        assert picture.dot().startswith("digraph ")
        assert picture.dot().endswith("}\n")
        return
    with pytest.raises(Misfit) as caught:
        picture.dot()
    assert str(caught.value) == (
        f"DOT needs a diagram, but the view {view!r} is not one; draw the view arrows or sequence"
    )


def test_the_sequence_as_mermaid():
    lines = sample("sequence").mermaid().splitlines()
    Q, V = (tensors()[place][0, HEAD] for place in (0, 2))
    numbers = [to_fixed(float(value), 2) for value in Q[2, :4]]
    assert lines[1] == f"  participant p0 as query fox {' '.join(numbers)} …"
    assert "  p13->>p15: Weighted Sum" in lines
    output = sight().weights(batch=0, head=HEAD, rows=4) @ V
    numbers = [to_fixed(float(value), 2) for value in output[:4]]
    assert lines[-1] == f"  Note over p15: {' '.join(numbers)} …"


@pytest.mark.parametrize("ending", [ending for ending in WRITERS if ending not in {".pdf", ".png"}])
def test_a_picture_is_saved_by_its_ending(ending, tmp_path):
    picture = sample("arrows")
    saved = picture.save(tmp_path / f"figure{ending}")
    forms = {".txt": picture.text, ".svg": picture.svg, ".html": picture.html, ".json": picture.json}
    forms |= {".mmd": picture.mermaid, ".dot": picture.dot}
    assert saved.read_text(encoding="utf-8") == forms[ending]()


@pytest.mark.parametrize(("ending", "first"), [(".pdf", b"%PDF-"), (".png", b"\x89PNG\r\n")])
def test_paper_and_pixels_come_from_the_same_figure(ending, first, tmp_path):
    pytest.importorskip("typst", reason="the extra `export` is not installed")
    made = sample("matrix").save(tmp_path / f"figure{ending}").read_bytes()
    assert made.startswith(first)
    assert 2_000 < len(made) < 150_000


def test_without_the_extra_there_is_a_way_out(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(Misfit) as caught:
        sample("matrix").save(tmp_path / "figure.pdf")
    assert str(caught.value) == (
        "PDF needs the package typst, but it is not installed; pip install 'transom[export]', or save .svg"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "came"), [("figure.gif", "'.gif'"), ("figure", NO_ENDING), ("figure.", NO_ENDING)])
def test_an_unknown_ending_lists_the_known_ones(name, came, tmp_path):
    with pytest.raises(Misfit) as caught:
        sample("matrix").save(tmp_path / name)
    assert str(caught.value) == (
        f"a picture's file must end in one of .txt .svg .html .json .mmd .dot .pdf .png, but got {came}; try figure.svg"
    )


def test_a_picture_is_short_where_it_is_printed():
    assert repr(sample("matrix")) == "Picture(matrix: 'Where blocks.0.attention, head 1 looks', 15 rows of numbers)"
    assert all(len(repr(sample(view))) < 120 for view in VIEWS)


def test_a_notebook_gets_text_a_page_and_a_figure():
    picture = sample("steps")
    found = picture._repr_mimebundle_()
    assert set(found) == {"text/plain", "text/html", "image/svg+xml"}
    assert found["text/html"] == picture._repr_html_()
    assert "<script" not in found["text/html"]
    assert "<html" not in found["text/html"]


def test_cells_on_a_page_open_their_arithmetic():
    page = formed("steps", "html")
    assert page.count("popovertarget=") == page.count("<div popover id=") == 5 * 7 * 4 + 5 * 5 * 4
    assert len(set(re.findall(r'popover id="([^"]+)"', page))) == page.count("<div popover id=")
    assert "<code>e^" in page
    assert "·" in page
