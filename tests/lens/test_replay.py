"""A replay keeps what the heads did, no more than it may, and reads no file it cannot believe."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save
from watched import Plain, Stack

import transom
from transom.lens import Recorder, Replay, replay
from transom.lens.replay import REPLAY, LossCurve

torch.manual_seed(61)
X = torch.randn(1, 5, 14)
WORDS = ([["a", "b", "c", "d", "e"]], None)


def recorded(path, updates=(0, 3, 5), **named):
    """A replay of two layers whose parameters change on the way, and what was seen at each update."""
    model = Stack(Plain(is_causal=True), torch.nn.Dropout(0.5), Plain())
    recorder, seen = Recorder(path, lambda one: one(X), WORDS, **named), []
    for update in range(max(updates) + 1):
        if update:
            recorder.add_loss(update, 1.0 / update)
        if update in updates:
            recorder.record(model, update)
            with torch.no_grad(), transom.watch(model.eval()) as trace:
                model(X)
            seen.append(trace)
            model.train()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.3)
    return recorder, seen


def test_every_frame_is_what_was_seen_then(tmp_path):
    recorder, seen = recorded(tmp_path / "replay.safetensors")
    again = Replay.load(tmp_path / "replay.safetensors")
    assert again.updates == [0, 3, 5]
    assert again.names == ["layers.0", "layers.2"]
    assert again.heads == {"layers.0": [0, 1], "layers.2": [0, 1]}
    for number, trace in enumerate(seen):
        for name in again.names:
            expected = trace[name].weights(batch=0)
            assert torch.equal(again.weights(name, 1)[number], expected[1])
            frame = again.at(number)
            assert torch.allclose(frame[name].weights(batch=0), expected, atol=1e-6)
            assert str(frame[name].receipt()) == "not checkable: only the weights were recorded"
            assert frame.tokens == WORDS[0]
    assert again.losses.points() == ([1, 2, 3, 4, 5], pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]))
    assert repr(recorder.replay) == repr(again) == "Replay(3 frames of 4 heads)"


def test_the_model_is_left_as_it_was(tmp_path):
    model = Stack(Plain(), torch.nn.Dropout(0.5))
    state = torch.get_rng_state()
    Recorder(tmp_path / "replay.safetensors", lambda one: one(X), WORDS).record(model, 0)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)


def test_only_the_layers_and_heads_that_are_chosen(tmp_path, own_errors):
    recorder, seen = recorded(tmp_path / "replay.safetensors", layers="layers.2", heads=[1])
    assert recorder.replay.heads == {"layers.2": [1]}
    assert torch.equal(recorder.replay.weights("layers.2", 1)[2], seen[2]["layers.2"].weights(batch=0, head=1))
    with pytest.raises(transom.Misfit) as caught:
        recorder.replay.weights("layers.2", 0)
    assert str(caught.value) == ("of 'layers.2' the heads 1 were recorded, but 0 was asked for; take one of them")
    with pytest.raises(transom.Misfit) as caught:
        recorder.replay.weights("layers.0", 0)
    assert str(caught.value) == "'layers.0' was not recorded; nearest are 'layers.2'"


def test_it_never_grows_beyond_its_bounds(tmp_path, monkeypatch, own_errors):
    monkeypatch.setattr(replay, "MOST_FRAMES", 4)
    monkeypatch.setattr(replay, "MOST_POINTS", 4)
    recorder, _ = recorded(tmp_path / "replay.safetensors", updates=range(7))
    assert recorder.replay.updates == [0, 4, 6], "every other one is left out, twice"
    losses = recorder.replay.losses
    assert losses.width == 2
    assert losses.points()[0] == [2, 4, 6]
    assert losses.points()[1] == pytest.approx([(1 + 1 / 2) / 2, (1 / 3 + 1 / 4) / 2, (1 / 5 + 1 / 6) / 2])
    monkeypatch.setattr(replay, "MOST_NUMBERS", 99)
    with pytest.raises(transom.Misfit) as caught:
        recorded(tmp_path / "replay.safetensors")
    assert str(caught.value) == (
        "a frame of this replay would hold 100 weights, but 99 are the most; record a shorter sentence, or fewer layers"
    )


def test_a_point_that_is_not_yet_full_is_told():
    losses = LossCurve(width=3)
    for update, loss in ((1, 2.0), (2, 4.0), (3, 6.0), (4, 1.0)):
        losses.add(update, loss)
    assert losses.points() == ([3, 4], [4.0, 1.0])
    losses.crop(3)
    assert losses.points() == ([3], [4.0])


def test_a_run_that_goes_on_forgets_what_it_will_make_again(tmp_path, own_errors):
    path = tmp_path / "replay.safetensors"
    recorded(path)
    recorder = Recorder(path, lambda one: one(X), WORDS)
    recorder.resume(4)
    assert recorder.replay.updates == [0, 3]
    assert recorder.replay.losses.points()[0] == [1, 2, 3, 4]
    other = Recorder(path, lambda one: one(X), ([["other"]], None))
    with pytest.raises(transom.Misfit) as caught:
        other.resume(4)
    assert str(caught.value) == (
        f"{path} holds a replay of another sentence, from an earlier start of this run; record the same sentence, or"
        " move that file away"
    )
    other.resume(0)
    assert other.replay.frames == []


def remade(path, change):
    recorded(path)
    with safe_open(path, framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said = json.loads(file.metadata()["replay"])
    change(said, tensors)
    path.write_bytes(save(tensors, metadata={"format": REPLAY.name, "replay": json.dumps(said)}))


HOSTILE = {
    "order": (lambda said, tensors: said.update(updates=[3, 0, 5]), "its updates are not in order"),
    "frames": (
        lambda said, tensors: said.update(updates=[3, 5]),
        "'layers.0' should hold 2 frames of 2 heads, but it holds (3, 2, 5, 5)",
    ),
    "names": (
        lambda said, tensors: said["heads"].update(more=[0]),
        "it names a tensor 'weights of more' that it does not hold",
    ),
    "width": (
        lambda said, tensors: said.update(width=0),
        "a point of its loss curve is the mean of 0 updates, but 1 is the least",
    ),
    "fields": (lambda said, tensors: said.update(run="rm"), "Object contains unknown field `run`"),
    "losses": (
        lambda said, tensors: tensors.update({"losses": tensors["losses"][:2]}),
        "it has 2 losses for 5 updates",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_does_not_fit_is_told(tmp_path, kind, own_errors):
    change, message = HOSTILE[kind]
    path = tmp_path / "replay.safetensors"
    remade(path, change)
    with pytest.raises(transom.Misfit) as caught:
        Replay.load(path)
    assert str(caught.value) == f"{path} is not a valid replay: {message}; record it again"


def test_a_file_that_is_none(tmp_path, own_errors):
    path = tmp_path / "replay.safetensors"
    with pytest.raises(transom.Misfit) as caught:
        Replay.load(path)
    assert str(caught.value) == f"{path} cannot be read: No such file or directory; is it the right path?"
    recorded(path)
    whole = path.read_bytes()
    for length in (0, 7, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(transom.Misfit, match="is not a valid replay"):
            Replay.load(path)
