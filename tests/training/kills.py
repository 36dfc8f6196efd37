"""A writer of checkpoints that is killed again and again, by a parent that looks after each kill at what is left.

`python kills.py FOLDER random COUNT SEED` or `python kills.py FOLDER everywhere` prints a line of JSON per kill. It
forks, so that torch is loaded once; everything else is as in a run that is started anew.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from transom.training.checkpoint import Checkpoints
from transom.training.checkpoint_files import Checkpoint, checkpoint_path

KEEP = 2
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}
WRITING = os.O_WRONLY | os.O_RDWR


def content(step: int) -> dict[str, dict[str, torch.Tensor]]:
    """What a step must hold, every bit of it a function of the step."""
    generator = torch.Generator().manual_seed(step)
    return {
        "model": {"W": torch.randn(127, 131, generator=generator), "b": torch.randn(131, generator=generator)},
        "optimizer": {"exp_avg/W": torch.randn(127, 131, generator=generator), "step/W": torch.tensor(float(step))},
        "random": {"cpu": generator.get_state()},
    }


def state(step: int) -> dict[str, object]:
    return {"place": [step // 7, step % 7], "best": 1.0 / (step + 3), "name": "é"}


def holds(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is, bit for bit, what its step must hold."""
    expected = content(checkpoint.step)
    return (
        checkpoint.state == state(checkpoint.step)
        and checkpoint.tensors.keys() == expected.keys()
        and all(
            checkpoint.tensors[group].keys() == named.keys()
            and all(torch.equal(checkpoint.tensors[group][name], tensor) for name, tensor in named.items())
            for group, named in expected.items()
        )
    )


def write_on(folder: Path, told: int, most: int) -> None:
    """Go on from the newest checkpoint, and tell each step once it is kept."""
    with Checkpoints(folder, keep=KEEP) as checkpoints:
        found = checkpoints.newest().checkpoint
        begin = 0 if found is None else found.step
        for step in range(begin + 1, begin + 1 + most):
            checkpoints.save(step, content(step), state(step), best=step % 5 == 0)
            os.write(told, f"{step}\n".encode())


def killed_at_random(folder: Path, chance: random.Random) -> list[int]:
    """Let a writer keep a random number of steps, kill it at random in the next, and give those it said it had kept."""
    hears, tells = os.pipe()
    child = os.fork()
    if child == 0:
        write_on(folder, tells, most=10**6)
    os.close(tells)
    with os.fdopen(hears) as lines:
        said = [int(lines.readline()) for _ in range(chance.randrange(4))]
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return said + [int(line) for line in lines if line.endswith("\n")]


def begun(folder: Path) -> None:
    """A run that kept three steps, and a damaged fourth that must be passed over and then replaced."""
    write_on(folder, os.open(os.devnull, os.O_WRONLY), most=3)
    checkpoint_path(folder, 4).mkdir()
    (checkpoint_path(folder, 4) / "manifest.json").write_bytes(b"{")


def killed_at(folder: Path, moment: int) -> tuple[list[int], bool]:
    """Let a writer keep two steps, but kill it just before its `moment`-th change to the disk, if it has so many."""
    hears, tells = os.pipe()
    child = os.fork()
    if child == 0:
        left = [moment]

        def count(event: str, given: tuple[object, ...]) -> None:
            if event in CHANGES or (event == "open" and isinstance(given[2], int) and given[2] & WRITING):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        write_on(folder, tells, most=2)
        os._exit(0)
    os.close(tells)
    _, status = os.waitpid(child, 0)
    with os.fdopen(hears) as lines:
        return [int(line) for line in lines if line.endswith("\n")], os.WIFSIGNALED(status)


def looked_at(folder: Path, said: list[int]) -> dict[str, object]:
    """What a next start finds."""
    with Checkpoints(folder, keep=KEEP) as checkpoints:
        found, notes = checkpoints.newest()
        left = sorted(path.name for path in folder.iterdir())
    return {
        "said": max(said, default=0),
        "found": 0 if found is None else found.step,
        "holds": found is None or holds(found),
        "notes": notes,
        "left": left,
    }


def random_kills(folder: Path, count: int, seed: int) -> Iterator[dict[str, object]]:
    """One run, killed at random moments and started again each time."""
    chance = random.Random(seed)
    for _ in range(count):
        yield looked_at(folder, killed_at_random(folder, chance))


def all_kills(folder: Path) -> Iterator[dict[str, object]]:
    """The same start of a run, killed before its first change to the disk, before its second, and so on to the end."""
    begun(folder / "begun")
    killed, moment = True, 0
    while killed:
        shutil.copytree(folder / "begun", folder / "now")
        said, killed = killed_at(folder / "now", moment)
        yield looked_at(folder / "now", said)
        shutil.rmtree(folder / "now")
        moment += 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    place, kind, *numbers = sys.argv[1:]
    found = all_kills(Path(place)) if kind == "everywhere" else random_kills(Path(place), *map(int, numbers))
    for line in found:
        print(json.dumps(line), flush=True)
