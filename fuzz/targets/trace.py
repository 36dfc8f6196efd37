"""Traces and replays: header and numbers damaged, with sums and, as version 0.1.0 wrote them, without."""

import json
import random
from pathlib import Path
from typing import Any

import torch

import transom
from fuzz.mutations import damage_bytes, damage_data, join_tensors, split_tensors

SUMS = "sha256"


def prepare(folder: Path) -> tuple[Path, list[bytes]]:
    torch.manual_seed(1)
    path, found = folder / "run.safetensors", []
    for model, x in samples():
        for keep in ("qkv", "statistics"):
            with transom.watch(model, tokens=["a", "b", "c"], keep=keep) as trace, torch.no_grad():
                model(x)
            trace.save(path)
            found.append(path.read_bytes())
    return path, found


def samples() -> list[tuple[Any, torch.Tensor]]:
    one = transom.layers.MultiHeadAttention(d_model=6, heads=3, kv_heads=1)
    two = torch.nn.TransformerEncoderLayer(6, 2, 7, batch_first=True)
    return [(torch.nn.Sequential(one), torch.randn(1, 3, 6)), (two.eval(), torch.randn(2, 3, 6))]


def try_input(state: tuple[Path, list[bytes]], rng: random.Random) -> str:
    path, contents = state
    path.write_bytes(damage_file(rng.choice(contents), "trace", rng))
    trace = transom.Trace.load(path)
    touch(trace)
    return "loaded"


def damage_file(content: bytes, inner: str, rng: random.Random) -> bytes:
    """Bytes anywhere, or the header as data, or the JSON text `inner` in it; mostly without sums, to get past them."""
    if rng.random() < 0.15:
        return damage_bytes(content, rng)
    header, numbers = split_tensors(content)
    if rng.random() < 0.9:
        header["__metadata__"].pop(SUMS, None)
    if rng.random() < 0.3:
        return join_tensors(damage_data(header, rng), numbers)
    if rng.random() < 0.2:
        numbers = damage_bytes(numbers, rng)
    header["__metadata__"][inner] = json.dumps(damage_data(json.loads(header["__metadata__"][inner]), rng))
    return join_tensors(header, numbers)


def touch(trace: Any) -> None:
    """Everything that a command or the page would ask of a trace."""
    repr(trace)
    for name in trace.names:
        for sight in trace.all(name):
            str(sight.receipt())
            for statistic in (sight.entropy, sight.peak, sight.distance, sight.received):
                statistic()
            if type(sight).__name__ == "Sight":
                sight.weights()
                sight.top(2)
    transom.heads(trace)
