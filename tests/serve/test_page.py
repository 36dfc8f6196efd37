"""The page in a real browser: everything by mouse and by keyboard, the right numbers, and nothing from outside."""

import re

import pytest
import torch
from serve.browsing import VIEWS, Served, asked, now, run, watched
from show.hostile import PAYLOADS

import transom
from transom.show.visible import visible

pytestmark = pytest.mark.slow
SPELLED = [payload.encode("utf-8", "replace").decode() for payload in PAYLOADS]  # as a browser can take them
WHOLE = {"see": "svg .arrow", "walk": "td.cell", "map": "transom-map li button", "heads": "transom-heads table"}


def test_type_and_see_by_mouse(page):
    run(page)
    told = asked(page, f"/api/runs/{now(page)['run']}")
    assert page.locator(".written").first.inner_text().strip() == told["output"]
    assert page.locator("svg .at .word").count() == len(told["tokens"])
    assert page.locator("svg .from .word").count() == len(told["targets"])
    page.click("#from-2")
    place = now(page)
    path = f"/api/runs/{place['run']}/{place['attention']}/weights?head={place['head']}&first_row=2&rows=1"
    weights = asked(page, path)["weights"][0]
    drawn = page.locator("svg .number").all_text_contents()
    assert sorted(drawn) == sorted(f"{weight:.2f}" for weight in weights if weight >= 0.005)


def test_an_arrow_is_knocked_out_by_mouse_and_by_keyboard(page):
    run(page)
    page.click("#from-1")
    page.keyboard.press("ArrowUp")  # to what it looks at most
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Knock it out")
    row, key = now(page)["row"], now(page)["key"]
    assert (row, page.locator(f"#at-{key}").get_attribute("aria-pressed")) == ("1", "true")
    page.click("text=Knock it out")
    by_mouse = page.locator(".result").inner_text()
    assert "%" in by_mouse
    page.locator("button.main", has_text="Knock").focus()
    page.keyboard.press("Enter")
    page.wait_for_timeout(500)
    assert page.locator(".result").inner_text() == by_mouse
    page.click("text=/Switch off head/")
    page.wait_for_selector("text=/Without all of head/")


def test_walk_by_keyboard_down_to_the_arithmetic(page):
    run(page)
    page.locator("#tab-see").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("text=step 1 of")
    assert now(page)["view"] == "walk"
    page.locator("td.cell").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.at") == "1,1"
    assert page.locator("#spoken").inner_text().startswith("row ")
    while not page.locator("h2", has_text=re.compile("^weights", re.IGNORECASE)).count():
        page.get_by_role("button", name="Next →").press("Enter")
    page.locator("td.cell").first.press("Enter")
    assert "exp" in page.locator(".sum").last.inner_text() or "e^" in page.locator(".sum").last.inner_text()


def test_an_edited_score_flows_into_the_weights(page):
    run(page)
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
    assert page.locator('[data-at="1,1"]').inner_text() == "1.0000"
    page.get_by_role("button", name="Undo my changes").click()
    assert page.locator('[data-at="1,1"]').inner_text() != "1.0000"


def test_heads_are_sorted_filtered_and_opened(page):
    run(page)
    page.click("#tab-heads")
    page.get_by_role("button", name="confidence").first.click()
    column = page.locator("thead th").all_inner_texts().index("confidence ↓")
    found = [float(one) for one in page.locator(f"tbody tr td:nth-child({column + 1})").all_inner_texts()]
    assert found == sorted(found, reverse=True)
    page.fill("#only", "cross")
    page.locator("#only").press("Enter")
    assert all("cross" in name for name in page.locator("tbody th").all_inner_texts())
    page.locator("tbody button").first.press("Enter")
    page.wait_for_selector("svg .arrow")
    assert now(page)["view"] == "see"


def test_the_link_leads_back(page):
    run(page)
    page.click("#from-3")
    link = page.url
    page.goto("about:blank")
    page.wrong.clear()
    page.goto(link)
    page.wait_for_selector('#from-3[aria-pressed="true"]')


def test_a_link_pasted_into_an_open_page_leads_there(page):
    run(page)
    place = now(page)
    page.evaluate("hash => { location.hash = hash; }", f"#view=heads&run={place['run']}&attention=0&head=1")
    page.wait_for_selector("transom-heads table")
    assert page.locator("#tab-heads").get_attribute("aria-selected") == "true"


def test_lessons_by_keyboard(page):
    page.click("#tab-learn")
    page.wait_for_selector("text=Lessons, in order")
    page.locator("ol button").first.press("Enter")
    page.wait_for_selector("text=/1 of/")
    page.get_by_role("button", name="Next →").press("Enter")
    page.wait_for_selector("text=/2 of/")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_in_the_way_of_anyone(page, view, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page.emulate_media(color_scheme=scheme)
    run(page)
    page.click(f"#tab-{view}")
    page.wait_for_timeout(700)
    found = axe.Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert {one["id"]: [node["html"][:120] for node in one["nodes"][:3]] for one in serious} == {}


def test_hostile_text_is_read_and_does_nothing(page):
    """Typed as the text and as the target: with nothing to write and no head to look for, this is quick."""
    page.route(re.compile("/telling$"), lambda route: route.fulfill(json={"attention": None}))
    page.click("text=Compare with a translation of your own")
    rest = [payload for payload in SPELLED if payload.strip()]
    while rest:
        text = rest.pop(0)[:60]
        while rest and len(text) + len(rest[0]) < 240:
            text += " " + rest.pop(0)
        read(page, text)
    read(page, SPELLED[2])
    visit_all(page)


def read(page, text):
    """Type a text, and see that it is read."""
    page.fill("#text", text)
    page.fill("#target", text)
    with page.expect_response(re.compile("/api/writing$")) as came:
        page.click("button.main")
    assert came.value.status == 200, came.value.text()
    page.locator("button", has_text="Stop").wait_for(state="hidden")
    told = asked(page, f"/api/runs/{now(page)['run']}")
    assert page.locator(".written").text_content() == told["output"]
    page.wait_for_selector(f"#from-{min(64, len(told['targets'])) - 1}")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, browser):
    """A run that was saved: every payload is a token, half of them of the target; its layer is named after one."""
    half = len(SPELLED) // 2
    trace = transom.Trace(SPELLED[:half], SPELLED[half:])
    sizes = {"queries": len(SPELLED) - half, "keys": half}
    Q, K, V = (torch.randn(1, 1, sizes[axis], 5) for axis in ("queries", "keys", "keys"))
    trace.add(f"decoder.{SPELLED[2]}.cross", transom.sight(Q, K, V))
    path = tmp_path_factory.mktemp("hostile") / "run.safetensors"
    trace.save(path)
    served = Served(path)
    yield served, trace
    served.close()


def test_hostile_tokens_are_shown_as_they_are_and_do_nothing(browser, hostile):
    served, trace = hostile
    with watched(browser, served.root) as page:
        with page.expect_response(re.compile("/telling$")):
            page.goto(served.address)
        page.wait_for_selector("svg .arrow")
        labels = trace.labels(trace.names[0])
        for side, words in (("from", labels.reads), ("at", labels.at)):
            assert page.locator(f"svg .{side} .word text").all_text_contents() == [short(word) for word in words]
        assert page.locator("transom-choose .hint").count() == 0, "a head alone comes first among none"
        page.locator("#from-3").click()
        visit_all(page)
        assert trace.names[0] in page.locator("transom-heads tbody th").first.inner_text()


def short(token):
    """A token as a label has it."""
    seen = visible(token)
    return seen if len(seen) <= 24 else f"{seen[:23]}…"


def visit_all(page):
    """Every view of the run that is open, and every step of it; nothing came into the page but text."""
    for view, whole in WHOLE.items():
        page.click(f"#tab-{view}")
        page.wait_for_selector(whole)
        while (onward := page.get_by_role("button", name="Next →")).count() and onward.is_enabled():
            onward.click()
        assert page.evaluate("document.querySelectorAll('iframe,object,embed,form[action],base').length") == 0


def test_tokens_look_the_same_as_in_the_terminal(page):
    tokens = [*SPELLED, "", " ", "   ", " cat", "a b ", "\n", "é" * 300]
    shown = page.evaluate("tokens => import('/words.js').then(words => tokens.map(words.visible))", tokens)
    assert shown == [visible(token) for token in tokens]


def test_what_is_written_appears_while_it_is_written(page):
    """Token by token, each added to what stands there already, however many come at once."""
    page.evaluate(
        """() => { window.pieces = []; const place = document.querySelector(".written");
        const added = (record) => [...record.addedNodes].filter((one) => one.className === "new");
        const grows = (records) => window.pieces.push(...records.flatMap(added).map((one) => one.textContent));
        new MutationObserver(grows).observe(place, { childList: true }); }"""
    )
    run(page)
    told = asked(page, f"/api/runs/{now(page)['run']}")
    pieces = [piece for piece in page.evaluate("window.pieces") if piece]
    assert "".join(pieces) == told["output"] == page.locator(".written").inner_text()
    assert len(pieces) == len(told["written"]) - 1, "all but the token that ends it"
