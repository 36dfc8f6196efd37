"""A browser and a server for each file of tests: a browser that stays open is in the way of asyncio elsewhere."""

import re

import pytest
from serve.browsing import CHROMIUM, QUIET, Served


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
