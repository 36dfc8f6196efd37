"""The arrows of a head between two lines of tokens: which are seen, how wide they are, and what they are called."""

import re
import xml.etree.ElementTree as ET

import pytest
from show.hostile import PAYLOADS

from transom.show.formatting import make_visible
from transom.show.panels.arrows import Arrow
from transom.show.panels.head_arrows import HeadArrows
from transom.show.picture import Picture

SVG = "{http://www.w3.org/2000/svg}"
ROWS, KEYS = ("<s>", " cat", "sat"), ("Die", " Katze", "saß", ".", "</s>")
WEIGHTS = {(0, 0): 0.95, (0, 3): 0.05, (1, 1): 0.7, (1, 2): 0.29, (1, 4): 0.01, (2, 0): 0.004, (2, 2): 0.996}


def panel(**given):
    arrows = tuple(Arrow(row, key, weight) for (row, key), weight in WEIGHTS.items())
    return HeadArrows(rows=ROWS, keys=KEYS, arrows=arrows, following=(" cat", "sat", None), **given)


def drawn(one):
    return ET.fromstring(Picture(view="arrows", title="one head", panels=(one,)).svg())


def seen(svg, kind):
    """The marks of a kind that are not hidden, by row and key."""
    found = [one for one in svg.iter() if kind in one.get("class", "").split() and one.get("display") != "none"]
    return {(int(one.get("data-row")), int(one.get("data-key", -1))): one for one in found}


@pytest.mark.parametrize(
    ("row", "expected"),
    [(None, {(0, 0), (0, 3), (1, 1), (1, 2), (2, 2)}), (1, {(1, 1), (1, 2), (1, 4)}), (2, {(2, 0), (2, 2)})],
)
def test_weak_arrows_are_seen_of_a_chosen_row_alone(row, expected):
    svg = drawn(panel(row=row))
    found = seen(svg, "arrow")
    assert set(found) == expected
    for edge, arrow in found.items():
        assert float(arrow.get("stroke-width")) == pytest.approx(max(0.6, 11 * WEIGHTS[edge]), abs=0.006)
        token, key = (make_visible(side[place]) for side, place in zip((ROWS, KEYS), edge, strict=True))
        assert arrow.findtext(f"{SVG}title") == f"from {token} at {key}: weight {WEIGHTS[edge]:.2f}"
    assert len([one for one in svg.iter() if "arrow" in one.get("class", "").split()]) == len(WEIGHTS)


def test_a_chosen_row_has_its_numbers_and_a_chosen_key_is_marked():
    svg = drawn(panel(row=1, key=2))
    (numbers,) = seen(svg, "numbers").values()
    assert sorted(one.text for one in numbers if one.text) == ["0.01", "0.29", "0.70"]
    dashed = {edge for edge, arrow in seen(svg, "arrow").items() if arrow.get("stroke-dasharray")}
    assert dashed == {(1, 2)}
    marked = {one.get("id") for one in svg.iter(f"{SVG}g") if one.get("id") and one[0].get("fill") != "none"}
    assert marked == {"from-1", "at-2"}
    texts = [one.text for one in seen(drawn(panel(row=2)), "numbers")[2, -1] if one.text]
    assert texts == ["1.00"], "0.004 is too little for a number"


def test_the_widest_arrow_is_drawn_last():
    widths = [
        float(one)
        for one in re.findall(r'class="arrow[^>]*stroke-width="([\d.]+)"', "".join(panel().to_canvas().elements))
    ]
    assert widths == sorted(widths)
    assert len(widths) == len(WEIGHTS)


def test_each_row_has_the_token_that_comes_next():
    svg = drawn(panel())
    (group,) = (one for one in svg.iter(f"{SVG}g") if one.get("class") == "next-token")
    assert [one.text for one in group] == ["(·cat)", "(sat)"]


def test_what_is_seen_is_written_too():
    lines = panel(row=1).lines(80, colour=False)
    assert [line.split()[0] for line in lines[1:]] == ["·cat", "0.29", "0.01"]
    assert panel(row=2).mermaid().count("-->") == panel(row=2).dot().count("->") == 2


def test_hostile_tokens_stay_text():
    tokens = tuple(PAYLOADS[:64])
    one = HeadArrows(rows=tokens, keys=tokens, arrows=(Arrow(0, 1, 0.5),), following=tokens)
    names = {element.tag.removeprefix(SVG) for element in drawn(one).iter()}
    assert names == {"svg", "g", "rect", "text", "path", "title"}
