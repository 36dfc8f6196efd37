"""Several processes: the same batches and losses, one checkpoint for any number of them, and nobody waits for ever."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from training import toy

from transom.names import Misfit
from transom.training.checkpoint_files import checkpoint_path, load_checkpoint
from transom.training.distributed import WRAPPINGS, World, join_world, read_torchrun_env

PAIR = Path(__file__).with_name("pair.py")
SECONDS = 180  # only a hang takes so long, also on a busy machine


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def started_pair(folder: Path) -> list[subprocess.Popen]:
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, str(PAIR), str(folder)],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> tuple[Path, list[tuple[float, float]]]:
    """What one process makes of it."""
    folder = tmp_path_factory.mktemp("parallel")
    return folder, toy.trained(toy.begun(World(), "none"), folder / "alone")


@pytest.fixture(scope="module")
def pair(alone) -> list[dict]:
    """What two processes make of it."""
    folder, _ = alone
    processes = started_pair(folder)
    end = time.monotonic() + SECONDS
    try:
        said = [process.communicate(timeout=max(0.1, end - time.monotonic())) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, -signal.SIGKILL], said
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


def assert_near(found: object, expected: object) -> None:
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("sharding", WRAPPINGS)
def test_two_processes_learn_what_one_does(alone, pair, sharding):
    _, expected = alone
    assert len(expected) == toy.STEPS
    assert expected[-1][0] < expected[0][0]
    for found in pair:
        assert_near(found[sharding], expected)


@pytest.mark.slow
@pytest.mark.parametrize("sharding", WRAPPINGS)
@pytest.mark.parametrize("step", [toy.KEPT, toy.STEPS])
def test_two_processes_keep_what_one_does(alone, pair, sharding, step):
    folder, _ = alone
    expected, found = (load_checkpoint(checkpoint_path(folder / name, step)) for name in ("alone", sharding))
    assert found.state == expected.state
    for group in ("model", "optimizer"):
        assert found.tensors[group].keys() == expected.tensors[group].keys()
        for name, tensor in expected.tensors[group].items():
            torch.testing.assert_close(found.tensors[group][name], tensor, rtol=1e-8, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("sharding", WRAPPINGS)
def test_two_processes_go_on_from_one(alone, pair, sharding):
    _, expected = alone
    for found in pair:
        assert_near(found[f"{sharding}, from one"], expected[toy.KEPT :])


@pytest.mark.slow
@pytest.mark.parametrize("sharding", WRAPPINGS)
def test_one_process_goes_on_from_two(alone, pair, sharding, tmp_path):
    folder, expected = alone
    run = toy.begun(World(), "none", seed=43)
    toy.take(run, load_checkpoint(checkpoint_path(folder / sharding, toy.KEPT)))
    assert_near(toy.trained(run, tmp_path, toy.KEPT), expected[toy.KEPT :])


@pytest.mark.slow
@pytest.mark.parametrize("sharding", WRAPPINGS)
def test_a_model_is_judged_outside_its_engine(alone, pair, sharding):
    folder, _ = alone
    run, tokens = toy.begun(World(), "none"), toy.batch(0, 0, slice(None))
    expected = []
    for step in (0, toy.STEPS):
        if step:
            toy.take(run, load_checkpoint(checkpoint_path(folder / "alone", step)))
        with run.world.gather_parameters(run.wrapped), torch.no_grad():
            expected.append([float(run.model.logits(tokens).abs().sum())] * 2)
    after = toy.updated(run, 0)
    for found in pair:
        assert_near(found[f"{sharding}, judged"], expected)
        assert_near(found[f"{sharding}, after"], after)


@pytest.mark.slow
def test_sharded_each_holds_a_share_and_replicated_all(pair):
    whole = sum(parameter.numel() for parameter in toy.Toy().parameters())
    assert [found["ddp, parameters"] for found in pair] == [whole, whole]
    shares = [found["fsdp, parameters"] for found in pair]
    assert sum(shares) == whole
    assert all(0.4 * whole < share < 0.6 * whole for share in shares)


@pytest.mark.slow
def test_numbers_are_agreed_on(pair):
    shared = {"summed": 10.0, "any": [True, True, False, True], "agreed": 11.0}
    assert [found["numbers"] for found in pair] == [{"rank": r, "leads": r == 0, **shared} for r in range(2)]


@pytest.mark.slow
def test_a_process_that_is_late_or_gone_is_told_in_time(alone, pair):
    folder, _ = alone
    found = json.loads((folder / "complaints.json").read_text())
    assert len(found) == 2
    for message, place in zip(found, ("the end", "adding up"), strict=True):
        begin, _, end = message.partition(" (")
        assert begin == f"all processes of this run should meet at {place!r}, but one did not come"
        assert end.endswith("); see what the others printed, then run the same command again")


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [0, 1, 7, 11])
def test_each_row_goes_to_one_process(size, rows):
    parts = [[*range(rows)][World(rank, size).part] for rank in range(size)]
    assert sorted(row for part in parts for row in part) == [*range(rows)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parts[size - 1][:1] == [*range(rows)][size - 1 : size]


def test_alone_nothing_is_added():
    with join_world() as world:
        assert world == World()
        assert (world.leads, world.part) == (True, slice(0, None, 1))
        assert (world.all_sum(3.5), world.any(False), world.any(True), world.broadcast(7)) == (3.5, False, True, 7.0)
        world.wait("nobody")
        x = torch.randn(3)
        assert world.full(x) is x
        assert world.gather_tensors({"x": x}).keys() == {"x"}
        assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (0, 1, 0)),
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}, (0, 1, 0)),
        ({"RANK": "5", "WORLD_SIZE": "7", "LOCAL_RANK": "1"}, (5, 7, 1)),
    ],
)
def test_torchrun_tells_the_place(environment, expected):
    assert read_torchrun_env(environment) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ("0", "", "0"),
            "RANK, WORLD_SIZE and LOCAL_RANK must be whole numbers,"
            " but got RANK=0, WORLD_SIZE=nothing, LOCAL_RANK=0; {way_out}",
        ),
        (
            ("one", "2", "-1"),
            "RANK, WORLD_SIZE and LOCAL_RANK must be whole numbers,"
            " but got RANK=one, WORLD_SIZE=2, LOCAL_RANK=-1; {way_out}",
        ),
        (
            ("2", "2", "0"),
            "LOCAL_RANK ≤ RANK < WORLD_SIZE must hold, but got RANK=2, WORLD_SIZE=2, LOCAL_RANK=0; {way_out}",
        ),
        (
            ("0", "2", "1"),
            "LOCAL_RANK ≤ RANK < WORLD_SIZE must hold, but got RANK=0, WORLD_SIZE=2, LOCAL_RANK=1; {way_out}",
        ),
    ],
)
def test_a_place_that_is_none_is_told(values, message):
    with pytest.raises(Misfit) as caught:
        read_torchrun_env(dict(zip(("RANK", "WORLD_SIZE", "LOCAL_RANK"), values, strict=True)))
    assert str(caught.value) == message.format(way_out="start with torchrun, or unset them to run alone")


def test_several_processes_need_an_engine():
    with pytest.raises(Misfit) as caught:
        World(1, 2).wrap(toy.Toy(), "none")
    assert str(caught.value) == (
        "2 processes need the wrapping ddp or fsdp, but got 'none'; give one of these, or start one process"
    )
