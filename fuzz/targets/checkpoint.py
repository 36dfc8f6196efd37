"""Checkpoints that were damaged, or forged with a manifest that fits: a run goes on from one, or refuses it."""

import copy
import hashlib
import json
import math
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transom.files.atomic_files import MANIFEST
from transom.names import Misfit
from transom.training import resume, training_state
from transom.training.checkpoint_files import Checkpoint, load_checkpoint
from transom.training.distributed import World
from transom.training.loop import TrainingLoop
from transom.training.recipe import Recipe, parse_recipe
from transom.training.task import Task
from transom.training.tasks import TASKS
from transom.training.train import train
from transom.training.training_state import check_parameters

GROUPS = ("model.safetensors", "optimizer.safetensors")
DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E5M2", "F4", "C64", "nothing", "")
ODD: list[Any] = [None, True, -1, 0, 0.5, 2**53, 2**63, 10**400, 1e308, "", "x", "auto", "../x", [], {}, [1], {"a": 1}]


@dataclass
class Run:
    """A small run with two checkpoints, and the bytes of the newer one."""

    recipe: Recipe
    task: Task
    folder: Path
    newest: Path
    files: dict[str, bytes]


def prepare(folder: Path) -> Run:
    torch.set_num_threads(1)
    (folder / "text.txt").write_text("abcdefg" * 60, encoding="utf-8")
    sizes = {"layers": 1, "d_model": 4, "d_hidden": 5, "heads": 2}
    recipe = parse_recipe(
        {
            "task": "write",
            "folder": str(folder / "run"),
            "data": {"train": str(folder / "text.txt"), "format": "document", "held_out": 40},
            "tokens": {"kind": "characters"},
            "model": sizes,
            "train": {
                "updates": 4,
                "checkpoint_every": 2,
                "judge_every": 4,
                "block": 7,
                "rows": 3,
                "precision": "float16",
            },
        },
        "the fuzzer's recipe",
    )
    train(recipe)
    newest = folder / "run/checkpoints/step-00000004"
    files = {path.name: path.read_bytes() for path in newest.iterdir()}
    task = TASKS[recipe.task](recipe, folder / "run", lambda text: None)
    return Run(recipe, task, folder / "run", newest, files)


def try_input(run: Run, rng: random.Random) -> str:
    """Change one or more files of the newest checkpoint, then start the run as `transom train` does."""
    files, forged = dict(run.files), rng.random() < 0.8
    for _ in range(rng.choice((1, 1, 1, 1, 3))):
        name = rng.choice((*4 * ["state.json"], *GROUPS, *(() if forged else (MANIFEST,))))
        files[name] = rng.choice(CHANGES)(files.get(name, b""), rng)
    if rng.random() < 0.05:
        files[rng.choice(("more.safetensors", "MODEL.safetensors", "more.json"))] = files[rng.choice(GROUPS)]
    if rng.random() < 0.05:
        files.pop(rng.choice(list(run.files)))
    write_checkpoint(run.newest, files, forged)
    try:
        checkpoint = load_checkpoint(run.newest)
    except Misfit:
        return "passed over"  # a start takes the checkpoint before it
    resume_run(run, checkpoint)
    return "unchanged" if all(files.get(name) == content for name, content in run.files.items()) else "believed"


def write_checkpoint(path: Path, files: dict[str, bytes], forged: bool) -> None:
    shutil.rmtree(path)
    path.mkdir()
    for name, content in files.items():
        (path / name).write_bytes(content)
    if forged:  # as `write_manifest` would, without waiting for the disk
        listed = {
            name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
            if name != MANIFEST
        }
        (path / MANIFEST).write_text(json.dumps({"files": listed}), encoding="utf-8")


def resume_run(run: Run, checkpoint: Checkpoint) -> None:
    """What a start does with a checkpoint, up to one more update and the end of the run."""
    world = World()
    saved = resume.parse_checkpoint(checkpoint)
    recipe = resume.choose_precision(run.recipe, saved, world, lambda text: None)
    resume.check_inputs(recipe, saved, run.folder, lambda text: None)
    training = TrainingLoop(recipe, run.task, world)
    training_state.restore(training, saved)
    check_parameters(training.model, checkpoint.group("model"))
    assert training.state.position.updates == 4
    assert math.isfinite(training.update().loss)


def flip_last_bits(content: bytes, rng: random.Random) -> bytes:
    """Bits of the last numbers in a file, or of what ends its JSON."""
    return content[:-200] + flip_bits(content[-200:], rng)


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 3))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def splice(content: bytes, rng: random.Random) -> bytes:
    begin, end, to = (rng.randrange(len(content) + 1) for _ in range(3))
    return content[:to] + content[min(begin, end) : max(begin, end)] + content[to:]


def nest(content: bytes, rng: random.Random) -> bytes:
    """Brackets inside one another, more than a parser could follow."""
    place, depth = rng.randrange(len(content) + 1), rng.choice((10, 60, 70, 100_000))
    return content[:place] + rng.choice((b"[", b'{"a":', b"[1,")) * depth + content[place:]


def change_json(content: bytes, rng: random.Random) -> bytes:
    """One or more values of the JSON in a file changed, removed, repeated, or put under another name."""
    try:
        before, document, after = split_json(content)
    except (ValueError, RecursionError):
        return flip_bits(content, rng)
    for _ in range(rng.choice((1, 1, 2, 4))):
        inside = document.get("state") if isinstance(document, dict) and rng.random() < 0.9 else None
        change_value(inside or document, rng)
    text = json.dumps(document)
    if rng.random() < 0.05:
        text = text.replace("{", '{"step": 4, ', 1)  # a name that comes twice
    encoded = text.replace("Infinity", "1e999").encode()
    return (struct.pack("<Q", len(encoded)) if before else b"") + encoded + after


def split_json(content: bytes) -> tuple[bytes, Any, bytes]:
    """The length that stands before the JSON, if any does; the JSON; what stands behind it."""
    if content[:1] in (b"{", b"["):
        return b"", json.loads(content), b""
    length = int.from_bytes(content[:8], "little")
    return content[:8], json.loads(content[8 : 8 + length]), content[8 + length :]


def change_value(document: Any, rng: random.Random) -> None:
    """Change one value, at any depth."""
    places: list[tuple[Any, Any]] = []
    gather(document, places)
    if not places:
        return
    holder, key = rng.choice(places)
    draw = rng.random()
    if draw < 0.2:
        del holder[key]
    elif draw < 0.35 and isinstance(holder, dict):
        name = rng.choice(("x", "step", "exp_avg/x", "params", f"{key}x", key.swapcase()))
        holder[name] = holder.pop(key) if draw < 0.27 else holder[key]
    elif key == "dtype":
        holder[key] = rng.choice(DTYPES)
    elif isinstance(holder[key], int | float) and not isinstance(holder[key], bool) and draw < 0.7:
        holder[key] = rng.choice((holder[key] + 1, -holder[key], holder[key] * 2, 0.25, math.inf, 10**30))
    else:
        holder[key] = copy.deepcopy(rng.choice((*ODD, rng.choice(places)[0])))


def gather(value: Any, places: list[tuple[Any, Any]], depth: int = 0) -> None:
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        places.append((value, key))
        if depth < 10:
            gather(value[key], places, depth + 1)


CHANGES: list[Callable[[bytes, random.Random], bytes]] = [flip_bits, flip_last_bits, truncate, splice, nest] + 10 * [
    change_json
]
