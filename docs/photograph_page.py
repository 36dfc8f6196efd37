"""Photographs the local page for the docs, with the translator that comes with Transom: `make screenshots`."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).parent / "pictures"
SENTENCE = "We are going home."
PATIENCE = 240_000  # milliseconds: the machine may have other things to do
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        sys.exit("photographs of the page need Chromium, but there is none; install it, or leave them as they are")
    command = [sys.executable, "-m", "transom", "serve", "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    address = json.loads(server.stdout.readline())["address"]
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
            page.set_default_timeout(PATIENCE)
            page.goto(address)
            photograph_stage(page)
            photograph_views(page)
            browser.close()
    finally:
        server.terminate()
        server.wait(60)
    print(*(FOLDER / f"serve-{name}.png" for name in ("stage", "row", "see", "map")), sep="\n")


def photograph_stage(page: "Page") -> None:
    """The whole model, and the row of the head that matters most."""
    page.wait_for_selector(".stage-token")
    page.fill("#text", SENTENCE)
    with page.expect_response(lambda answer: answer.url.endswith("/telling")):
        page.click("button[type=submit]")
    page.wait_for_selector(".reading .chip")
    page.wait_for_timeout(4000)
    page.screenshot(path=FOLDER / "serve-stage.png")
    page.click(".reading .chip")
    page.wait_for_selector(".head-level .opener")
    page.locator(".head-level .opener").nth(2).click()
    page.wait_for_selector(".row-level .opener")
    page.wait_for_timeout(1000)
    page.screenshot(path=FOLDER / "serve-row.png")


def photograph_views(page: "Page") -> None:
    """The arrows of that head with one knocked out, and its map."""
    page.click("#tab-see")
    page.wait_for_selector("transom-arrows svg .arrow:not([display])")
    page.click("#from-1")
    page.keyboard.press("ArrowUp")  # to what it looks at most
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Knock it out").click()
    page.wait_for_selector(".result table")
    page.screenshot(path=FOLDER / "serve-see.png", full_page=True)
    page.click("#tab-map")
    page.wait_for_selector("transom-map li button")
    page.wait_for_timeout(2000)
    page.screenshot(path=FOLDER / "serve-map.png", full_page=True)


if __name__ == "__main__":
    main()
