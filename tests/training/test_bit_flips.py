"""Every single bit of what describes a checkpoint, flipped: reported, and the one before it taken, or harmless."""

import shutil
from pathlib import Path

import pytest
import torch
from small_runs import pairs_file
from test_loop import training

from transom.names import Misfit
from transom.training import training_state as keeping
from transom.training.checkpoint import Checkpoints, find_newest
from transom.training.checkpoint_files import checkpoint_path, load_checkpoint


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A folder with the checkpoints of two steps: tensors few and small, the state that of a run."""
    folder = tmp_path_factory.mktemp("flips")
    state = keeping.checkpoint_state(training(folder, pairs_file(folder)))
    W = torch.arange(15.0).view(3, 5)
    tensors = {"model": {"W": W, "b": W[0]}, "optimizer": {"exp_avg/W": W + 7, "step/W": torch.tensor(2.0)}}
    with Checkpoints(folder / "checkpoints") as checkpoints:
        for step in (2, 4):
            checkpoints.save(step, tensors, state, best=step == 2)
    return folder / "checkpoints"


def described(file: Path) -> int:
    """How many bytes of a file describe the checkpoint: all of a JSON, the header of a safetensors."""
    if file.suffix == ".json":
        return file.stat().st_size
    with file.open("rb") as content:
        return 8 + int.from_bytes(content.read(8), "little")


def same(found, expected) -> bool:
    """Bit for bit."""
    return (found.step, found.best, found.state, found.tensors.keys()) == (
        expected.step,
        expected.best,
        expected.state,
        expected.tensors.keys(),
    ) and all(
        {*found.tensors[group]} == {*named}
        and all(torch.equal(found.tensors[group][name].view(-1), tensor.view(-1)) for name, tensor in named.items())
        for group, named in expected.tensors.items()
    )


def flipped(file: Path, expected) -> tuple[int, int]:
    """Flip each bit of a file in turn and put it back; gives how many flips were reported, and how many harmless."""
    content, reported, harmless = file.read_bytes(), 0, 0
    with file.open("r+b", buffering=0) as open_file:
        for place in range(8 * described(file)):
            open_file.seek(place // 8)
            open_file.write(bytes([content[place // 8] ^ (1 << place % 8)]))
            try:
                assert same(load_checkpoint(file.parent), expected), f"bit {place} of {file.name} went unseen"
                harmless += 1
            except Misfit:
                reported += 1
            open_file.seek(place // 8)
            open_file.write(content[place // 8 : place // 8 + 1])
    return reported, harmless


FILES = ("manifest.json", "state.json", "model.safetensors", "optimizer.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_bit_that_flips_is_reported_or_harmless(kept, tmp_path, name):
    copy = tmp_path / "step-00000004"
    shutil.copytree(checkpoint_path(kept, 4), copy)
    expected = load_checkpoint(copy)
    reported, harmless = flipped(copy / name, expected)
    assert reported + harmless == 8 * described(copy / name)
    assert harmless == 0
    assert reported > 900
    assert same(load_checkpoint(copy), expected)


@pytest.mark.parametrize("name", FILES)
def test_after_a_flipped_bit_the_checkpoint_before_is_taken(kept, tmp_path, name):
    for step in (2, 4):
        shutil.copytree(checkpoint_path(kept, step), checkpoint_path(tmp_path, step))
    file = checkpoint_path(tmp_path, 4) / name
    content = file.read_bytes()
    for place in range(7, 8 * described(file), 8 * described(file) // 11):  # the high bit among them, in any text
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        file.write_bytes(changed)
        found, notes = find_newest(tmp_path)
        assert found.step == 2
        assert [note.partition(": ")[0] for note in notes] == [f"skipped {checkpoint_path(tmp_path, 4)}"]
    file.write_bytes(content)
    assert find_newest(tmp_path).checkpoint.step == 4


def test_the_high_bit_of_a_manifest_is_reported_in_one_line(kept, tmp_path):
    """What is no UTF-8 any more is damage like any other."""
    copy = tmp_path / "step-00000004"
    shutil.copytree(checkpoint_path(kept, 4), copy)
    manifest = copy / "manifest.json"
    content = bytearray(manifest.read_bytes())
    content[content.index(b"model")] ^= 0x80
    manifest.write_bytes(content)
    with pytest.raises(Misfit) as caught:
        load_checkpoint(copy)
    assert str(caught.value) == (
        f"{manifest} must list the folder's files, but it is damaged: 'utf-8' codec can't decode byte 0xed in position"
        f" {content.index(b'odel.') - 1}: invalid continuation byte; take another copy of the folder"
    )
