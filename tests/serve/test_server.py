"""The server as a process: slow and dead clients, large bodies, a full queue, and a quick end."""

import asyncio
import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import aclosing
from urllib.parse import parse_qs, urlsplit

import pytest
import torch

import transom
from transom.cli import main
from transom.names import Misfit
from transom.serve import work
from transom.serve.server import bound, names_of

KEYS = 30_011  # its map takes some seconds


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    torch.manual_seed(41)
    found = transom.Trace()
    found.add("layer.0", transom.sight(*(torch.randn(1, 1, KEYS, 4) for _ in range(3))))
    path = tmp_path_factory.mktemp("served") / "run.safetensors"
    found.save(path)
    return path


class Server:
    def __init__(self, trace):
        command = [sys.executable, "-m", "transom", "serve", str(trace), "--port", "0", "--json"]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        parts = urlsplit(json.loads(self.process.stdout.readline())["address"])
        self.port, self.token = parts.port, parse_qs(parts.query)["token"][0]

    def ask(self, path, method="GET", body=None, **heads):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", **heads})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def stop(self):
        """Ask it to end; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        _, self.errors = self.process.communicate(timeout=20)
        return self.process.returncode


@pytest.fixture
def server(trace):
    found = Server(trace)
    yield found
    if found.process.poll() is None:
        found.stop()


@pytest.mark.slow
def test_an_open_stream_does_not_hold_up_the_end(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/api/runs/1/0/overview", headers={"Authorization": f"Bearer {server.token}"})
    answer = connection.getresponse()
    assert answer.getheader("Content-Type").startswith("text/event-stream")
    assert json.loads(answer.readline().removeprefix(b"data: "))["share"] < 1
    assert server.stop() == 0
    assert b'"ready"' not in answer.read(), "the map was not waited for"
    connection.close()


@pytest.mark.slow
def test_neither_dripping_requests_nor_streams_nor_work_hold_up_the_end(server):
    head = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
    whole = f"GET /api/state HTTP/1.1\r\n{head}\r\n"
    half = [
        "GET",
        whole + "GET /api",
        f"POST /api/runs HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{",
    ]
    paths = ("overview", "tile?level=6", "strongest")
    half += [f"GET /api/runs/1/0/{path} HTTP/1.1\r\n{head}\r\n" for path in paths]
    opened = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for place, one in enumerate(opened):
        one.sendall(half[place % len(half)].encode())
    assert server.ask("/api/state")[0] == 200
    assert server.stop() == 0
    assert "Traceback" not in server.errors
    for one in opened:
        one.close()


@pytest.mark.slow
def test_large_bodies_slow_heads_and_dead_clients_are_let_go(server):
    assert server.ask("/api/runs", "POST", b"x" * 2**21, **{"Content-Type": "application/json"})[0] == 413
    dead = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for one in dead:
        one.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert server.ask("/api/state")[0] == 200
    huge = socket.create_connection(("127.0.0.1", server.port))
    huge.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000)
    assert huge.recv(64).startswith(b"HTTP/1.1 4")
    huge.close()
    dead[0].settimeout(15)
    assert dead[0].recv(64).startswith(b"HTTP/1.1 408"), "a head that never ended"
    for one in dead:
        one.close()
    assert server.ask("/api/state")[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("path", ["0/tile?level=6", "measuring"])
def test_work_that_nobody_waits_for_is_let_go(server, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", f"/api/runs/1/{path}", headers={"Authorization": f"Bearer {server.token}"})
    time.sleep(0.3)
    connection.close()
    status, _ = server.ask("/api/runs/1/0/weights?rows=2&keys=2")
    assert status == 200


def test_a_full_queue_refuses_and_a_client_that_has_gone_is_not_served():
    worker, gate, done = work.Worker(longest=2), threading.Event(), []
    running = worker.give(lambda job: gate.wait(10))
    while worker.jobs.qsize():
        time.sleep(0.001)
    left = worker.give(lambda job: done.append("left"))
    kept = worker.give(lambda job: done.append("kept"))
    with pytest.raises(work.Busy):
        worker.give(lambda job: None)
    left.gone.set()
    gate.set()
    assert running.result.result(10)
    kept.result.result(10)
    with pytest.raises(work.Cancelled):
        left.result.result(10)
    assert done == ["kept"]
    worker.close()
    assert not worker.thread.is_alive()


def test_a_job_is_followed_as_it_tells_and_ends_when_nobody_follows():
    def counting(job):
        for number in range(100_000):
            job.tell(number)
            time.sleep(0.001)

    async def followed(do, most):
        worker, found = work.Worker(), []
        job = worker.give(do)
        async with aclosing(work.followed(job, asyncio.Event())) as told:
            async for one in told:
                found.append(one)
                if len(found) == most:
                    break
        worker.close(10.0)
        assert not worker.thread.is_alive()
        return found, job

    found, job = asyncio.run(followed(counting, 3))
    assert found == [0, 1, 2]
    with pytest.raises(work.Cancelled):
        job.result.result(10)
    found, job = asyncio.run(followed(lambda job: [job.tell(number) for number in range(7)] and "done", 99))
    assert (found, job.result.result(10)) == (list(range(7)), "done")


def test_a_port_that_is_taken_is_told(own_errors):
    taken = bound("127.0.0.1", 0)
    taken.listen()
    port = taken.getsockname()[1]
    with pytest.raises(Misfit) as caught:
        bound("127.0.0.1", port)
    assert str(caught.value) == (
        f"port {port} on 127.0.0.1 cannot be had (Address already in use); choose another with --port, or --port 0 for"
        " any that is free"
    )
    taken.close()


def test_what_a_browser_may_call_us():
    assert names_of("127.0.0.1", 7) == ["127.0.0.1:7", "localhost:7", "[::1]:7"]
    assert names_of("192.0.2.1", 7) == ["192.0.2.1:7"]


def test_other_machines_are_let_in_only_if_that_is_said(capsys):
    assert main(["serve", "--host", "0.0.0.0"]) == 2
    assert capsys.readouterr().err == (
        "transom: --host 0.0.0.0 would let other machines in; add --allow-remote if that is meant, and give the address"
        " with its token only to those who may\n"
    )


@pytest.mark.parametrize("debug", [False, True])
def test_tracebacks_are_logged_if_details_are_asked_for(monkeypatch, debug):
    log, shown = logging.getLogger("transom.serve"), []
    monkeypatch.setattr(logging.getLogger("transom"), "level", logging.NOTSET)
    monkeypatch.setattr("transom.cli.serve.opened_studio", lambda file, models: None)
    monkeypatch.setattr("transom.serve.server.serve", lambda *given: shown.append(log.getEffectiveLevel()))
    assert main(["serve", "--port", "0", *["--debug"] * debug]) == 0
    assert (shown == [logging.DEBUG]) == debug
