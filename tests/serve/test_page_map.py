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
    served = Served(path)
    yield served.address, trace["layer.0"]
    served.close()


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
    address, sight = long_trace
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    try:
        page.goto(address)
        page.wait_for_selector("svg .writes text")
        assert page.locator("svg .writes text").all_text_contents() == [f"(w{number})" for number in range(1, 65)]
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


def touch(page, *fingers, steps=8):
    """Fingers that go down together, each from one point of the map to another, and up again."""
    box, session = page.locator("canvas").bounding_box(), page.context.new_cdp_session(page)

    def sent(kind, share):
        places = [[here + share * (there - here) for here, there in zip(*one, strict=True)] for one in fingers]
        points = [{"id": n, "x": box["x"] + x, "y": box["y"] + y} for n, (x, y) in enumerate(places)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    sent("touchStart", 0.0)
    for step in range(steps):
        sent("touchMove", (step + 1) / steps)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    session.detach()


def seen(page, point):
    """The scale of the map, and what of it lies at a point, in keys and rows."""
    return page.evaluate(
        """([x, y]) => { const map = document.querySelector("transom-map"), at = map.at({ offsetX: x, offsetY: y });
        return { scale: map.scale, key: at.x, row: at.y }; }""",
        point,
    )


# The single weights of some rows and keys, as the map draws them; waits for them half a minute at most.
DRAWN = """async ([rows, keys]) => { const { tiles } = document.querySelector("transom-map");
    const tile = (row, key) => tiles.get(`0/${Math.floor(row / 256)}/${Math.floor(key / 256)}`);
    const pause = () => new Promise((done) => setTimeout(done, 50));
    for (let n = 0; n < 600 && !tile(rows[0], keys[0])?.image; n += 1) await pause();
    const one = (row, key) => tile(row, key).numbers[(row % 256) * tile(row, key).shape[1] + key % 256];
    return rows.map((row) => keys.map((key) => one(row, key))); }"""


# What stands beside the map, and which part of it is in view.
NAMED = """async () => { const map = document.querySelector("transom-map"), said = [], none = () => null;
    const pen = { save: none, restore: none, translate: none, rotate: none, fillText: (words) => said.push(words) };
    (await import("/maplabels.js")).labels(map, pen, false);
    return { said, ...map.window() }; }"""


def pinched(page, middle, before, after, there=None):
    """Two fingers, so far from their middle before and after, while the middle may go somewhere else."""
    there = there or middle
    touch(page, *(((middle[0] + side * before, middle[1]), (there[0] + side * after, there[1])) for side in (-1, 1)))


def test_two_fingers_zoom_and_one_moves_down_to_single_weights(browser, long_trace):
    address, sight = long_trace
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    try:
        page = context.new_page()
        page.goto(address)
        page.tap("#tab-map")
        page.wait_for_selector("transom-map li button")
        assert page.locator("canvas").evaluate("one => getComputedStyle(one).touchAction") == "none"
        middle, aside = (200, 220), (170, 260)
        start = found = seen(page, middle)
        for times in (1, 2, 3):
            pinched(page, middle, 15, 120)
            found = seen(page, middle)
            place = {"key": start["key"], "row": start["row"]}  # what is between the fingers stays there
            assert found == pytest.approx({"scale": start["scale"] * 8**times, **place})
        touch(page, (middle, aside))
        assert seen(page, aside) == pytest.approx(found), "it goes with the finger"
        pinched(page, aside, 50, 50, there=middle)
        assert seen(page, middle) == pytest.approx(found), "and with two"
        pinched(page, middle, 15, 120)
        assert seen(page, middle) == pytest.approx(found | {"scale": 72.0}), "no cell is larger"
        row, key = int(found["row"]), int(found["key"])
        drawn = page.evaluate(DRAWN, [[*range(row, row + 3)], [*range(key, key + 5)]])
        path = f"/api/runs/1/0/weights?first_row={row}&rows=3&first_key={key}&keys=5"
        assert drawn == asked(page, path)["weights"]
        assert drawn == sight.weights(0, 0, slice(row, row + 3), slice(key, key + 5)).tolist()
        touch(page, (middle, middle), steps=0)
        said = page.locator("canvas + p").inner_text()
        assert said.startswith(f"row {row} w{row}, column {key} w{key}, weight "), "a touched cell is read"
        named = page.evaluate(NAMED)
        rows, keys = (
            [f"w{one}" for one in range(3001) if named[first] <= one + 0.5 <= named[last]]
            for first, last in (("upper", "lower"), ("left", "right"))
        )
        assert len(rows) > 2
        assert named["said"] == rows + keys, "nothing is named whose middle is out of view"
        pinched(page, middle, 120, 15)
        assert seen(page, middle) == pytest.approx(found | {"scale": 72.0 / 8})
    finally:
        context.close()
