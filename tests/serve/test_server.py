"""The server as a process: slow and dead clients, large bodies, a full queue, and a quick shutdown."""

import asyncio
import json
import logging
import socket
import threading
import time
from contextlib import aclosing

import pytest
import torch
from serve.server_process import ServerProcess

import transom
from transom.cli import main
from transom.names import Misfit
from transom.serve import worker as worker_module
from transom.serve.server import bind_socket, host_names

KEYS = 30_011  # its map takes some seconds


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    torch.manual_seed(41)
    trace = transom.Trace()
    trace.add("layer.0", transom.sight(*(torch.randn(1, 1, KEYS, 4) for _ in range(3))))
    path = tmp_path_factory.mktemp("served") / "run.safetensors"
    trace.save(path)
    return path


@pytest.fixture
def server(trace):
    server = ServerProcess(trace)
    yield server
    server.stop()


@pytest.mark.slow
def test_an_open_stream_does_not_delay_the_shutdown(server):
    connection, response = server.open("/api/runs/1/0/overview")
    assert response.getheader("Content-Type").startswith("text/event-stream")
    assert json.loads(response.readline().removeprefix(b"data: "))["share"] < 1
    assert server.stop() == 0
    assert b'"ready"' not in response.read(), "the server did not wait for the map"
    connection.close()


@pytest.mark.slow
def test_slow_requests_streams_and_work_do_not_delay_the_shutdown(server):
    head = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
    complete = f"GET /api/state HTTP/1.1\r\n{head}\r\n"
    requests = [
        "GET",
        complete + "GET /api",
        f"POST /api/runs HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{",
    ]
    paths = ("overview", "tile?level=6", "strongest")
    requests += [f"GET /api/runs/1/0/{path} HTTP/1.1\r\n{head}\r\n" for path in paths]
    sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for number, sock in enumerate(sockets):
        sock.sendall(requests[number % len(requests)].encode())
    assert server.status_of("/api/state") == 200
    assert server.stop() == 0
    assert "Traceback" not in server.errors
    for sock in sockets:
        sock.close()


@pytest.mark.slow
def test_large_bodies_slow_heads_and_dead_clients_are_refused(server):
    assert server.status_of("/api/runs", "POST", b"x" * 2**21, **{"Content-Type": "application/json"}) == 413
    dead = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for sock in dead:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert server.status_of("/api/state") == 200
    huge = socket.create_connection(("127.0.0.1", server.port))
    huge.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000)
    assert huge.recv(64).startswith(b"HTTP/1.1 4")
    huge.close()
    dead[0].settimeout(15)
    assert dead[0].recv(64).startswith(b"HTTP/1.1 408"), "a head that never ended"
    for sock in dead:
        sock.close()
    assert server.status_of("/api/state") == 200


@pytest.mark.slow
@pytest.mark.parametrize("path", ["0/tile?level=6", "measuring"])
def test_work_that_nobody_waits_for_is_cancelled(server, path):
    sock = socket.create_connection(("127.0.0.1", server.port))
    head = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
    sock.sendall(f"GET /api/runs/1/{path} HTTP/1.1\r\n{head}\r\n".encode())
    time.sleep(0.3)
    sock.close()
    assert server.status_of("/api/runs/1/0/weights?rows=2&keys=2") == 200


def test_a_full_queue_refuses_and_a_cancelled_job_is_not_run():
    worker, release, done = worker_module.Worker(longest=2), threading.Event(), []
    running = worker.submit(lambda job: release.wait(10))
    while worker.jobs.qsize():
        time.sleep(0.001)
    cancelled = worker.submit(lambda job: done.append("cancelled"))
    waiting = worker.submit(lambda job: done.append("waiting"))
    with pytest.raises(worker_module.QueueFull):
        worker.submit(lambda job: None)
    cancelled.cancelled.set()
    release.set()
    assert running.result.result(10)
    waiting.result.result(10)
    with pytest.raises(worker_module.JobCancelled):
        cancelled.result.result(10)
    assert done == ["waiting"]
    worker.close()
    assert not worker.thread.is_alive()


def test_a_job_is_followed_as_it_reports_and_ends_when_nobody_follows():
    def counting(job):
        for number in range(100_000):
            job.report(number)
            time.sleep(0.001)

    async def follow(work, most):
        worker, events = worker_module.Worker(), []
        job = worker.submit(work)
        async with aclosing(worker_module.job_progress(job, asyncio.Event())) as progress:
            async for event in progress:
                events.append(event)
                if len(events) == most:
                    break
        worker.close(10.0)
        assert not worker.thread.is_alive()
        return events, job

    events, job = asyncio.run(follow(counting, 3))
    assert events == [0, 1, 2]
    with pytest.raises(worker_module.JobCancelled):
        job.result.result(10)
    events, job = asyncio.run(follow(lambda job: [job.report(number) for number in range(7)] and "done", 99))
    assert (events, job.result.result(10)) == (list(range(7)), "done")


def test_a_port_in_use_is_an_error(own_errors):
    taken = bind_socket("127.0.0.1", 0)
    taken.listen()
    port = taken.getsockname()[1]
    with pytest.raises(Misfit) as caught:
        bind_socket("127.0.0.1", port)
    assert str(caught.value) == (
        f"port {port} on 127.0.0.1 cannot be used (Address already in use); choose another with --port, or --port 0 for"
        " any free one"
    )
    taken.close()


def test_the_names_of_the_host():
    assert host_names("127.0.0.1", 7) == ["127.0.0.1:7", "localhost:7", "[::1]:7"]
    assert host_names("192.0.2.1", 7) == ["192.0.2.1:7"]


def test_other_machines_need_an_option(capsys):
    assert main(["serve", "--host", "0.0.0.0"]) == 2
    assert capsys.readouterr().err == (
        "transom: --host 0.0.0.0 would let other machines in; add --allow-remote if you want that, and give the"
        " address with its token only to people you trust\n"
    )


@pytest.mark.parametrize("debug", [False, True])
def test_tracebacks_are_logged_if_details_are_asked_for(monkeypatch, debug):
    log, levels = logging.getLogger("transom.serve"), []
    monkeypatch.setattr(logging.getLogger("transom"), "level", logging.NOTSET)
    monkeypatch.setattr("transom.cli.serve.open_session", lambda file, models: None)
    monkeypatch.setattr("transom.serve.server.serve", lambda *args: levels.append(log.getEffectiveLevel()))
    assert main(["serve", "--port", "0", *["--debug"] * debug]) == 0
    assert (levels == [logging.DEBUG]) == debug
