"""`transom train --record`: a replay beside the model, and a run that is the same with it and without."""

from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
import torch
from small_runs import labelled_file, outcome, pairs_file, small_recipe

from transom.cli.train import REPLAY, replay_callbacks
from transom.lens import Replay
from transom.names import Misfit
from transom.training.loop import Callback
from transom.training.train import train

SETTINGS = {"train": {"updates": 10, "judge_every": 100, "checkpoint_every": 3}, "model": {"dropout": 0.1}}


class StopRun(Callback):
    """Interrupts a run at update 8."""

    def on_update(self, training, result):
        if result.update == 8:
            raise KeyboardInterrupt


def train_and_record(folder, data, *callbacks, every=2):
    settings = small_recipe(folder, data, **SETTINGS)
    train(settings, callbacks=[*replay_callbacks(folder, "a b c", "c b a", every), *callbacks])
    return settings


@pytest.mark.slow
def test_recording_changes_nothing_and_a_resumed_run_continues_its_replay(tmp_path):
    data = pairs_file(tmp_path)
    plain = small_recipe(tmp_path / "plain", data, **SETTINGS)
    train(plain)
    whole = train_and_record(tmp_path / "whole", data)
    with pytest.raises(KeyboardInterrupt):
        train_and_record(tmp_path / "stopped", data, StopRun())
    stopped = train_and_record(tmp_path / "stopped", data)
    assert outcome(plain)[0] == outcome(whole)[0] == outcome(stopped)[0]
    first, second = (Replay.load(Path(settings.folder) / REPLAY) for settings in (whole, stopped))
    assert first.updates == second.updates == [0, 2, 4, 6, 8, 10]
    assert first.names == ["encoder.blocks.0.attention", "decoder.blocks.0.attention", "decoder.blocks.0.cross"]
    assert first.tokens is not None
    assert first.tokens[0][:3] == ["a", "b", "c"]
    for name in first.names:
        assert torch.equal(first.weights(name, 1), second.weights(name, 1))
    assert first.losses.points() == second.losses.points()
    moved = first.weights("decoder.blocks.0.cross", 0)
    assert not torch.equal(moved[0], moved[-1]), "it learned"


def test_a_model_of_one_side_reads_the_sentence_alone(tmp_path, own_errors):
    model = {"layers": 1, "d_model": 10, "d_hidden": 13, "heads": 2, "longest": 64}
    changes = {"task": "classify", "data": {"format": "labelled", "longest": 64}, "train": {"updates": 2}}
    settings = msgspec.structs.replace(small_recipe(tmp_path / "run", labelled_file(tmp_path), **changes), model=model)
    train(settings, callbacks=[*replay_callbacks(tmp_path / "run", "a b a", None, None)])
    replay = Replay.load(tmp_path / "run" / REPLAY)
    assert replay.updates == [0, 1, 2]
    assert replay.tokens == [["a", "b", "a"]]
    assert replay.targets is None
    with pytest.raises(Misfit) as caught:
        train(settings, callbacks=[*replay_callbacks(tmp_path / "run", "a b", "b", None)])
    assert str(caught.value) == (
        "only an encoder–decoder reads a target, but this model is an encoder; leave --record-target out"
    )


def test_what_does_not_fit_is_an_error(tmp_path, own_errors):
    data = pairs_file(tmp_path)
    settings = small_recipe(tmp_path / "run", data, **{**SETTINGS, "model": {"longest": 31}})
    for text, target, message in (
        ("a b", None, "an encoder–decoder reads a target too, but got only a source; give --record-target"),
        ("", "a", "the sentence to record is empty, but there must be something to read; give --record a word or more"),
        ("a " * 36, "a", "the sentence to record has 37 tokens, but the model takes 31; give a shorter one"),
    ):
        with pytest.raises(Misfit) as caught:
            train(settings, callbacks=[*replay_callbacks(tmp_path, text, target, 1)])
        assert str(caught.value) == message
    with pytest.raises(Misfit) as caught:
        replay_callbacks(tmp_path, None, None, 7)
    assert str(caught.value) == "there is nothing to record without a sentence; give --record TEXT"
    assert replay_callbacks(tmp_path, None, None, None) == []


def test_a_frame_whose_receipt_fails_is_left_out_with_a_note(tmp_path, monkeypatch):
    from transom.lens import Trace
    from transom.lens.trace import ReceiptFailed

    class Notes(Callback):
        texts: ClassVar[list] = []

        def on_note(self, text):
            self.texts.append(text)

    def proven(trace, real=Trace.proven):
        if len(frames := Replay.load(file).frames if file.exists() else []) == 1:
            raise ReceiptFailed("the weights are off")
        return real(trace) if not frames else trace

    file = tmp_path / "run" / REPLAY
    monkeypatch.setattr(Trace, "proven", proven)
    settings = small_recipe(tmp_path / "run", pairs_file(tmp_path), train={"updates": 2, "judge_every": 100})
    train(settings, callbacks=[*replay_callbacks(tmp_path / "run", "a b", "b a", 1), Notes()])
    assert Replay.load(file).updates == [0]
    assert [text for text in Notes.texts if "replay" in text] == [
        "the replay has no frame of update 1: the weights are off",
        "the replay has no frame of update 2: the weights are off",
    ]
