"""`transom serve` in a process of its own."""

import http.client
import json
import os
import signal
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit


class ServerProcess:
    """A running server: its address, requests to it, and its end."""

    def __init__(self, *args):
        command = [sys.executable, "-m", "transom", "serve", "--port", "0", "--json", *map(str, args)]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.address = json.loads(self.process.stdout.readline())["address"]
        self.root = self.address.partition("?")[0]
        parts = urlsplit(self.address)
        self.port, self.token = parts.port, parse_qs(parts.query)["token"][0]

    def open(self, path, method="GET", body=None, **headers):
        """The connection and the response to a request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", **headers})
        return connection, connection.getresponse()

    def status_of(self, path, method="GET", body=None, **headers):
        connection, response = self.open(path, method, body, **headers)
        response.read()
        connection.close()
        return response.status

    def stop(self):
        """End it, unless it has ended; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            _, self.errors = self.process.communicate(timeout=60)  # takes a second on an idle machine
        return self.process.returncode
