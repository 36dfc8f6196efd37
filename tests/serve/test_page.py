"""The page in a real browser: everything by mouse and by keyboard, the right numbers, and nothing from outside."""

import re

import pytest
import torch
from serve.accessibility import find_violations
from serve.browsing import VIEWS, address_fields, checked_page, expect, fetch_json, run_text
from show.hostile import PAYLOADS

import transom
from transom.show.formatting import clip, make_visible

pytestmark = pytest.mark.slow
TEXTS = [payload.encode("utf-8", "replace").decode() for payload in PAYLOADS]  # as a browser can take them
READY = {  # what is there once a view is complete
    "stage": ".stage-token",
    "see": "svg .arrow:not([display])",
    "walk": "td.cell",
    "map": "transom-map li button",
    "heads": "transom-heads table",
}


def test_type_and_see_by_mouse(page):
    run_text(page)
    run = fetch_json(page, f"/api/runs/{address_fields(page)['run']}")
    expect(page.locator(".output").first).to_have_text(run["output"])
    expect(page.locator("svg .at .word")).to_have_count(len(run["tokens"]))
    expect(page.locator("svg .from .word")).to_have_count(len(run["targets"]))
    page.click("#from-2")
    fields = address_fields(page)
    path = f"/api/runs/{fields['run']}/{fields['attention']}/weights?head={fields['head']}&first_row=2&rows=1"
    weights = fetch_json(page, path)["weights"][0]
    drawn = page.locator("svg .numbers:not([display]) text").all_text_contents()
    assert sorted(drawn) == sorted(f"{weight:.2f}" for weight in weights if weight >= 0.005)


def test_an_arrow_is_knocked_out_by_mouse_and_by_keyboard(page):
    run_text(page)
    page.click("#from-1")
    page.keyboard.press("ArrowUp")  # to what it looks at most
    page.keyboard.press("Enter")
    knock = page.get_by_role("button", name="Knock it out", exact=True)
    knock.wait_for()
    row, key = address_fields(page)["row"], address_fields(page)["key"]
    assert (row, page.locator(f"#at-{key}").get_attribute("aria-pressed")) == ("1", "true")
    knock.click()
    by_mouse = page.locator(".result").inner_text()
    assert "%" in by_mouse
    page.evaluate("document.querySelector('.result').remove()")
    knock.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".result")).to_have_text(by_mouse, use_inner_text=True)
    page.click("text=/Switch off head/")
    page.wait_for_selector("text=/Without all of head/")


# What a drawing shows: arrows with their colours, numbers, words, and what is marked. The heading of a file is HTML on
# the page; a space before a word goes without saying, and repeated words have their place.
SHOWN = """(svg) => { const shown = (one) => !one.closest("[display=none]");
    const all = (what) => [...svg.querySelectorAll(what)].filter(shown);
    const own = svg.ownerDocument === document, pen = document.createElement("canvas").getContext("2d");
    const stroke = (one) => { pen.fillStyle = own ? getComputedStyle(one).stroke : one.getAttribute("stroke"); };
    const shape = (one) => ["d", "stroke-width", "opacity"].map((name) => one.getAttribute(name));
    const dashed = (one) => one.matches(".selected, [stroke-dasharray]");
    const arrow = (one) => { stroke(one); return [...shape(one), pen.fillStyle, dashed(one)]; };
    const marked = (one) => own ? one.matches("[aria-pressed=true]") : !one.querySelector("rect[fill=none]");
    return { arrows: all(".arrow").map(arrow), marked: all(".word").filter(marked).map((one) => one.id),
      texts: all("svg > g > g text").filter((one) => !["at", "from", "is read", "reads"].includes(one.textContent))
        .map((one) => one.textContent.replace(/^(\\(?)·|[₀-₉]+$/g, "$1") + one.getAttribute("x")) }; }"""


@pytest.mark.parametrize("choice", ["nothing", "a row", "an arrow"])
def test_what_is_downloaded_is_what_is_on_the_screen(page, choice):
    run_text(page)
    if choice != "nothing":
        page.click("#from-1")
    if choice == "an arrow":
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
    link = page.get_by_role("link", name="SVG", exact=True).get_attribute("href")
    parsed = "new DOMParser().parseFromString(text, 'image/svg+xml').documentElement"
    downloaded = page.evaluate(
        f"link => fetch(link).then(response => response.text()).then(text => ({SHOWN})({parsed}))", link
    )
    shown = page.evaluate(f"() => ({SHOWN})(document.querySelector('transom-arrows svg'))")
    assert downloaded == shown
    assert len(shown["arrows"]) > 3
    assert len(shown["marked"]) == ["nothing", "a row", "an arrow"].index(choice)
    assert sum(dashed for *_, dashed in shown["arrows"]) == (choice == "an arrow")


def test_walk_by_keyboard_down_to_the_arithmetic(page):
    run_text(page)
    page.locator("#tab-see").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("text=step 1 of")
    assert address_fields(page)["view"] == "walk"
    page.locator("td.cell").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.at") == "1,1"
    expect(page.locator("#announcer")).to_have_text(re.compile("^row "))
    while not page.locator("h2", has_text=re.compile("^weights", re.IGNORECASE)).count():
        page.get_by_role("button", name="Next →").press("Enter")
    page.locator("td.cell").first.press("Enter")
    arithmetic = page.locator(".arithmetic").last.inner_text()
    assert "exp" in arithmetic or "e^" in arithmetic


def test_an_edited_score_flows_into_the_weights(page):
    run_text(page)
    page.click("#tab-walk")
    page.wait_for_selector("text=step 1 of")
    while not page.locator("h2", has_text=re.compile("^(masked|scaled)", re.IGNORECASE)).count():
        page.get_by_role("button", name="Next →").click()
    page.locator('[data-at="1,1"]').click()
    field = page.locator("input[type=number]")
    field.fill("40")
    field.press("Enter")
    while not page.locator("h2", has_text=re.compile("^weights", re.IGNORECASE)).count():
        page.get_by_role("button", name="Next →").click()
    expect(page.locator('[data-at="1,1"]')).to_have_text("1.0000")
    page.get_by_role("button", name="Undo my changes").click()
    expect(page.locator('[data-at="1,1"]')).not_to_have_text("1.0000")


def test_heads_are_sorted_filtered_and_opened(page):
    run_text(page)
    page.click("#tab-heads")
    page.get_by_role("button", name="confidence").first.click()
    column = page.locator("thead th").all_inner_texts().index("confidence ↓")
    values = [float(text) for text in page.locator(f"tbody tr td:nth-child({column + 1})").all_inner_texts()]
    assert values == sorted(values, reverse=True)
    page.fill("#layer-filter", "cross")
    page.locator("#layer-filter").press("Enter")
    assert all("cross" in name for name in page.locator("tbody th").all_inner_texts())
    page.locator("tbody button").first.press("Enter")
    page.wait_for_selector("svg .arrow:not([display])")
    assert address_fields(page)["view"] == "see"


def test_the_link_leads_back(page):
    run_text(page)
    page.click("#from-3")
    link = page.url
    page.goto("about:blank")
    page.wrong.clear()
    page.goto(link)
    page.wait_for_selector('#from-3[aria-pressed="true"]')


def test_a_link_pasted_into_an_open_page_leads_there(page):
    run_text(page)
    number = address_fields(page)["run"]
    page.evaluate("hash => { location.hash = hash; }", f"#view=heads&run={number}&attention=0&head=1")
    page.wait_for_selector("transom-heads table")
    assert page.locator("#tab-heads").get_attribute("aria-selected") == "true"


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible(page, view, scheme):
    page.emulate_media(color_scheme=scheme)
    run_text(page)
    page.click(f"#tab-{view}")
    page.wait_for_timeout(700)
    assert find_violations(page) == {}


def test_hostile_text_is_read_and_has_no_effect(page):
    """Typed as text and as target: this is quick, as the model writes nothing and no head is ranked."""
    page.route(re.compile("/telling$"), lambda route: route.fulfill(json={"attention": None}))
    page.click("#tab-see")
    page.click("text=Compare with a translation of your own")
    waiting = [payload for payload in TEXTS if payload.strip()]
    while waiting:
        text = waiting.pop(0)[:60]
        while waiting and len(text) + len(waiting[0]) < 240:
            text += " " + waiting.pop(0)
        read_text(page, text)
    read_text(page, TEXTS[2])
    visit_all(page)


def read_text(page, text):
    """Type a text, and check that the model reads it."""
    page.fill("#text", text)
    page.fill("#target", text)
    with page.expect_response(re.compile("/api/writing$")) as response:
        page.click("button[type=submit]")
    assert response.value.status == 200, response.value.text()
    page.locator("button", has_text="Stop").wait_for(state="hidden")
    run = fetch_json(page, f"/api/runs/{address_fields(page)['run']}")
    expect(page.locator(".output")).to_have_text(run["output"])
    page.wait_for_selector(f"#from-{min(64, len(run['targets'])) - 1}")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, start_server):
    """A saved run: every payload is a token, half of them of the target; its layer is named after one."""
    half = len(TEXTS) // 2
    trace = transom.Trace(TEXTS[:half], TEXTS[half:])
    sizes = {"queries": len(TEXTS) - half, "keys": half}
    Q, K, V = (torch.randn(1, 1, sizes[axis], 5) for axis in ("queries", "keys", "keys"))
    trace.add(f"decoder.{TEXTS[2]}.cross", transom.sight(Q, K, V))
    path = tmp_path_factory.mktemp("hostile") / "run.safetensors"
    trace.save(path)
    return start_server(path), trace


def test_hostile_tokens_are_shown_as_they_are_and_have_no_effect(browser, hostile):
    server, trace = hostile
    with checked_page(browser, server.root) as page:
        with page.expect_response(re.compile("/telling$")):
            page.goto(server.address)
        page.wait_for_selector("transom-stage .stage-token")
        page.click("#tab-see")
        page.wait_for_selector("svg .arrow:not([display])")
        labels = trace.labels(trace.names[0])
        for side, words in (("from", labels.reads), ("at", labels.at)):
            expect(page.locator(f"svg .{side} .word text")).to_have_count(len(words))
            shown = page.locator(f"svg .{side} .word text").all_text_contents()
            assert [re.sub("[₀-₉]+$", "", text) for text in shown] == [label(word) for word in words]
        expect(page.locator("transom-head-picker .hint")).to_have_count(0)  # a head alone comes first among none
        page.locator("#from-3").click()
        visit_all(page)
        expect(page.locator("transom-heads tbody th span").first).to_have_attribute("title", trace.names[0])


def label(token):
    """A token as a label on the page."""
    return re.sub("^·(?=[^·])", "", clip(make_visible(token), 24))


def visit_all(page):
    """Visit every view and every step of the run; the page must contain only text."""
    for view, selector in READY.items():
        page.click(f"#tab-{view}")
        page.wait_for_selector(selector)
        while (button := page.get_by_role("button", name="Next →")).count() and button.is_enabled():
            button.click()
        assert page.evaluate("document.querySelectorAll('iframe,object,embed,form[action],base').length") == 0


def test_tokens_look_the_same_as_in_the_terminal(page):
    tokens = [*TEXTS, "", " ", "   ", " cat", "a b ", "\n", "é" * 300]
    shown = page.evaluate("tokens => import('/token_text.js').then(text => tokens.map(text.makeVisible))", tokens)
    assert shown == [make_visible(token) for token in tokens]


def test_what_is_written_appears_while_it_is_written(page):
    """Token by token, each added to the text before it, however many arrive at once."""
    page.evaluate(
        """() => { window.pieces = []; const place = document.querySelector(".output");
        const added = (record) => [...record.addedNodes].filter((one) => one.className === "new");
        const grows = (records) => window.pieces.push(...records.flatMap(added).map((one) => one.textContent));
        new MutationObserver(grows).observe(place, { childList: true }); }"""
    )
    run_text(page)
    run = fetch_json(page, f"/api/runs/{address_fields(page)['run']}")
    pieces = [piece for piece in page.evaluate("window.pieces") if piece]
    assert "".join(pieces) == run["output"] == page.locator(".output").inner_text()
    assert len(pieces) == len(run["written"]) - 1, "all but the end token"
