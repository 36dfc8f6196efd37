"""Does the page, or the server behind it, keep more and more memory over many runs?

`transom serve` runs in a process of its own; Chromium, driven by playwright, runs one sentence after another on the
page. After each tenth of them the JavaScript heap is read behind a garbage collection, and the server's resident
memory. Exit code 1 if the end is more than a tenth above the middle, in either. Needs playwright and Chromium.

    python -m bench.page_memory [--runs N] [--json]
"""

import argparse
import json
from typing import Any

from bench.page_frames import open_page
from bench.questions.serving import Server

RUNS = 200
READINGS = 10
GROWTH = 1.1
WORDS = ("cat", "dog", "girl", "boy", "teacher", "student", "farmer", "doctor", "bird", "horse")
PLACES = ("house", "garden", "school", "station", "market", "river", "forest", "kitchen", "street", "bridge")


def sentence(number: int) -> str:
    """Another sentence each time, so that nothing is answered from a cache."""
    return f"The {WORDS[number % 10]} saw {number + 2} trees near the {PLACES[number // 10 % 10]}."


def read_heap(devtools: Any) -> float:
    """MiB of JavaScript that is still in use."""
    devtools.send("HeapProfiler.collectGarbage")
    metrics = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
    return metrics["JSHeapUsedSize"] / 2**20


def measure(runs: int) -> dict[str, list[float]]:
    heap, memory, nodes = [], [], []
    server = Server()
    with open_page(server) as page:
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable")
        page.locator(".stage-token").first.wait_for()  # a handle of an element would keep all that belongs to it
        for number in range(runs):
            page.fill("#text", sentence(number))
            with page.expect_response(lambda answer: answer.url.endswith("/telling")):
                page.click("button[type=submit]")
            page.locator(".reading .chip").first.wait_for()
            if (number + 1) % max(1, runs // READINGS) == 0:
                page.wait_for_timeout(500)
                heap.append(round(read_heap(devtools), 1))
                memory.append(round(server.read_memory()))
                nodes.append(page.evaluate("document.querySelectorAll('*').length"))
    server.close()
    return {"JavaScript heap, MiB": heap, "server, MiB": memory, "elements": nodes}


def is_flat(readings: list[float]) -> bool:
    """The last readings are not above those of the middle by more than a tenth."""
    middle = readings[len(readings) // 2 - 1 : len(readings) // 2 + 1]
    return min(readings[-2:]) <= GROWTH * max(middle)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.runs)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for name, readings in found.items():
            print(f"{name}: {', '.join(f'{one:g}' for one in readings)}")
    return 0 if all(map(is_flat, found.values())) else 1


if __name__ == "__main__":
    raise SystemExit(main())
