"""Each file of tests has its own browser and server, as an open browser disturbs asyncio elsewhere; without them, the
routes with the embedded translator behind them."""

import re

import pytest
from serve.browsing import CHROMIUM, QUIET, SENTENCE, checked_page
from serve.client import Client
from serve.server_process import ServerProcess

from transom.runner import load_text_model
from transom.serve.session import Session


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=[*QUIET.split(), "--disable-component-update"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def start_server(browser):
    """Starts servers, and stops them at the end."""
    servers = []

    def start(*args):
        servers.append(ServerProcess(*args))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def server(start_server):
    return start_server()


@pytest.fixture
def page(browser, server):
    """A page on which the first sentence has run by itself."""
    with checked_page(browser, server.root) as page:
        with page.expect_response(re.compile("/telling$")):
            page.goto(server.address)
        yield page


@pytest.fixture(scope="module")
def site():
    """The routes, after one sentence."""
    client = Client(Session(load_text_model()))
    client.post("/api/runs", {"text": SENTENCE})
    return client


@pytest.fixture(scope="module")
def run(site):
    return site.get("/api/runs/1").json()
