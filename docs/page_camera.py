"""A page in Chromium for photographs of its states, and what is wrong with what it shows."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 60_000  # milliseconds: the machine may have other things to do
WIDTHS = {390: 844, 768: 1024, 1280: 800, 1920: 1080}


class Photographer:
    """A page, and where its pictures go."""

    def __init__(self, page: Any, options: argparse.Namespace, label: str) -> None:
        self.page, self.folder, self.label = page, options.folder, label
        self.find = find_overflow if options.quick else find_problems
        self.found: dict[str, Any] = {}

    def go(self, fields: str, selector: str) -> None:
        self.page.evaluate("hash => { location.hash = hash; }", f"#{fields}")
        try:
            self.page.locator(selector).first.wait_for(state="attached")
        except Exception as error:  # a place that does not come is a finding, and the others are still photographed
            self.found[f"{fields}-{self.label}"] = {"did not come": str(error)}

    def take(self, name: str) -> None:
        """The whole page as it is, and what is wrong with it."""
        self.page.wait_for_timeout(700)
        self.page.screenshot(path=self.folder / f"{name}-{self.label}.png", full_page=True)
        problems = self.find(self.page)
        if problems:
            self.found[f"{name}-{self.label}"] = problems
        print(f"{name}-{self.label}", "" if not problems else ", ".join(problems), file=sys.stderr)


def find_overflow(page: Any) -> dict[str, Any]:
    """Sideways scrolling of the whole page."""
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return {"scrolls sideways": wide} if wide > 0 else {}


def find_problems(page: Any) -> dict[str, Any]:
    """Sideways scrolling and what axe says, by rule."""
    found = find_overflow(page)
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        return found
    answer = Axe().run(page).response
    undecided = [one for one in answer["incomplete"] if one["id"] == "color-contrast"]
    for one in answer["violations"] + undecided:
        found[one["id"]] = [
            f"{node['html'][:160]} {node['any'][0]['message'][:120] if node['any'] else ''}"
            for node in one["nodes"][:6]
        ]
    return found


@contextmanager
def serve(*args: str) -> Iterator[str]:
    """`transom serve` in a process of its own: its address."""
    command = [sys.executable, "-m", "transom", "serve", "--port", "0", "--json", *args]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        yield json.loads(server.stdout.readline())["address"]
    finally:
        server.terminate()
        server.wait(60)


def photograph(
    browser: Any,
    address: str,
    options: argparse.Namespace,
    sizes: list[tuple[int, str]],
    show: Callable[[Photographer], None],
) -> dict[str, Any]:
    """One server's page, in every size."""
    found: dict[str, Any] = {}
    for width, scheme in sizes:
        size = {"width": width, "height": WIDTHS[width]}
        context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        camera = Photographer(page, options, f"{width}-{scheme}")
        show(camera)
        found |= camera.found
        context.close()
    return found
