"""`transom train --record`: a replay beside the model, and a run that is the same with it and without."""

from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
import torch
from small_runs import labelled_file, outcome, pairs_file, recipe

from transom.cli import train as command
from transom.cli.recording import REPLAY, recording
from transom.lens import Replay
from transom.names import Misfit
from transom.run.train import train
from transom.run.training import Callback

ASKED = {"train": {"updates": 10, "judge_every": 100, "checkpoint_every": 3}, "model": {"dropout": 0.1}}


class Stop(Callback):
    """Ends a run the hard way."""

    def updated(self, training, step):
        if step.update == 8:
            raise KeyboardInterrupt


def recorded(folder, data, *more, every=2):
    asked = recipe(folder, data, **ASKED)
    train(asked, callbacks=[recording(folder, "a b c", "c b a", every), *more])
    return asked


@pytest.mark.slow
def test_a_recorded_run_is_the_same_run_and_goes_on_with_its_replay(tmp_path):
    data = pairs_file(tmp_path)
    plain = recipe(tmp_path / "plain", data, **ASKED)
    train(plain)
    whole = recorded(tmp_path / "whole", data)
    with pytest.raises(KeyboardInterrupt):
        recorded(tmp_path / "stopped", data, Stop())
    stopped = recorded(tmp_path / "stopped", data)
    assert outcome(plain)[0] == outcome(whole)[0] == outcome(stopped)[0]
    one, other = (Replay.load(Path(asked.folder) / REPLAY) for asked in (whole, stopped))
    assert one.updates == other.updates == [0, 2, 4, 6, 8, 10]
    assert one.names == ["encoder.blocks.0.attention", "decoder.blocks.0.attention", "decoder.blocks.0.cross"]
    assert one.tokens is not None
    assert one.tokens[0][:3] == ["a", "b", "c"]
    for name in one.names:
        assert torch.equal(one.weights(name, 1), other.weights(name, 1))
    assert one.losses.points() == other.losses.points()
    moved = one.weights("decoder.blocks.0.cross", 0)
    assert not torch.equal(moved[0], moved[-1]), "it learned"


def test_a_model_of_one_side_reads_the_sentence_alone(tmp_path, own_errors):
    model = {"layers": 1, "d_model": 10, "d_hidden": 13, "heads": 2, "longest": 64}
    given = {"task": "classify", "data": {"format": "labelled", "longest": 64}, "train": {"updates": 2}}
    asked = msgspec.structs.replace(recipe(tmp_path / "run", labelled_file(tmp_path), **given), model=model)
    train(asked, callbacks=[recording(tmp_path / "run", "a b a", None, None)])
    replay = Replay.load(tmp_path / "run" / REPLAY)
    assert replay.updates == [0, 1, 2]
    assert replay.tokens == [["a", "b", "a"]]
    assert replay.targets is None
    with pytest.raises(Misfit) as caught:
        train(asked, callbacks=[recording(tmp_path / "run", "a b", "b", None)])
    assert str(caught.value) == (
        "only an encoder–decoder reads a target, but this is one encoder alone; leave --record-target out"
    )


def test_what_does_not_fit_is_told(tmp_path, own_errors):
    data = pairs_file(tmp_path)
    asked = recipe(tmp_path / "run", data, **{**ASKED, "model": {"longest": 31}})
    start = "an encoder–decoder reads a target too, but only a source came"
    for text, target, message in (
        ("a b", None, f"{start}; give --record-target what it should write"),
        ("", "a", "the sentence to record is empty, but there must be something to read; give --record a word or more"),
        ("a " * 36, "a", "the sentence to record has 37 tokens, but the model takes 31; give a shorter one"),
    ):
        with pytest.raises(Misfit) as caught:
            train(asked, callbacks=[recording(tmp_path, text, target, 1)])
        assert str(caught.value) == message
    with pytest.raises(Misfit) as caught:
        command.recorded(tmp_path, None, None, 7)
    assert str(caught.value) == "there is nothing to record without a sentence; give --record TEXT"
    assert command.recorded(tmp_path, None, None, None) == []


def test_a_frame_that_cannot_be_proved_is_left_out_and_told(tmp_path, monkeypatch):
    from transom.lens import Trace
    from transom.lens.trace import Disproved

    class Notes(Callback):
        told: ClassVar[list] = []

        def noted(self, text):
            self.told.append(text)

    def proven(trace, real=Trace.proven):
        if len(frames := Replay.load(file).frames if file.exists() else []) == 1:
            raise Disproved("the weights are off")
        return real(trace) if not frames else trace

    file = tmp_path / "run" / REPLAY
    monkeypatch.setattr(Trace, "proven", proven)
    asked = recipe(tmp_path / "run", pairs_file(tmp_path), train={"updates": 2, "judge_every": 100})
    train(asked, callbacks=[recording(tmp_path / "run", "a b", "b a", 1), Notes()])
    assert Replay.load(file).updates == [0]
    assert [text for text in Notes.told if "replay" in text] == [
        "no frame of update 1 is in the replay: the weights are off",
        "no frame of update 2 is in the replay: the weights are off",
    ]
