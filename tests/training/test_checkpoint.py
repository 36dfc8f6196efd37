"""Checkpoints: exact, complete or absent, reported when damaged, and never lost to a kill or a full disk."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from torch import nn
from training.kills import KEEP

from transom.names import Misfit
from transom.training.checkpoint import Checkpoints, list_steps
from transom.training.checkpoint_files import average_checkpoints, checkpoint_path, load_checkpoint
from transom.training.training_state import (
    check_parameters,
    model_tensors,
    optimizer_settings,
    optimizer_tensors,
    restore_model,
    restore_optimizer,
)

KILLS = Path(__file__).with_name("kills.py")
ANOTHER_COPY = "take another copy of the folder"


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(31)


def groups(step: int) -> dict[str, dict[str, torch.Tensor]]:
    return {"model": {"W": torch.full((5, 7), float(step))}, "optimizer": {"step/W": torch.tensor(float(step))}}


def save_steps(folder: Path, *numbers: int, best: int = 0, keep: int = 3) -> None:
    with Checkpoints(folder, keep) as checkpoints:
        for step in numbers:
            checkpoints.save(step, groups(step), {"step": step}, best=step == best)


def flip(path: Path, position: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def newest_error(folder: Path) -> str:
    with Checkpoints(folder) as checkpoints, pytest.raises(Misfit) as caught:
        checkpoints.newest()
    return str(caught.value)


def run_kills(folder: Path, *args: str) -> list[dict]:
    command = [sys.executable, str(KILLS), str(folder), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_bit_comes_back(tmp_path):
    x = torch.randn(11, 13)
    kept = {
        "model": {
            "float32": x,
            "across": x.mT,
            "part": x[3:5],
            "bfloat16": x.bfloat16(),
            "float16": x.half(),
            "float64": x.double(),
            "whole": torch.arange(-3, 4),
            "yes": x > 0,
            "one": torch.tensor(3.5),
            "none": torch.zeros(0, 3),
            "odd": torch.tensor([float("nan"), float("inf"), -0.0]),
        },
        "random": {"cpu": torch.get_rng_state()},
    }
    state = {"epoch": 3, "loss": 0.1 + 0.2, "best": None, "words": ["é", {"x": [1, 2.5, True]}], "large": 2**70}
    with Checkpoints(tmp_path / "new" / "run") as checkpoints:
        assert checkpoints.newest() == (None, [])
        path = checkpoints.save(123, kept, state, best=True)
        found, notes = checkpoints.newest()
    assert path == tmp_path / "new" / "run" / "step-00000123"
    assert notes == []
    assert found is not None
    assert (found.path, found.step, found.best, found.state) == (path, 123, True, state)
    assert {group: {*named} for group, named in found.tensors.items()} == {
        group: {*named} for group, named in kept.items()
    }
    for group, named in kept.items():
        for name, tensor in named.items():
            came = found.tensors[group][name]
            assert (came.dtype, came.shape) == (tensor.dtype, tensor.shape)
            assert came.contiguous().view(-1).view(torch.uint8).equal(tensor.contiguous().view(-1).view(torch.uint8))


def test_random_numbers_continue_where_they_were(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"random": {"cpu": torch.get_rng_state()}}, {})
        expected = torch.randn(17)
        found, _ = checkpoints.newest()
    torch.set_rng_state(found.tensors["random"]["cpu"])
    assert torch.equal(torch.randn(17), expected)


class Tied(nn.Module):
    """Two ways to one parameter, a lasting buffer and a passing one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.between = nn.Linear(7, 7, bias=False), nn.Linear(7, 7)
        self.last = nn.Linear(7, 7)
        self.last.weight = self.first.weight
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("table", torch.zeros(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.between(self.first(x).relu()).relu())


def build_model(kind: str, fused: bool) -> tuple[Tied, torch.optim.Optimizer]:
    model = Tied()
    chosen = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[kind]
    matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    decaying = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return model, chosen(decaying, lr=0.01, betas=(0.9, 0.98), fused=fused)


def train_steps(model: nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> None:
    for step in range(first, last):
        x = torch.randn(5, 7, generator=torch.Generator().manual_seed(step))
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / (step + 1)
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", ["adamw", "adam"])
@pytest.mark.parametrize("cut", [0, 3])
def test_a_resumed_run_ends_as_one_that_never_stopped(tmp_path, kind, fused, cut):
    model, optimizer = build_model(kind, fused)
    train_steps(model, optimizer, 0, cut)
    tensors = {"model": model_tensors(model), "optimizer": optimizer_tensors(model, optimizer)}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(cut, tensors, {"optimizer": optimizer_settings(optimizer)})
        found, _ = checkpoints.newest()
    restored, its_optimizer = build_model(kind, fused)
    assert not torch.equal(restored.between.weight, model.between.weight)
    restore_model(restored, found.tensors["model"])
    restore_optimizer(restored, its_optimizer, found.tensors["optimizer"], found.state["optimizer"])
    assert its_optimizer.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    train_steps(model, optimizer, cut, 7)
    train_steps(restored, its_optimizer, cut, 7)
    for name, tensor in model.state_dict().items():
        assert torch.equal(restored.state_dict()[name], tensor)
    expected, state = optimizer_tensors(model, optimizer), optimizer_tensors(restored, its_optimizer)
    assert expected.keys() == state.keys()
    assert all(torch.equal(expected[name], state[name]) for name in expected)


def test_what_is_tied_is_saved_once():
    model, optimizer = build_model("adamw", False)
    train_steps(model, optimizer, 0, 1)
    assert [*model_tensors(model)] == ["seen", "first.weight", "between.weight", "between.bias", "last.bias"]
    assert {name.partition("/")[0] for name in optimizer_tensors(model, optimizer)} == {"step", "exp_avg", "exp_avg_sq"}
    assert len(optimizer_tensors(model, optimizer)) == 3 * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda kept: kept.pop("seen"), "the model has 'seen', but the checkpoint does not hold it"),
        (lambda kept: kept.update(more=kept["seen"]), "the model has no 'more', but a checkpoint holds it"),
        (
            lambda kept: kept.update(seen=torch.zeros(2)),
            "'seen' must be (3,) of torch.float32, but the checkpoint has (2,) of torch.float32",
        ),
        (
            lambda kept: kept.update(seen=torch.zeros(3, dtype=torch.float64)),
            "'seen' must be (3,) of torch.float32, but the checkpoint has (3,) of torch.float64",
        ),
    ],
)
def test_a_model_takes_only_what_it_gave(own_errors, change, message):
    model, kept = Tied(), dict(model_tensors(Tied()))
    before = model.between.weight.clone()
    change(kept)
    with pytest.raises(Misfit) as caught:
        restore_model(model, kept)
    assert str(caught.value) == f"{message}; resume with the recipe the run started with"
    assert torch.equal(model.between.weight, before)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the model has 'last.bias', but the checkpoint does not hold it"),
        (
            {"last.bias": torch.zeros(5)},
            "'last.bias' must be (7,) of torch.float32, but the checkpoint has (5,) of torch.float32",
        ),
    ],
)
def test_parameters_are_checked_by_name_and_shape(given, message):
    model = Tied()
    tensors = {name: tensor for name, tensor in model_tensors(model).items() if name != "last.bias"}
    check_parameters(model, model_tensors(model))
    with pytest.raises(Misfit) as caught:
        check_parameters(model, {**tensors, **given})
    assert str(caught.value) == f"{message}; resume with the recipe the run started with"


def adam_state(**changes) -> dict[str, torch.Tensor]:
    """The state of one parameter, with changes; None removes an entry."""
    state = {"step": torch.tensor(1.0), "exp_avg": torch.zeros(7), "exp_avg_sq": torch.zeros(7), **changes}
    return {f"{key}/last.bias": tensor for key, tensor in state.items() if tensor is not None}


@pytest.mark.parametrize(
    ("tensors", "lost", "message"),
    [
        ({"exp_avg/first": torch.zeros(1)}, 0, "the optimizer has no 'exp_avg/first', but a checkpoint holds it"),
        (
            adam_state(exp_avg=torch.zeros(())),
            0,
            "'exp_avg/last.bias' must be (7,) of torch.float32, but the checkpoint has () of torch.float32",
        ),
        (
            adam_state(exp_avg=torch.zeros(5)),
            0,
            "'exp_avg/last.bias' must be (7,) of torch.float32, but the checkpoint has (5,) of torch.float32",
        ),
        (
            adam_state(step=torch.tensor(-1.0)),
            0,
            "'step/last.bias' must be a number of updates, but the checkpoint has () of torch.float32",
        ),
        (
            adam_state(exp_avg_sq=None),
            0,
            "the optimizer has 'exp_avg_sq/last.bias', but the checkpoint does not hold it",
        ),
        (adam_state(sum=torch.zeros(7)), 0, "the optimizer has no 'sum/last.bias', but a checkpoint holds it"),
        ({}, 1, "the optimizer has 2 parameter groups, but 1 were saved"),
    ],
)
def test_an_optimizer_takes_only_what_it_gave(own_errors, tensors, lost, message):
    model, optimizer = build_model("adamw", False)
    with pytest.raises(Misfit) as caught:
        restore_optimizer(model, optimizer, tensors, optimizer_settings(optimizer)[lost:])
    assert str(caught.value) == f"{message}; resume with the recipe the run started with"


@pytest.mark.parametrize(
    ("keep", "best", "left"), [(1, 0, [7]), (2, 0, [5, 7]), (2, 2, [2, 5, 7]), (2, 7, [5, 7]), (9, 2, [1, 2, 3, 5, 7])]
)
def test_old_ones_go_but_not_the_best(tmp_path, keep, best, left):
    save_steps(tmp_path, 1, 2, 3, 5, 7, best=best, keep=keep)
    assert list_steps(tmp_path) == left
    with Checkpoints(tmp_path) as checkpoints:
        found = checkpoints.best().checkpoint
    assert (found.step if found else 0) == best


def test_a_new_best_frees_the_old_one_and_the_best_is_known_after_a_new_start(tmp_path):
    save_steps(tmp_path, 1, 2, 3, best=1, keep=1)
    assert list_steps(tmp_path) == [1, 3]
    save_steps(tmp_path, 4, 5, best=4, keep=1)
    assert list_steps(tmp_path) == [4, 5]


def test_the_one_resumed_from_is_kept(tmp_path):
    save_steps(tmp_path, 3)
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        checkpoints.newest()
        for step in (4, 5, 6):
            checkpoints.save(step, groups(step), {})
        assert list_steps(tmp_path) == [3, 6]


def test_a_damaged_one_beyond_pushes_no_good_one_out(tmp_path):
    save_steps(tmp_path, 3, 9, best=9)
    flip(tmp_path / "step-00000009" / "model.safetensors")
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        assert checkpoints.newest().checkpoint.step == 3
        checkpoints.save(5, groups(5), {}, best=True)
        checkpoints.save(6, groups(6), {})
        assert list_steps(tmp_path) == [3, 5, 6, 9]
        checkpoints.save(9, groups(9), {})
        checkpoints.save(11, groups(11), {})
        assert list_steps(tmp_path) == [3, 5, 11]


def test_a_step_may_be_saved_again(tmp_path):
    save_steps(tmp_path, 3)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(3, {"model": {"W": torch.zeros(2)}}, {"again": True})
        found, notes = checkpoints.newest()
    assert (found.state, [*found.tensors], notes) == ({"again": True}, ["model"], [])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "step-00000003"]


def test_steps_beyond_eight_digits_are_ordered_by_number(tmp_path):
    save_steps(tmp_path, 99_999_999, 100_000_000)
    (tmp_path / "step-000000009").mkdir()
    (tmp_path / "step-00000009").write_text("a file")
    assert list_steps(tmp_path) == [99_999_999, 100_000_000]
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.newest().checkpoint.step == 100_000_000


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def damages() -> list:
    """How a checkpoint may be damaged: a file, what happens to it, and the message."""
    return [
        pytest.param(name, damage, message, id=f"{name}-{damage.__name__}")
        for name in ("model.safetensors", "optimizer.safetensors", "state.json")
        for damage, message in (
            (flip, "{file} must have SHA-256 {sha256}, but it has {found}: it was damaged"),
            (cut_short, "{file} must have {size} bytes, but it has {short}"),
            (Path.unlink, "{file} is in the manifest, but not in the folder"),
        )
    ] + [
        pytest.param(
            "manifest.json",
            Path.unlink,
            "{file} must list the folder's files, but it cannot be read: No such file or directory",
            id="manifest-gone",
        ),
        pytest.param(
            "manifest.json",
            cut_short,
            "{file} must list the folder's files, but it is damaged: Expecting ',' delimiter: line 15 column 4"
            " (char 420)",
            id="manifest-short",
        ),
    ]


@pytest.mark.parametrize(("name", "damage", "message"), damages())
def test_a_damaged_checkpoint_is_reported_and_skipped(tmp_path, name, damage, message):
    save_steps(tmp_path, 3, 5)
    path = checkpoint_path(tmp_path, 5) / name
    listed = json.loads((path.parent / "manifest.json").read_bytes())["files"].get(name, {"size": 0, "sha256": ""})
    damage(path)
    found = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=False).stdout.split(" ")[0]
    with Checkpoints(tmp_path) as checkpoints:
        good, notes = checkpoints.newest()
    assert good.step == 3
    assert torch.equal(good.tensors["model"]["W"], groups(3)["model"]["W"])
    text = message.format(file=path, found=found, short=listed["size"] - 3, **listed)
    assert notes == [f"skipped {path.parent}: {text}; {ANOTHER_COPY}"]


@pytest.mark.parametrize("place", range(0, 500, 23))
def test_no_bit_of_a_manifest_can_flip_and_go_unseen(tmp_path, place):
    save_steps(tmp_path, 3, 5)
    manifest = checkpoint_path(tmp_path, 5) / "manifest.json"
    before = json.loads(manifest.read_bytes())
    flip(manifest, place % manifest.stat().st_size)
    try:
        same = json.loads(manifest.read_bytes()) == before
    except ValueError:
        same = False
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.newest().checkpoint.step == (5 if same else 3)


@pytest.mark.parametrize("name", ["../step-00000003/state.json", "/etc/passwd", "..", "", "a\\b", "manifest.json"])
def test_a_manifest_leads_nowhere_else(tmp_path, name):
    save_steps(tmp_path, 3)
    manifest = checkpoint_path(tmp_path, 3) / "manifest.json"
    manifest.write_text(json.dumps({"files": {name: {"size": 1, "sha256": "0" * 64}}}))
    assert newest_error(tmp_path) == (
        f"{tmp_path} should hold an intact checkpoint, but all 1 are damaged; the newest: {manifest} must name plain"
        f" files of its folder, but it names {name!r}; {ANOTHER_COPY}; or start again in a new folder"
    )


@pytest.mark.parametrize("name", ["x" * 256, "é" * 128])
def test_a_manifest_names_what_a_file_may_be_called(tmp_path, name):
    save_steps(tmp_path, 3)
    manifest = checkpoint_path(tmp_path, 3) / "manifest.json"
    manifest.write_text(json.dumps({"files": {name: {"size": 1, "sha256": "0" * 64}}}))
    with pytest.raises(Misfit) as caught:
        load_checkpoint(manifest.parent)
    assert str(caught.value) == (
        f"{manifest} must name plain files of its folder, but it names {name[:255]!r}; {ANOTHER_COPY}"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"files": {}, "files": {}}', "a name comes twice"),
        (
            '{"files": {"\\ud800": {}}}',
            "'utf-8' codec can't encode character '\\ud800' in position 12: surrogates not allowed",
        ),
        ("[" * 100_000, "it nests more than 64 deep"),
        (
            '{"files": {"a": {"size": -1, "sha256": "' + "0" * 64 + '"}}}',
            "Expected `int` >= 0 - at `$.files[...].size`",
        ),
        ("{}" + " " * 2**22, "it has 4194305 bytes, but at most 4194304 are allowed"),
    ],
    ids=["twice", "surrogate", "deep", "negative", "long"],
)
def test_a_manifest_that_is_none_is_told(tmp_path, content, reason):
    save_steps(tmp_path, 3)
    manifest = checkpoint_path(tmp_path, 3) / "manifest.json"
    manifest.write_text(content)
    with pytest.raises(Misfit) as caught:
        load_checkpoint(manifest.parent)
    assert str(caught.value) == (
        f"{manifest} must list the folder's files, but it is damaged: {reason}; {ANOTHER_COPY}"
    )


def test_a_pipe_in_place_of_a_manifest_is_not_waited_for(tmp_path):
    save_steps(tmp_path, 3)
    manifest = checkpoint_path(tmp_path, 3) / "manifest.json"
    manifest.unlink()
    os.mkfifo(manifest)
    with pytest.raises(Misfit) as caught:
        load_checkpoint(manifest.parent)
    assert str(caught.value) == (
        f"{manifest} must list the folder's files, but it cannot be read: it is not a regular file; {ANOTHER_COPY}"
    )


def test_what_a_manifest_does_not_list_is_not_believed(tmp_path):
    save_steps(tmp_path, 3)
    path = checkpoint_path(tmp_path, 3)
    shutil.copy(path / "model.safetensors", path / "more.safetensors")
    with pytest.raises(Misfit) as caught:
        load_checkpoint(path)
    assert str(caught.value) == f"{path}/manifest.json must list 'more.safetensors', but it does not; {ANOTHER_COPY}"
    (path / "more.safetensors").rename(path / "More.safetensors")
    as_if_whole(path, json.loads((path / "state.json").read_text()))
    with pytest.raises(Misfit) as caught:
        load_checkpoint(path)
    assert str(caught.value) == (
        f"{path} must hold groups with plain names, but it holds 'More.safetensors'; {ANOTHER_COPY}"
    )


def as_if_whole(path: Path, state: object) -> None:
    """A checkpoint with another state.json, and a manifest that knows it."""
    from transom.files.atomic_files import write_manifest

    (path / "manifest.json").unlink()
    (path / "state.json").write_text(state if isinstance(state, str) else json.dumps(state))
    write_manifest(path)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("{", "must be JSON, but it cannot be read"),
        ("[" * 100_000, "must be JSON, but it cannot be read (it nests more than 64 deep)"),
        ([], "must hold step, best and state only, but it does not"),
        ({"step": 3, "best": False}, "must hold step, best and state only, but it does not"),
        ({"step": "3", "best": False, "state": {}}, "must hold step, best and state only, but it does not"),
    ],
)
def test_a_malformed_state_is_an_error(tmp_path, state, message):
    save_steps(tmp_path, 3)
    path = checkpoint_path(tmp_path, 3)
    as_if_whole(path, state)
    with pytest.raises(Misfit) as caught:
        load_checkpoint(path)
    why = " (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))" if state == "{" else ""
    assert str(caught.value) == f"{path / 'state.json'} {message}{why}; {ANOTHER_COPY}"


def test_a_step_under_another_name_is_an_error(tmp_path):
    save_steps(tmp_path, 3)
    checkpoint_path(tmp_path, 3).rename(checkpoint_path(tmp_path, 4))
    with pytest.raises(Misfit) as caught:
        load_checkpoint(checkpoint_path(tmp_path, 4))
    assert (
        str(caught.value)
        == f"{checkpoint_path(tmp_path, 4)} must hold the step in its name, but it holds step 3; {ANOTHER_COPY}"
    )


def test_if_all_are_damaged_no_run_starts_over(tmp_path):
    save_steps(tmp_path, 3, 5)
    for step in (3, 5):
        (checkpoint_path(tmp_path, step) / "state.json").unlink()
    assert newest_error(tmp_path) == (
        f"{tmp_path} should hold an intact checkpoint, but all 2 are damaged; the newest:"
        f" {checkpoint_path(tmp_path, 5) / 'state.json'} is in the manifest, but not in the folder; {ANOTHER_COPY};"
        " or start again in a new folder"
    )


def test_nothing_pickled_is_written_or_read(tmp_path):
    save_steps(tmp_path, 3)
    for path in checkpoint_path(tmp_path, 3).iterdir():
        assert path.suffix in {".json", ".safetensors"}
        assert not path.read_bytes().startswith((b"\x80", b"PK"))


def test_one_run_at_a_time(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, groups(1), {})
        with pytest.raises(Misfit) as caught:
            Checkpoints(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path} must belong to one run, but process {os.getpid()} is writing to it;"
            " wait until it ends, or choose another folder"
        )
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.newest().checkpoint.step == 1


def test_a_kill_releases_the_folder(tmp_path):
    code = (
        "import sys, time; from transom.training.checkpoint import Checkpoints; kept = Checkpoints(sys.argv[1]);"
        " print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "open\n"
            with pytest.raises(Misfit) as caught:
                Checkpoints(tmp_path)
            assert f"but process {other.pid} is writing to it" in str(caught.value)
        finally:
            other.send_signal(signal.SIGKILL)
            other.wait()
    Checkpoints(tmp_path).close()


def test_what_a_kill_left_is_cleaned_up_and_reported(tmp_path):
    save_steps(tmp_path, 3)
    half, file, aside = (
        tmp_path / f".step-00000004.0a1b2c3d{ending}" for ending in (".partial", ".json.partial", ".aside")
    )
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    file.write_bytes(b"half")
    checkpoint_path(tmp_path, 3).rename(tmp_path / ".step-00000003.01234567.aside")
    aside.mkdir()
    checkpoint_path(tmp_path, 4).mkdir()
    (tmp_path / ".hidden").write_text("somebody's own")
    with Checkpoints(tmp_path) as checkpoints:
        found, notes = checkpoints.newest()
    assert found.step == 3
    assert notes == [
        f"put back {checkpoint_path(tmp_path, 3)}, which a run that was stopped had set aside",
        f"removed {aside}, which a run that was stopped had left half-done",
        f"removed {file}, which a run that was stopped had left half-done",
        f"removed {half}, which a run that was stopped had left half-done",
        f"skipped {checkpoint_path(tmp_path, 4)}: {checkpoint_path(tmp_path, 4) / 'manifest.json'}"
        " must list the folder's files, but it"
        f" cannot be read: No such file or directory; {ANOTHER_COPY}",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", ".lock", "step-00000003", "step-00000004"]


@pytest.fixture
def small_disk():
    """No file may grow beyond 50 kB, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_does_not_fit_leaves_the_last_good_one(tmp_path, small_disk):
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        checkpoints.save(3, groups(3), {})
        with pytest.raises(Misfit) as caught:
            checkpoints.save(5, {"model": {"W": torch.zeros(101, 211)}}, {})
        assert str(caught.value) == (
            f"{tmp_path}/step-00000005/model.safetensors could not be written: File too large;"
            " free some space, or choose another folder"
        )
        assert checkpoints.newest().checkpoint.step == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "step-00000003"]


@pytest.mark.parametrize("moment", range(9))
def test_a_disk_that_is_full_at_any_moment_leaves_the_last_good_one(tmp_path, monkeypatch, moment):
    save_steps(tmp_path, 3, keep=1)
    left, fsync = [moment], os.fsync

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    with Checkpoints(tmp_path, keep=1) as checkpoints:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(Misfit) as caught:
            checkpoints.save(5, groups(5), {})
        monkeypatch.undo()
    first, *_, last = str(caught.value).partition(" could not be written: ")
    assert first.startswith(f"{tmp_path}/step-00000005")
    assert ".partial" not in first
    assert last == "No space left on device; free some space, or choose another folder"
    with Checkpoints(tmp_path) as checkpoints:
        found, notes = checkpoints.newest()
    assert (found.step in {3, 5}, notes) == (True, [])
    assert list_steps(tmp_path)[0] == 3
    assert not list(tmp_path.glob(".step*"))


@pytest.fixture
def forbidden():
    """A folder that holds a checkpoint and that this process may not write to, even when root runs the tests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        save_steps(folder, 3)
        for path in (folder.parent, folder):
            path.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        yield folder
        if root:
            os.seteuid(0)
        for path in (folder.parent, folder):
            path.chmod(0o755)


def test_a_folder_without_write_permission_is_an_error(forbidden):
    with pytest.raises(Misfit) as caught:
        Checkpoints(forbidden / "new")
    assert str(caught.value) == (
        f"{forbidden / 'new'} could not be written: Permission denied; choose a folder that this user may write to"
    )
    assert load_checkpoint(checkpoint_path(forbidden, 3)).step == 3


def test_a_folder_that_becomes_read_only_is_an_error(tmp_path, monkeypatch):
    save_steps(tmp_path, 3)

    def refused(path: Path, *given: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with Checkpoints(tmp_path) as checkpoints:
        monkeypatch.setattr(Path, "rename", refused)
        with pytest.raises(Misfit) as caught:
            checkpoints.save(5, groups(5), {})
        monkeypatch.undo()
        assert str(caught.value) == (
            f"{tmp_path}/step-00000005 could not be written: Read-only file system;"
            " choose a folder that this user may write to"
        )
        assert checkpoints.newest().checkpoint.step == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "step-00000003"]


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(Misfit) as caught:
        Checkpoints(tmp_path / "run")
    assert str(caught.value) == f"{tmp_path / 'run'} could not be written: File exists; choose another folder"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ({"../model": {}}, {}),
            "a group of tensors needs a plain name like 'model', but got '../model'; use letters",
        ),
        (
            ({}, {"loss": float("nan")}),
            "{path} must save a state of finite numbers, but one is not; use None for no number",
        ),
        (
            ({}, {"loss": torch.zeros(())}),
            "{path} must save a state that fits JSON, but Object of type Tensor is not JSON serializable;"
            " use numbers, text and lists",
        ),
        (
            ({}, {"place": (1, 2)}),
            "{path} must save a state that JSON returns unchanged; use lists, and text as keys",
        ),
        (
            ({}, {1: 2}),
            "{path} must save a state that JSON returns unchanged; use lists, and text as keys",
        ),
    ],
)
def test_what_cannot_be_saved_is_refused_before_anything_is_written(own_errors, tmp_path, given, message):
    with Checkpoints(tmp_path) as checkpoints:
        with pytest.raises(Misfit) as caught:
            checkpoints.save(7, *given)
        assert str(caught.value) == message.format(path=checkpoint_path(tmp_path, 7))
        assert list_steps(tmp_path) == []


def test_at_least_one_is_kept(tmp_path):
    with pytest.raises(Misfit) as caught:
        Checkpoints(tmp_path, keep=0)
    assert str(caught.value) == "keep must be at least 1, but got 0; the last good checkpoint is always kept"


def test_the_average_is_the_mean_in_float64(tmp_path):
    rows = [torch.randn(5, 7) * 10.0**power for power in (0, 3, 7)]
    with Checkpoints(tmp_path) as checkpoints:
        for step, W in enumerate(rows):
            tensors = {"W": W, "half": W.bfloat16(), "count": torch.tensor([step])}
            checkpoints.save(step, {"model": tensors, "optimizer": {"step/W": torch.tensor(1.0)}}, {})
    mean = average_checkpoints([checkpoint_path(tmp_path, step) for step in range(3)])
    assert mean.keys() == {"W", "half", "count"}
    for r in range(5):
        for c in range(7):
            exact = (float(rows[0][r, c]) + float(rows[1][r, c]) + float(rows[2][r, c])) / 3
            assert mean["W"][r, c] == torch.tensor(exact, dtype=torch.float64).float()
    assert mean["half"].dtype == torch.bfloat16
    assert mean["count"].equal(torch.tensor([2]))


def test_an_average_of_one_is_itself(tmp_path):
    W = torch.randn(5, 7)
    with Checkpoints(tmp_path) as checkpoints:
        path = checkpoints.save(1, {"averages": {"W": W}}, {})
    assert torch.equal(average_checkpoints([path], "averages")["W"], W)


def test_an_average_needs_intact_checkpoints_of_one_run(own_errors, tmp_path):
    with pytest.raises(Misfit) as caught:
        average_checkpoints([])
    assert str(caught.value) == "an average needs at least one checkpoint, but there are none; give the paths of some"
    with Checkpoints(tmp_path) as checkpoints:
        for step, named in enumerate([{"W": (5, 7)}, {"W": (5, 7), "b": (5,)}, {"W": (7, 5)}]):
            checkpoints.save(step, {"model": {name: torch.zeros(shape) for name, shape in named.items()}}, {})
    first, more, turned = (checkpoint_path(tmp_path, step) for step in range(3))
    for paths, message in (
        ((first, more), f"'b' is (5,) in {more} and missing before"),
        ((more, first), f"'b' is missing in {first} and (5,) before"),
        ((first, turned), f"'W' is (7, 5) in {turned} and (5, 7) before"),
    ):
        with pytest.raises(Misfit) as caught:
            average_checkpoints(paths)
        assert str(caught.value) == f"checkpoints of one run hold the same tensors, but {message}; average one run's"
    flip(first / "model.safetensors")
    with pytest.raises(Misfit, match=r"model.safetensors must have SHA-256 \w+, but it has \w+: it was damaged"):
        average_checkpoints([first])
    with pytest.raises(Misfit) as caught:
        average_checkpoints([more], "averages")
    assert str(caught.value) == f"{more} must hold averages.safetensors, but it does not; choose a group it has"


def is_good(result: dict) -> bool:
    """Whenever the kill came: every saved step is there, complete, with the best one, and nothing is left over."""
    steps = [int(name.removeprefix("step-")) for name in result["left"] if name.startswith("step-")]
    must = {result["found"], result["found"] // 5 * 5} - {0}
    litter = [name for name in result["left"] if name.endswith((".partial", ".aside"))]
    return result["holds"] and result["found"] >= result["said"] and must <= {*steps} and not litter


def test_killed_at_random_moments_nothing_is_lost(tmp_path):
    rounds = run_kills(tmp_path / "run", "random", "24", "7")
    assert len(rounds) == 24
    assert [result for result in rounds if not is_good(result)] == []
    assert [result["found"] for result in rounds] == sorted(result["found"] for result in rounds)
    assert rounds[-1]["found"] > 24
    assert any(result["notes"] for result in rounds), "no kill came while something was being written"


def test_killed_before_each_change_to_the_disk_nothing_is_lost(tmp_path):
    rounds = run_kills(tmp_path, "everywhere")
    assert len(rounds) > 30
    assert [result for result in rounds if not is_good(result)] == []
    assert rounds[0]["found"] == 3
    assert (rounds[-1]["said"], rounds[-1]["found"]) == (5, 5)
    assert sum("put back" in note for result in rounds for note in result["notes"]) == 1
    assert len([name for name in rounds[-1]["left"] if name != ".lock"]) == KEEP + 1
