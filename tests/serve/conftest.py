"""For each file of tests its own browser and server, as a browser that stays open is in the way of asyncio elsewhere;
and, without them, the routes with the embedded translator behind them."""

import re

import pytest
from serve.browsing import CHROMIUM, QUIET, SENTENCE, Served, watched
from serve.client import Page

from transom.cli.any_model import opened
from transom.serve.studio import Studio


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
    """A page on which the first sentence has run by itself."""
    with watched(browser, server.root) as found:
        with found.expect_response(re.compile("/telling$")):
            found.goto(server.address)
        yield found


@pytest.fixture(scope="module")
def site():
    """The routes, after one sentence."""
    found = Page(Studio(opened()))
    found.post("/api/runs", {"text": SENTENCE})
    return found


@pytest.fixture(scope="module")
def run(site):
    return site.get("/api/runs/1").json()
