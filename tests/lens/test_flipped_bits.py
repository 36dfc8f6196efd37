"""Every single bit of a trace and of a replay flipped: it is reported, or the file means the same."""

import pytest
import torch
from torch import nn

import transom
from transom.lens import Recorder


class Attend(nn.Module):
    def forward(self, x):
        return transom.attend(x, x, x, allowed=transom.padding(torch.tensor([True, False])), scale=0.7)


def write_trace(path):
    model = Attend()
    with torch.no_grad(), transom.watch(model, tokens=["a", "é"]) as trace:
        model(torch.tensor([[[[1.0, 0.5], [0.25, -1.0]]]]))
    trace.save(path)


def read_trace(path):
    trace = transom.Trace.load(path)
    (sight,) = trace
    numbers = [x.tolist() for x in (sight.Q, sight.K, sight.V, sight.output, sight.lse, sight.weights())]
    return trace.names, trace.tokens, trace.targets, sight.problem.scale, sight.unproved, numbers


def write_replay(path):
    layer = nn.MultiheadAttention(2, 1, batch_first=True)
    x = torch.tensor([[[1.0, 0.5]]])
    recorder = Recorder(path, lambda one: one(x, x, x), ([["a"]], None))
    recorder.add_loss(1, 0.5)
    recorder.record(layer, 1)


def read_replay(path):
    replay = transom.Replay.load(path)
    frames = [{name: weights.tolist() for name, weights in frame.items()} for frame in replay.frames]
    return replay.tokens, replay.targets, replay.heads, replay.updates, frames, replay.losses.points()


@pytest.mark.slow
@pytest.mark.parametrize(("write", "read"), [(write_trace, read_trace), (write_replay, read_replay)])
def test_a_flipped_bit_is_reported_or_harmless(write, read, tmp_path, own_errors):
    path = tmp_path / "file.safetensors"
    write(path)
    content, expected = path.read_bytes(), read(path)
    reported = harmless = 0
    for place in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            try:
                found = read(path)
            except transom.Misfit:
                reported += 1
                continue
            assert found == expected, (place, bit)
            harmless += 1
    assert reported > 0.8 * 8 * len(content)
    assert reported + harmless == 8 * len(content)


def test_a_flipped_bit_of_a_tensor_is_named(tmp_path, own_errors):
    path = tmp_path / "run.safetensors"
    write_trace(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(transom.Misfit) as caught:
        transom.Trace.load(path)
    assert str(caught.value).startswith(f"{path} is not a valid trace: tensor '")
    assert str(caught.value).endswith(": it was damaged; save it again, or take another copy")


def test_a_file_without_sums_is_read_as_before(tmp_path):
    """Files of version 0.1.0 have none."""
    from safetensors import safe_open
    from safetensors.numpy import save

    path = tmp_path / "run.safetensors"
    write_trace(path)
    expected = read_trace(path)
    with safe_open(path, framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = {name: value for name, value in file.metadata().items() if name != "sha256"}
    path.write_bytes(save(tensors, metadata=text))
    assert read_trace(path) == expected


def test_numbers_that_numpy_has_not_are_refused(tmp_path, own_errors):
    from safetensors import safe_open
    from safetensors.torch import save

    path = tmp_path / "run.safetensors"
    write_trace(path)
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = file.metadata()
    path.write_bytes(save({name: x.bfloat16() if x.is_floating_point() else x for name, x in tensors.items()}, text))
    with pytest.raises(transom.Misfit, match=r"is of torch\.bfloat16, which is never saved"):
        transom.Trace.load(path)
