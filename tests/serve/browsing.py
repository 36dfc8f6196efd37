"""A browser to look at the page with, and what tests do in it."""

import re
import shutil
from contextlib import contextmanager

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync"
SENTENCE = "The cat sat on the mat."
PATIENCE = 120_000  # milliseconds: the machine may have other things to do
VIEWS = ["stage", "see", "walk", "map", "heads", "compare", "learn"]


@contextmanager
def checked_page(browser, root, offline=False):
    """A page that must cause no dialog, no request to anywhere else, no message on the console and no error."""
    size = {"width": 1200, "height": 900}
    context = browser.new_context(viewport=size, reduced_motion="reduce", offline=offline)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.wrong = []
    page.on("dialog", lambda dialog: (page.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: None if request.url.startswith(root) else page.wrong.append(request.url))
    page.on("console", lambda message: page.wrong.append(message.text))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    yield page
    context.close()
    assert page.wrong == [], page.wrong


def run_text(page, text=SENTENCE):
    """Type a text, run it and open its arrows, by mouse; waits until the head that matters is known."""
    page.fill("#text", text)
    with page.expect_response(re.compile("/telling$")):
        page.click("button[type=submit]")
    page.click("#tab-see")
    page.wait_for_selector("transom-arrows svg .arrow:not([display])")


def expect(locator):
    """Playwright's assertions, which wait until the page is ready, for a long time on a busy machine."""
    from playwright.sync_api import expect as playwright_expect

    playwright_expect.set_options(timeout=PATIENCE)
    return playwright_expect(locator)


def fetch_json(page, path):
    return page.evaluate("path => fetch(path).then(response => response.json())", path)


def address_fields(page):
    """The state of the page, which its address holds."""
    return page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")
