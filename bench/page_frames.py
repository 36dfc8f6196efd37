"""How much script does a frame of the page take, while a sentence is animated and while a long map is panned?

`transom serve` runs in a process of its own; Chromium, driven by playwright, plays the motion of the whole model, of a
head and of a row on a sentence of the embedded translator, and pans over the map of a head with 32,768 tokens. Script
is the time between the first callback of a frame and its last, measured in the page itself. Exit code 1 if the median
is above 8 ms or the 95th percentile above 16 ms in any of them. Needs playwright and Chromium.

    python -m bench.page_frames [--tokens N] [--json]
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.questions.serving import Server, save_long_trace

TOKENS = 32_768
SENTENCE = "We would like a table for two by the window."
MEDIAN, P95 = 8.0, 16.0  # milliseconds
PATIENCE = 240_000
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# Every callback of a frame, of a pointer and of a message is timed; what ran since the frame before belongs to a frame.
COUNT = """(() => {
    const frames = window.frameScript = []; let spent = 0;
    const timed = (run) => function (...given) {
        const start = performance.now();
        try { return run.apply(this, given); } finally { spent += performance.now() - start; } };
    const next = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (run) => next(timed(run));
    const add = EventTarget.prototype.addEventListener;
    const wrapped = new WeakMap();
    EventTarget.prototype.addEventListener = function (kind, run, options) {
        if (typeof run !== "function") return add.call(this, kind, run, options);
        if (!wrapped.has(run)) wrapped.set(run, timed(run));
        return add.call(this, kind, wrapped.get(run), options); };
    const remove = EventTarget.prototype.removeEventListener;
    EventTarget.prototype.removeEventListener = function (kind, run, options) {
        return remove.call(this, kind, wrapped.get(run) ?? run, options); };
    const collect = () => { if (window.counting) frames.push(spent); spent = 0; next(collect); };
    next(collect);
})();"""
LEVELS = {
    "the whole model": (),
    "a head": (".reading .chip",),
    "a row": (".head-level .opener",),
}


@contextmanager
def open_page(server: Server) -> Iterator[Any]:
    """The page in Chromium, its frames counted from the start."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        sys.exit("this bench needs Chromium, but there is none; install it")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.add_init_script(COUNT)
        page.goto(f"http://127.0.0.1:{server.port}/?token={server.token}")
        yield page
        browser.close()


def count_frames(page: Any, act: Any) -> list[float]:
    """Milliseconds of script of each frame while something is done."""
    page.evaluate("window.frameScript.length = 0; window.counting = true")
    act()
    return page.evaluate("window.counting = false; window.frameScript.slice(1)")


def measure_motion() -> dict[str, list[float]]:
    """Play every level of the stage for some seconds."""
    found, server = {}, Server()
    with open_page(server) as page:
        page.wait_for_selector(".stage-token")
        page.fill("#text", SENTENCE)
        page.click("button[type=submit]")
        page.wait_for_selector(".reading .chip")
        page.wait_for_timeout(3000)
        for name, clicks in LEVELS.items():
            for selector in clicks:
                page.locator(selector).first.click()
            page.wait_for_timeout(1500)
            if not page.locator(".transport .play").is_visible():
                continue  # nothing moves here

            def play() -> None:
                page.locator(".transport .play").click()
                page.wait_for_timeout(4000)

            found[f"playing {name}"] = count_frames(page, play)
            if page.locator(".transport .play").inner_text() == "Pause":
                page.locator(".transport .play").click()
    server.close()
    return found


def measure_panning(tokens: int) -> list[float]:
    """Drag the finest level of a long map to and fro."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(str(save_long_trace(Path(folder), tokens)))
        with open_page(server) as page:
            page.click("#tab-map")
            page.locator("transom-map li button").first.click()  # zooms to the strongest edge
            page.wait_for_timeout(1500)
            box = page.locator("transom-map canvas").bounding_box()

            def pan() -> None:
                page.mouse.move(box["x"] + 600, box["y"] + 350)
                page.mouse.down()
                for step in range(150):
                    page.mouse.move(box["x"] + 600 - 4 * (step % 100), box["y"] + 350 - 3 * (step % 75))
                    page.wait_for_timeout(16)
                page.mouse.up()

            frames = count_frames(page, pan)
        server.close()
    return frames


def summarize(frames: list[float]) -> dict[str, Any]:
    p95 = quantiles(frames, n=20)[-1]
    return {
        "frames": len(frames),
        "median ms": round(median(frames), 2),
        "95th percentile ms": round(p95, 2),
        "longest ms": round(max(frames), 1),
        "holds": median(frames) <= MEDIAN and p95 <= P95,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"of the long map ({TOKENS})")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measured = measure_motion() | {f"panning {options.tokens} tokens": measure_panning(options.tokens)}
    found = {name: summarize(frames) for name, frames in measured.items()}
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for name, figures in found.items():
            print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in figures.items()))
    return 0 if all(figures["holds"] for figures in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
