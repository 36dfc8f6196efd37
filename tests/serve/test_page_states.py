"""What the page says when it cannot do what it is asked, and its controls by keyboard alone, in a real browser."""

import re

import pytest
from serve.accessibility import find_violations
from serve.browsing import VIEWS, address_fields, expect, run_text

pytestmark = pytest.mark.slow
MOST_TABS = 500
GONE = "the server does not answer; is transom serve still running?"
# Every control that can be reached: those of one group (tabs, radios, tokens, cells, panes) are one stop of Tab.
CONTROLS = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
    .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true }))
    .filter((one) => one.closest("details:not([open])") === null || one.matches("summary"))
    .filter((one) => one.id !== "main" && one.id !== "view")"""
NUMBER = f"""() => ({CONTROLS})().forEach((one, i) => {{ one.dataset.stop = i; }})"""
# The focused control, and whether one sees that it is: an outline, a shadow, or the box of a field.
FOCUSED = """() => { const one = document.activeElement, style = getComputedStyle(one);
    const isMarked = parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none";
    const box = one.getBoundingClientRect();
    const isSeen = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
    return { stop: one.dataset.stop ?? null, html: one.outerHTML.slice(0, 120),
        marked: isMarked || style.boxShadow !== "none", seen: isSeen }; }"""


@pytest.mark.parametrize("view", VIEWS)
def test_tab_reaches_every_control_and_shows_where_it_is(page, view):
    run_text(page)
    page.click(f"#tab-{view}")
    page.wait_for_timeout(1500)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.evaluate(NUMBER)
    wanted = set(page.evaluate(f"({CONTROLS})().map((one) => one.dataset.stop)"))
    reached, unmarked = set(), []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        now = page.evaluate(FOCUSED)
        if now["stop"] is None:
            continue  # the page itself, or the picture that the first link leads to
        if now["stop"] in reached:
            break
        reached.add(now["stop"])
        if not (now["marked"] and now["seen"]):
            unmarked.append(now["html"])
    missed = page.evaluate(
        "stops => stops.map((stop) => document.querySelector(`[data-stop='${stop}']`)?.outerHTML.slice(0, 120))",
        sorted(wanted - reached),
    )
    assert [one for one in missed if one] == []
    assert unmarked == []


def test_a_server_that_is_gone_is_named(page):
    run_text(page)
    page.route("**/api/**", lambda route: route.abort())
    page.click("#tab-heads")
    expect(page.locator("#error")).to_have_text(GONE)
    expect(page.get_by_text("Measuring every head …")).to_have_count(0)
    page.click("#tab-stage")
    expect(page.locator("#error")).to_be_hidden()  # what was there before still is
    page.click("#tab-compare")
    expect(page.locator("#error")).to_have_text(GONE)
    expect(page.get_by_text("This is the only run")).to_have_count(0)
    assert find_violations(page) == {}
    page.wrong[:] = [each for each in page.wrong if "ERR_FAILED" not in each]


def test_bad_input_is_named(page):
    page.fill("#text", "word " * 300)
    with page.expect_response(re.compile("/api/writing$")):
        page.click("button[type=submit]")
    expect(page.locator("#error")).to_contain_text("takes 256 at most; give a shorter one")
    page.wrong[:] = [each for each in page.wrong if "400" not in each]


def test_a_picture_is_offered_only_where_there_is_one(page):
    run_text(page)
    for view, names in {"see": ["SVG", "PNG"], "stage": [], "compare": []}.items():
        page.click(f"#tab-{view}")
        links = page.locator("transom-downloads a").all_inner_texts()
        assert links[:2] == (names or ["this page", "the whole run"]), view


def test_arrows_are_as_wide_as_their_words_on_a_phone(page):
    run_text(page, "We are going home.")
    page.set_viewport_size({"width": 390, "height": 844})
    frame = page.locator("transom-arrows .scroll").first
    page.reload()
    page.wait_for_selector("transom-arrows svg .arrow:not([display])")
    assert frame.evaluate("one => one.scrollWidth - one.clientWidth") <= 4
    expect(page.get_by_text("Tokens below look at tokens above")).to_be_visible()
    assert address_fields(page)["view"] == "see"
