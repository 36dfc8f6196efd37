"""Replays: header and numbers damaged."""

import random
from pathlib import Path

import torch

from fuzz.targets.trace import damage_file
from transom.lens.replay import LossCurve, Replay


def prepare(folder: Path) -> tuple[Path, bytes]:
    path = folder / "replay.safetensors"
    heads = {"a.b": [0, 1, 2], "c": [0]}
    frames = [{name: torch.rand(len(heads[name]), 2, 2).softmax(-1) for name in heads} for _ in range(2)]
    Replay([["x", "y"]], None, heads, [0, 5], frames, LossCurve([1, 2], [0.5, 0.25])).save(path)
    return path, path.read_bytes()


def try_input(state: tuple[Path, bytes], rng: random.Random) -> str:
    path, content = state
    path.write_bytes(damage_file(content, "replay", rng))
    replay = Replay.load(path)
    repr(replay)
    for frame in replay.frames:
        repr(frame)
    return "loaded"
