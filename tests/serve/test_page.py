"""The page in a real browser: everything by mouse and by keyboard, the right numbers, and nothing from outside."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from show.hostile import PAYLOADS

import transom

pytestmark = pytest.mark.slow
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync"
SENTENCE = "The cat sat on the mat."
VIEWS = ["see", "walk", "map", "heads", "learn"]


class Served:
    """A server of its own, and its address."""

    def __init__(self, *args):
        command = [sys.executable, "-m", "transom", "serve", "--port", "0", "--json", *map(str, args)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        self.address = json.loads(self.process.stdout.readline())["address"]
        self.root = self.address.partition("?")[0]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=[*QUIET.split(), "--disable-component-update"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def server(browser):
    found = Served()
    yield found
    found.close()


@pytest.fixture
def page(browser, server):
    """A page that remembers everything it should not do."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    opened = context.new_page()
    opened.wrong = []
    opened.on("dialog", lambda dialog: (opened.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    opened.on("request", lambda asked: None if asked.url.startswith(server.root) else opened.wrong.append(asked.url))
    opened.on("console", lambda said: opened.wrong.append(said.text))
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    with opened.expect_response(re.compile("/telling$")):  # the first sentence runs by itself
        opened.goto(server.address)
    yield opened
    context.close()
    assert opened.wrong == []


def run(page, text=SENTENCE):
    """Type a text and look at it, by mouse; waits until the most telling head is chosen."""
    page.fill("#text", text)
    with page.expect_response(re.compile("/telling$")):
        page.click("button.main")
    page.wait_for_selector("svg .arrow")


def asked(page, path):
    return page.evaluate("path => fetch(path).then(found => found.json())", path)


def now(page):
    return page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def test_type_and_see_by_mouse(page):
    run(page)
    told = asked(page, f"/api/runs/{now(page)['run']}")
    assert page.locator(".written").inner_text().strip() == "".join(told["written"][:-1]).strip()
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


def test_hostile_text_is_shown_as_it_is_and_does_nothing(page):
    rest = [payload.encode("utf-8", "replace").decode() for payload in PAYLOADS if payload.strip()]
    while rest:
        text = rest.pop(0)[:60]
        while rest and len(text) + len(rest[0]) < 120:
            text += " " + rest.pop(0)
        page.fill("#text", text)
        with page.expect_response(re.compile("/api/runs$")) as came:
            page.click("button.main")
        assert came.value.status == 200, came.value.text()
        for view in VIEWS[:4]:
            page.click(f"#tab-{view}")
            page.wait_for_timeout(150)
        page.click("#tab-see")
    assert page.evaluate("document.querySelectorAll('iframe,object,embed,form[action],base').length") == 0


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory):
    """Two heads over more tokens than a screen has pixels."""
    torch.manual_seed(37)
    n = 3001
    Q, K, V = torch.randn(1, 2, n, 8), torch.randn(1, 2, n, 8), torch.randn(1, 2, n, 8)
    trace = transom.Trace([f"w{number}" for number in range(n)])
    trace.add("layer.0", transom.sight(Q, K, V, causal=True))
    path = tmp_path_factory.mktemp("long") / "run.safetensors"
    trace.save(path)
    return path, trace["layer.0"]


def test_zoom_down_to_single_weights(browser, long_trace):
    path, sight = long_trace
    served = Served(path)
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    try:
        page.goto(served.address)
        page.click("#tab-map")
        page.wait_for_selector("transom-map li button")
        first = page.locator("transom-map li button").first
        first.click()  # to the strongest arrow
        page.wait_for_timeout(1500)
        x, y = (float(now(page)[name]) for name in ("x", "y"))
        page.locator("canvas").focus()
        page.keyboard.press("Enter")
        spoken = page.locator("#spoken").inner_text()
        row, key = int(y), int(x)
        weight = float(sight.weights(batch=0, head=0, rows=row, keys=key))
        assert spoken == f"row {row} w{row}, column {key} w{key}, weight {weight:.4f}"
        zoom = float(now(page)["zoom"])
        page.keyboard.press("-")
        page.wait_for_timeout(300)
        assert float(now(page)["zoom"]) == pytest.approx(zoom / 2, rel=1e-3)
        box = page.locator("canvas").bounding_box()
        page.mouse.move(box["x"] + 500, box["y"] + 200)
        page.mouse.wheel(0, -480)
        page.wait_for_timeout(300)
        assert float(now(page)["zoom"]) > zoom
        page.keyboard.press("Home")
        page.wait_for_timeout(1500)
        page.fill("#find", "w2999")
        page.wait_for_selector("text=column 2999")
    finally:
        page.close()
        served.close()
