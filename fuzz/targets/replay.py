"""Replays: header and numbers damaged."""

import random
from pathlib import Path

import torch

from fuzz.targets.trace import damage_file
from transom.lens.curve import Curve
from transom.lens.on_file.replay_file import ReplayOnFile, written
from transom.lens.replay import Replay


def prepare(folder: Path) -> tuple[Path, bytes]:
    path = folder / "replay.safetensors"
    weights = {"a.b": torch.rand(2, 3, 2, 2).softmax(-1), "c": torch.rand(2, 1, 2, 2).softmax(-1)}
    said = ReplayOnFile(tokens=[["x", "y"]], targets=None, heads={"a.b": [0, 1, 2], "c": [0]}, updates=[0, 5])
    written(path, said, weights, Curve([1, 2], [0.5, 0.25], 1))
    return path, path.read_bytes()


def try_input(state: tuple[Path, bytes], rng: random.Random) -> str:
    path, content = state
    path.write_bytes(damage_file(content, "replay", rng))
    replay = Replay.load(path)
    repr(replay)
    for frame in replay.frames:
        repr(frame)
    return "loaded"
