"""The map in a real browser: down to single weights, two runs compared; and every view on a small screen."""

import pytest
import torch
from serve.browsing import VIEWS, address_fields, expect, fetch_json, run_text

import transom

pytestmark = pytest.mark.slow


def test_two_runs_are_compared_on_the_map_and_beside_each_other(page):
    run_text(page)
    first = address_fields(page)["run"]
    run_text(page, "The dog sat on the mat.")
    page.click("#tab-map")
    page.select_option("select[aria-label='Compare with']", first)
    page.wait_for_selector("text=What came out of both")
    outputs = page.locator(".two-columns .output").all_inner_texts()
    assert outputs == [
        fetch_json(page, f"/api/runs/{number}")["output"] for number in (address_fields(page)["run"], first)
    ]
    expect(page.locator("tr.changed").first).to_be_visible()
    page.click("#tab-see")
    run_text(page, "No.")
    page.click("#tab-map")
    page.select_option("select[aria-label='Compare with']", first)
    page.wait_for_selector("text=cannot be laid over each other")


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_cut_off_on_a_small_screen(page, view):
    """390 pixels wide, and 1280 at 400 %: the page itself never scrolls sideways."""
    run_text(page)
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 700})
        page.click(f"#tab-{view}")
        page.wait_for_timeout(500)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """() => [...document.querySelectorAll("main *, footer *, header *")].filter((element) => {
            const box = element.getBoundingClientRect();
            const mayScroll = element.closest(".scroll, .list, pre.lesson-text, .visually-hidden, optgroup");
            return box.width > 0 && box.right > innerWidth + 1 && !mayScroll;
            }).map((element) => element.outerHTML.slice(0, 90))"""
        )
        assert outside == []


@pytest.fixture(scope="module")
def long_trace(start_server, tmp_path_factory):
    """Two heads over more tokens than a screen has pixels."""
    torch.manual_seed(37)
    n = 3001
    Q, K, V = torch.randn(1, 2, n, 8), torch.randn(1, 2, n, 8), torch.randn(1, 2, n, 8)
    trace = transom.Trace([f"w{number}" for number in range(n)])
    trace.add("layer.0", transom.sight(Q, K, V, causal=True))
    path = tmp_path_factory.mktemp("long") / "run.safetensors"
    trace.save(path)
    return start_server(path).address, trace["layer.0"]


def wait_for_zoom(page, low, high):
    """Wait until the zoom in the address is between two numbers."""
    zoom = "Number(new URLSearchParams(location.hash.slice(1)).get('zoom'))"
    page.wait_for_function(f"([low, high]) => low < {zoom} && {zoom} < high", arg=[low, high])


def read_cell(page, text):
    """Read the middle of the map by keyboard until its tile is there, up to half a minute."""
    for _ in range(600):
        page.locator("canvas").press("Enter")
        if page.locator("#announcer").inner_text() == text:
            return
        page.wait_for_timeout(50)
    assert page.locator("#announcer").inner_text() == text


def test_zoom_down_to_single_weights(browser, long_trace):
    address, sight = long_trace
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    try:
        page.goto(address)
        page.click("#tab-see")
        page.wait_for_selector("svg .next-token text")
        expect(page.locator("svg .next-token text")).to_have_text([f"(w{number})" for number in range(1, 65)])
        page.click("#tab-map")
        page.locator("transom-map li button").first.click()  # to the strongest arrow
        x, y, zoom = page.evaluate(
            "(({ x, y, scale }) => [x, y, scale])(document.querySelector('transom-map').viewport)"
        )
        row, key = int(y), int(x)
        weight = float(sight.weights(batch=0, head=0, rows=row, keys=key))
        read_cell(page, f"row {row} w{row}, column {key} w{key}, weight {weight:.4f}")
        page.keyboard.press("-")
        wait_for_zoom(page, 0.499 * zoom, 0.501 * zoom)
        box = page.locator("canvas").bounding_box()
        page.mouse.move(box["x"] + 500, box["y"] + 200)
        page.mouse.wheel(0, -480)
        wait_for_zoom(page, zoom, 100)
        page.keyboard.press("Home")
        wait_for_zoom(page, 0, 1)
        page.fill("#find", "w2999")
        page.wait_for_selector("text=column 2999")
    finally:
        page.close()


def touch(page, *fingers, steps=8):
    """Move fingers together, each from one point of the map to another."""
    page.locator("canvas").evaluate("canvas => canvas.scrollIntoView()")  # a finger beside the screen touches nothing
    box, session = page.locator("canvas").bounding_box(), page.context.new_cdp_session(page)

    def send(kind, share):
        positions = [[a + share * (b - a) for a, b in zip(*finger, strict=True)] for finger in fingers]
        points = [{"id": n, "x": box["x"] + x, "y": box["y"] + y} for n, (x, y) in enumerate(positions)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    send("touchStart", 0.0)
    for step in range(steps):
        send("touchMove", (step + 1) / steps)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    session.detach()


def map_at(page, point):
    """The scale of the map, and the key and row at a point."""
    return page.evaluate(
        """([x, y]) => { const { viewport } = document.querySelector("transom-map");
        const at = viewport.toMap({ offsetX: x, offsetY: y });
        return { scale: viewport.scale, key: at.x, row: at.y }; }""",
        point,
    )


# The single weights of some rows and keys, as the map draws them; waits for them up to half a minute.
DRAWN = """async ([rows, keys]) => { const { loaded } = document.querySelector("transom-map").tiles;
    const tile = (row, key) => loaded.get(`0/${Math.floor(row / 256)}/${Math.floor(key / 256)}`);
    const pause = () => new Promise((done) => setTimeout(done, 50));
    for (let n = 0; n < 600 && !tile(rows[0], keys[0])?.images; n += 1) await pause();
    const weight = (row, key) => tile(row, key).numbers[(row % 256) * tile(row, key).shape[1] + key % 256];
    return rows.map((row) => keys.map((key) => weight(row, key))); }"""


# The labels beside the map, and the part of it that is in view.
LABELS = """async () => { const { viewport } = document.querySelector("transom-map"), labels = [], none = () => null;
    const pen = { save: none, restore: none, translate: none, rotate: none, fillText: (text) => labels.push(text) };
    (await import("/map_labels.js")).drawTokens(viewport, pen, false);
    return { labels, ...viewport.visible() }; }"""


def pinch(page, middle, before, after, end=None):
    """Move two fingers from one distance to another, while the middle may move too."""
    end = end or middle
    touch(page, *(((middle[0] + side * before, middle[1]), (end[0] + side * after, end[1])) for side in (-1, 1)))


def test_two_fingers_zoom_and_one_moves_down_to_single_weights(browser, long_trace):
    address, sight = long_trace
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    try:
        page = context.new_page()
        page.goto(address)
        page.tap("#tab-map")
        page.wait_for_selector("transom-map li button")
        page.get_by_label("computing the whole map").wait_for(state="hidden")  # it is above the map and shifts it
        assert page.locator("canvas").evaluate("canvas => getComputedStyle(canvas).touchAction") == "none"
        middle, aside = (200, 220), (170, 260)
        start = found = map_at(page, middle)
        for times in (1, 2, 3):
            pinch(page, middle, 15, 120)
            found = map_at(page, middle)
            assert found == pytest.approx(start | {"scale": start["scale"] * 8**times}), "the middle stays in place"
        touch(page, (middle, aside))
        assert map_at(page, aside) == pytest.approx(found), "it moves with the finger"
        pinch(page, aside, 50, 50, end=middle)
        assert map_at(page, middle) == pytest.approx(found), "and with two"
        pinch(page, middle, 15, 120)
        assert map_at(page, middle) == pytest.approx(found | {"scale": 72.0}), "no cell is larger"
        row, key = int(found["row"]), int(found["key"])
        drawn = page.evaluate(DRAWN, [[*range(row, row + 3)], [*range(key, key + 5)]])
        path = f"/api/runs/1/0/weights?first_row={row}&rows=3&first_key={key}&keys=5"
        assert drawn == fetch_json(page, path)["weights"]
        assert drawn == sight.weights(0, 0, slice(row, row + 3), slice(key, key + 5)).tolist()
        touch(page, (middle, middle), steps=0)
        text = page.locator("canvas + p").inner_text()
        assert text.startswith(f"row {row} w{row}, column {key} w{key}, weight "), "a touched cell is read"
        view = page.evaluate(LABELS)
        rows, keys = (
            [f"w{number}" for number in range(3001) if view[first] <= number + 0.5 <= view[last]]
            for first, last in (("upper", "lower"), ("left", "right"))
        )
        assert len(rows) > 2
        assert view["labels"] == rows + keys, "no label of a row or key whose middle is out of view"
        pinch(page, middle, 120, 15)
        assert map_at(page, middle) == pytest.approx(found | {"scale": 72.0 / 8})
    finally:
        context.close()
