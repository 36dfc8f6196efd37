"""How quick is the page: a sentence, the map of a long head at every zoom, and many visitors at once?

`transom serve` opens a trace of one causal head in a process of its own, on loopback. After the first overview, fresh
tiles of each level are requested. Then many clients request random tiles for some time: how many were answered, how
long the slowest hundredth waited, and whether the server's memory grew once its cache was full. Exit code 1 if a status
is not 200 or 429, if memory grew, or if the page or the shutdown was too slow.

    python -m bench serving [--json] [--quick] [--threads N]
"""

import asyncio
import http.client
import json
import random
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch

import transom
from bench.measuring.instruments import machine_info, note, print_answer

SENTENCE = (
    "When the little girl came home from school her mother was sitting in the garden and reading an old book aloud."
)
BARS = {"sentence ms": 500, "tile ms": 100, "end s": 3, "memory grows": 1.1}


class Server:
    """`transom serve` in a process of its own."""

    def __init__(self, *args: str) -> None:
        command = [sys.executable, "-m", "transom", "serve", "--port", "0", "--json", *args]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        parts = urlsplit(json.loads(self.process.stdout.readline())["address"])
        assert parts.port is not None
        self.port, self.token = parts.port, parse_qs(parts.query)["token"][0]

    def request(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        heads = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        link.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), heads)
        answer = link.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        link.close()
        return content

    def time_request(self, path: str, body: dict[str, Any] | None = None) -> float:
        began = time.perf_counter()
        self.request(path, body)
        return time.perf_counter() - began

    def read_memory(self) -> float:
        """Resident memory of the process, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def close(self) -> float:
        """End the server; returns the seconds that took."""
        began = time.perf_counter()
        self.process.terminate()
        self.process.wait(30)
        return time.perf_counter() - began


def save_long_trace(folder: Path, tokens: int) -> Path:
    torch.manual_seed(0)
    trace = transom.Trace()
    Q, K, V = (torch.randn(1, 1, tokens, 64) for _ in range(3))
    trace.add("layer.0", transom.sight(Q, K, V, causal=True))
    trace.save(folder / "long.safetensors")
    return folder / "long.safetensors"


def measure_levels(server: Server, tokens: int) -> dict[str, float]:
    """Milliseconds of the slowest of three fresh tiles at each level."""
    top = max(0, (tokens - 1).bit_length() - 8)
    found = {}
    for level in range(top + 1):
        last = (tokens - 1) // (256 * 2**level)
        rows = range(last, max(-1, last - 3), -1)
        times = [server.time_request(f"/api/runs/1/0/tile?level={level}&row={row}&column={row // 2}") for row in rows]
        found[f"level {level}"] = round(max(times) * 1e3, 1)
    return found


async def simulate_clients(server: Server, tokens: int, clients: int, seconds: float) -> dict[str, Any]:
    """Clients that request random tiles, each one tile after another."""
    statuses: Counter[int] = Counter()
    waits: list[float] = []
    memory: list[int] = []
    until = time.monotonic() + seconds

    async def sample_memory() -> None:
        """Read the server's memory after each tenth of the time."""
        for _ in range(10):
            await asyncio.sleep(seconds / 10)
            memory.append(round(server.read_memory()))

    async def client(seed: int) -> None:
        draws = random.Random(seed)
        while time.monotonic() < until:
            row = draws.randrange(max(1, tokens // 256))
            path = f"/api/runs/1/0/tile?level=0&row={row}&column={draws.randrange(row + 1)}"
            began = time.monotonic()
            status = await request_status(server, path)
            statuses[status] += 1
            if status == 200:
                waits.append(time.monotonic() - began)
            else:
                await asyncio.sleep(0.2)

    await asyncio.gather(sample_memory(), *(client(seed) for seed in range(clients)))
    waits.sort()
    return {
        "statuses": {str(status): count for status, count in statuses.items()},
        "median ms": round(waits[len(waits) // 2] * 1e3, 1),
        "p99 ms": round(waits[int(len(waits) * 0.99)] * 1e3, 1),
        "memory MiB": memory,
    }


async def request_status(server: Server, path: str) -> int:
    """Send one request on a connection of its own; returns the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer[9:12])


def run(options: Namespace) -> int:
    tokens, clients, seconds = (4096, 20, 3.0) if options.quick else (32_768, 200, 60.0)
    result: dict[str, Any] = {"machine": machine_info(), "tokens": tokens}
    note("a sentence of 20 words, the embedded translator")
    server = Server()
    server.request("/api/runs", {"text": "Once, to load everything."})
    times = [server.time_request("/api/runs", {"text": SENTENCE}) for _ in range(5)]
    result["sentence ms"] = [round(min(times) * 1e3, 1), round(max(times) * 1e3, 1)]
    server.close()
    with tempfile.TemporaryDirectory() as folder:
        note(f"a head of {tokens} tokens")
        server = Server(str(save_long_trace(Path(folder), tokens)))
        result["first overview s"] = round(server.time_request("/api/runs/1/0/overview"), 2)
        result["tile ms"] = measure_levels(server, tokens)
        note(f"{clients} clients for {seconds:.0f} s")
        result["load"] = asyncio.run(simulate_clients(server, tokens, clients, seconds))
        result["end s"] = round(server.close(), 2)
    result["longer"] = measure_longer(4 * tokens)
    wrong = missed_bars(result)
    lines = [f"{name:<18} {json.dumps(value)}" for name, value in result.items()]
    print_answer(options, result | {"wrong": wrong}, "\n".join([*lines, *(wrong or ["every bar is held"])]))
    return 1 if wrong else 0


def measure_longer(tokens: int) -> dict[str, Any]:
    """A head four times as long: its first overview, and a fresh tile of each level."""
    with tempfile.TemporaryDirectory() as folder:
        note(f"a head of {tokens} tokens")
        server = Server(str(save_long_trace(Path(folder), tokens)))
        first = round(server.time_request("/api/runs/1/0/overview"), 2)
        found = {"tokens": tokens, "first overview s": first, "tile ms": measure_levels(server, tokens)}
        server.close()
    return found


def missed_bars(result: dict[str, Any]) -> list[str]:
    """A line for each bar that was missed."""
    load, memory = result["load"], result["load"]["memory MiB"]
    slowest = {
        "sentence ms": max(result["sentence ms"]),
        "tile ms": max(result["tile ms"].values()),
        "end s": result["end s"],
    }
    found = [f"{name}: {value}, but the bar is {BARS[name]}" for name, value in slowest.items() if value > BARS[name]]
    others = {status: count for status, count in load["statuses"].items() if status not in ("200", "429")}
    found += [f"answers other than 200 and 429: {others}"] if others else []
    # The first half fills the cache of answers; after it, memory must not grow.
    half = memory[len(memory) // 2 - 1]
    found += [f"memory grew: {memory}"] if memory[-1] > BARS["memory grows"] * half else []
    return found
