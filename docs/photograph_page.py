"""Photographs the local page for the docs, with the translator that comes with Transom: `make screenshots`."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "pictures"
SENTENCE = "We are going home."
QUERY_WORD, KEY_WORD = "allons", "home"  # the words of the arrow that matters most, as the tour finds it
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
            page = browser.new_page(viewport={"width": 1100, "height": 800}, reduced_motion="reduce")
            page.set_default_timeout(PATIENCE)
            page.goto(address)
            page.fill("#text", SENTENCE)
            with page.expect_response(lambda answer: answer.url.endswith("/telling")):
                page.click("button[type=submit]")
            page.wait_for_timeout(2000)
            page.locator("svg .from .word", has_text=QUERY_WORD).click()
            page.locator("svg .at .word", has_text=KEY_WORD).click()
            page.get_by_role("button", name="Knock it out").click()
            page.wait_for_selector(".result table")
            page.screenshot(
                path=FOLDER / "serve-see.png", clip={"x": 0, "y": 0, "width": 1100, "height": 1660}, full_page=True
            )
            page.click("#tab-map")
            page.wait_for_timeout(2000)
            page.screenshot(
                path=FOLDER / "serve-map.png", clip={"x": 0, "y": 430, "width": 1100, "height": 640}, full_page=True
            )
            browser.close()
    finally:
        server.terminate()
        server.wait(60)
    print(FOLDER / "serve-see.png", FOLDER / "serve-map.png", sep="\n")


if __name__ == "__main__":
    main()
