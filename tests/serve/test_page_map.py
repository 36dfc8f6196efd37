"""The map in a real browser: down to single weights, two runs compared; and every view on a small screen."""

import pytest
import torch
from serve.browsing import VIEWS, Served, asked, now, run

import transom

pytestmark = pytest.mark.slow


def test_two_runs_are_compared_on_the_map_and_beside_each_other(page):
    run(page)
    first = now(page)["run"]
    run(page, "The dog sat on the mat.")
    page.click("#tab-map")
    page.select_option("select[aria-label='Compare with']", first)
    page.wait_for_selector("text=What came out of both")
    outputs = page.locator(".two .written").all_inner_texts()
    assert outputs == [asked(page, f"/api/runs/{number}")["output"] for number in (now(page)["run"], first)]
    assert page.locator("tr.differs").count() >= 1
    page.click("#tab-see")
    run(page, "No.")
    page.click("#tab-map")
    page.select_option("select[aria-label='Compare with']", first)
    page.wait_for_selector("text=cannot be laid over each other")


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_cut_off_on_a_small_screen(page, view):
    """390 pixels wide, and 1280 at 400 %: the page itself never scrolls sideways."""
    run(page)
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 700})
        page.click(f"#tab-{view}")
        page.wait_for_timeout(500)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """() => [...document.querySelectorAll("main *, footer *, header *")].filter((one) => {
            const box = one.getBoundingClientRect(), boxed = one.closest(".scroll, .list, pre.told, .unseen, optgroup");
            return box.width > 0 && box.right > innerWidth + 1 && !boxed; }).map((one) => one.outerHTML.slice(0, 90))"""
        )
        assert outside == []


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


def longest_task(page, box):
    """Pan over the map by mouse at a fine zoom; how long the browser was busy without a break at most."""
    page.evaluate(
        """() => { window.tasks = [0]; window.watcher?.disconnect();
        const told = (list) => list.getEntries().forEach((one) => window.tasks.push(one.duration));
        window.watcher = new PerformanceObserver(told);
        window.watcher.observe({ type: "longtask" }); }"""
    )
    page.mouse.move(box["x"] + 500, box["y"] + 300)
    page.mouse.down()
    for step in range(40):
        page.mouse.move(box["x"] + 500 - 8 * step, box["y"] + 300 - 6 * step)
        page.wait_for_timeout(16)
    page.mouse.up()
    page.wait_for_timeout(300)
    return page.evaluate("Math.max(...window.tasks)")


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
        assert min(longest_task(page, box) for _ in range(3)) <= 100  # milliseconds
    finally:
        page.close()
        served.close()
