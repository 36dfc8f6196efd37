"""How quick is the page: a sentence, the map of a long head at every zoom, and many visitors at once?

A trace of one causal head is opened by `transom serve` in a process of its own, on loopback. After the first overview a
tile of each level is asked for, each one never asked for before. Then clients ask for tiles at random for some time:
how many were answered, how long the slowest hundredth waited, and whether the server's memory grew once its cache was
full. Exit code 1 where something was answered but 200 and 429, where memory grew, or where the end took too long.

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
from bench.measuring.instruments import answer, machine, note

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

    def ask(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        heads = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        link.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), heads)
        answer = link.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        link.close()
        return content

    def timed(self, path: str, body: dict[str, Any] | None = None) -> float:
        began = time.perf_counter()
        self.ask(path, body)
        return time.perf_counter() - began

    def resident(self) -> float:
        """Memory of the process now, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def close(self) -> float:
        """End it; gives how many seconds that took."""
        began = time.perf_counter()
        self.process.terminate()
        self.process.wait(30)
        return time.perf_counter() - began


def long_trace(folder: Path, tokens: int) -> Path:
    torch.manual_seed(0)
    trace = transom.Trace()
    Q, K, V = (torch.randn(1, 1, tokens, 64) for _ in range(3))
    trace.add("layer.0", transom.sight(Q, K, V, causal=True))
    trace.save(folder / "long.safetensors")
    return folder / "long.safetensors"


def zooms(server: Server, tokens: int) -> dict[str, float]:
    """Milliseconds of the worst of three fresh tiles at each level."""
    top = max(0, (tokens - 1).bit_length() - 8)
    found = {}
    for level in range(top + 1):
        last = (tokens - 1) // (256 * 2**level)
        rows = range(last, max(-1, last - 3), -1)
        times = [server.timed(f"/api/runs/1/0/tile?level={level}&row={row}&column={row // 2}") for row in rows]
        found[f"level {level}"] = round(max(times) * 1e3, 1)
    return found


async def visits(server: Server, tokens: int, clients: int, seconds: float) -> dict[str, Any]:
    """Many clients that ask for tiles at random, each one after another."""
    statuses: Counter[int] = Counter()
    waits: list[float] = []
    memory: list[int] = []
    until = time.monotonic() + seconds

    async def watching() -> None:
        """The server's memory after each tenth of the time."""
        for _ in range(10):
            await asyncio.sleep(seconds / 10)
            memory.append(round(server.resident()))

    async def client(seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < until:
            row = chance.randrange(max(1, tokens // 256))
            path = f"/api/runs/1/0/tile?level=0&row={row}&column={chance.randrange(row + 1)}"
            began = time.monotonic()
            status = await one(server, path)
            statuses[status] += 1
            if status == 200:
                waits.append(time.monotonic() - began)
            else:
                await asyncio.sleep(0.2)

    await asyncio.gather(watching(), *(client(seed) for seed in range(clients)))
    waits.sort()
    return {
        "statuses": {str(status): count for status, count in statuses.items()},
        "median ms": round(waits[len(waits) // 2] * 1e3, 1),
        "p99 ms": round(waits[int(len(waits) * 0.99)] * 1e3, 1),
        "memory MiB": memory,
    }


async def one(server: Server, path: str) -> int:
    """One request on a connection of its own; gives the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer[9:12])


def run(options: Namespace) -> int:
    tokens, clients, seconds = (4096, 20, 3.0) if options.quick else (32_768, 200, 60.0)
    result: dict[str, Any] = {"machine": machine(), "tokens": tokens}
    note("a sentence of 20 words, the embedded translator")
    server = Server()
    server.ask("/api/runs", {"text": "Once, to load everything."})
    times = [server.timed("/api/runs", {"text": SENTENCE}) for _ in range(5)]
    result["sentence ms"] = [round(min(times) * 1e3, 1), round(max(times) * 1e3, 1)]
    server.close()
    with tempfile.TemporaryDirectory() as folder:
        note(f"a head of {tokens} tokens")
        server = Server(str(long_trace(Path(folder), tokens)))
        result["first overview s"] = round(server.timed("/api/runs/1/0/overview"), 2)
        result["tile ms"] = zooms(server, tokens)
        note(f"{clients} clients for {seconds:.0f} s")
        result["load"] = asyncio.run(visits(server, tokens, clients, seconds))
        result["end s"] = round(server.close(), 2)
    result["longer"] = longer(4 * tokens)
    wrong = complaints(result)
    lines = [f"{name:<18} {json.dumps(value)}" for name, value in result.items()]
    answer(options, result | {"wrong": wrong}, "\n".join([*lines, *(wrong or ["every bar is held"])]))
    return 1 if wrong else 0


def longer(tokens: int) -> dict[str, Any]:
    """A head four times as long: its first overview, and a fresh tile of each level."""
    with tempfile.TemporaryDirectory() as folder:
        note(f"a head of {tokens} tokens")
        server = Server(str(long_trace(Path(folder), tokens)))
        first = round(server.timed("/api/runs/1/0/overview"), 2)
        found = {"tokens": tokens, "first overview s": first, "tile ms": zooms(server, tokens)}
        server.close()
    return found


def complaints(result: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    load, memory = result["load"], result["load"]["memory MiB"]
    slowest = {
        "sentence ms": max(result["sentence ms"]),
        "tile ms": max(result["tile ms"].values()),
        "end s": result["end s"],
    }
    found = [f"{name}: {value}, but the bar is {BARS[name]}" for name, value in slowest.items() if value > BARS[name]]
    others = {status: count for status, count in load["statuses"].items() if status not in ("200", "429")}
    found += [f"answers other than 200 and 429: {others}"] if others else []
    # The first half fills the cache of answers; after it, nothing is to grow.
    half = memory[len(memory) // 2 - 1]
    found += [f"memory grew: {memory}"] if memory[-1] > BARS["memory grows"] * half else []
    return found
