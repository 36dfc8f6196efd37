"""A server and a browser to look at its page with."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

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
        self.process.wait(10)
        self.process.stdout.close()


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
