"""A server and a browser to look at its page with."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync"
SENTENCE = "The cat sat on the mat."
VIEWS = ["see", "walk", "map", "heads", "learn"]


class Served:
    """A server of its own, and its address."""

    def __init__(self, *args):
        command = [sys.executable, "-m", "transom", "serve", "--port", "0", "--json", *map(str, args)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        self.address = json.loads(self.process.stdout.readline())["address"]
        self.root = self.address.partition("?")[0]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)  # it takes a second, on a machine that does nothing else
        self.process.stdout.close()


@contextmanager
def watched(browser, root, offline=False):
    """A page that remembers everything it should not do, and has done nothing of it in the end."""
    size = {"width": 1200, "height": 900}
    context = browser.new_context(viewport=size, reduced_motion="reduce", offline=offline)
    opened = context.new_page()
    opened.wrong = []
    opened.on("dialog", lambda dialog: (opened.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    opened.on("request", lambda asked: None if asked.url.startswith(root) else opened.wrong.append(asked.url))
    opened.on("console", lambda said: opened.wrong.append(said.text))
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    yield opened
    context.close()
    assert opened.wrong == []


def run(page, text=SENTENCE):
    """Type a text and look at it, by mouse; waits until the most telling head is chosen."""
    page.fill("#text", text)
    with page.expect_response(re.compile("/telling$")):
        page.click("button.main")
    page.wait_for_selector("svg .arrow")


def asked(page, path):
    return page.evaluate("path => fetch(path).then(found => found.json())", path)


def now(page):
    return page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")
