"""Matrix products in float16: the scale of the loss, what overflows, and a run that goes on with the scale it had."""

import math

import pytest
import torch
from small_runs import outcome, pairs_file, small_recipe
from test_loop import Stop, StopAfter, parameters, training

from transom.names import Misfit
from transom.training.checkpoint_files import checkpoint_path, load_checkpoint
from transom.training.distributed import World
from transom.training.loop import check_processes
from transom.training.precision import LEAST_SCALE, Precision, check_device
from transom.training.train import train

HALF = {"precision": "float16"}


@pytest.fixture
def data(tmp_path):
    return pairs_file(tmp_path)


def test_float16_is_used_for_products_and_the_run_learns(tmp_path, data):
    plain = training(tmp_path, data, model={"dropout": 0.0})
    run = training(tmp_path, data, "low", model={"dropout": 0.0}, train=HALF)
    seen = []
    run.model.decoder.blocks[0].feed_forward.register_forward_hook(lambda module, given, out: seen.append(out.dtype))
    expected, found = plain.update(), run.update()
    assert seen == [torch.float16]
    assert {parameter.dtype for parameter in run.model.parameters()} == {torch.float32}
    assert found.loss == pytest.approx(expected.loss, rel=0.002)
    assert found.norm == pytest.approx(expected.norm, rel=0.01)  # of the gradient itself, not of the scaled one
    for name, parameter in parameters(plain).items():
        assert torch.allclose(parameters(run)[name], parameter, atol=3e-3), name
    losses = [run.update().loss for _ in range(30)]
    assert sum(losses[-5:]) < sum(losses[:5])


def test_an_update_that_overflows_is_done_again_with_half_the_scale(tmp_path, data):
    low, high = (training(tmp_path, data, name, train=HALF) for name in ("low", "high"))
    low.precision.scaler.load_state_dict({**low.precision.scaler.state_dict(), "scale": 2.0**10})
    high.precision.scaler.load_state_dict({**high.precision.scaler.state_dict(), "scale": 2.0**40})
    first, second = low.update(), high.update()
    assert 2.0**10 <= high.precision.scaler.get_scale() < 2.0**40
    assert (first.update, second.update) == (1, 1)
    assert second.loss == first.loss
    assert second.norm == pytest.approx(first.norm, rel=0.01)


def test_what_no_scale_helps_stops_before_the_update(tmp_path, data):
    run = training(tmp_path, data, train=HALF)
    run.update()
    hook = run.model.decoder.blocks[0].norm_cross.weight.register_hook(lambda gradient: gradient * math.inf)
    before = parameters(run)
    with pytest.raises(Misfit) as error:
        run.update()
    hook.remove()
    assert "has loss" in str(error.value)
    assert "nothing was updated and the last checkpoint is good" in str(error.value)
    assert run.precision.scaler.get_scale() == LEAST_SCALE
    for name, parameter in parameters(run).items():
        assert torch.equal(parameter, before[name])


def test_a_stopped_run_goes_on_with_its_scale(tmp_path, data):
    """Bit for bit. The scale rises every third update here, so that a forgotten one would tell."""

    class Often(StopAfter):
        def on_start(self, training):
            training.precision.scaler.set_growth_interval(3)

    whole, stopped = (
        small_recipe(tmp_path / name, data, train={"updates": 14, **HALF}) for name in ("whole", "stopped")
    )
    train(whole, callbacks=[Often(99)])
    for updates in (4, 7):
        with pytest.raises(Stop):
            train(stopped, callbacks=[Often(updates)])
    train(stopped, callbacks=[Often(99)])
    assert outcome(stopped) == outcome(whole)
    ends = [
        load_checkpoint(checkpoint_path(tmp_path / name / "checkpoints", 14)).state["scale"]
        for name in ("whole", "stopped")
    ]
    assert ends[0] == ends[1]
    assert ends[0]["scale"] != 2.0**16


def test_without_float16_there_is_no_scale(tmp_path, data):
    assert training(tmp_path, data).precision.scaler.state_dict() == {}
    assert Precision("bfloat16", torch.device("cpu")).scaler.state_dict() == {}


def test_a_device_that_cannot_is_told_before_the_run():
    with pytest.raises(Misfit) as error:
        check_device("float16", torch.device("meta"))
    assert str(error.value) == (
        "train.precision = 'float16' needs a device that multiplies in float16, but meta does not (User specified an"
        " unsupported autocast device_type 'meta'); use another precision; float32 always works"
    )


def test_float16_does_not_go_with_fsdp(tmp_path, data):
    recipe = small_recipe(tmp_path / "run", data, train={**HALF, "wrapping": "fsdp"})
    check_processes(recipe, World())
    with pytest.raises(Misfit) as error:
        check_processes(recipe, World(rank=0, size=2))
    assert str(error.value) == (
        "train.precision = 'float16' needs one loss scale for all processes, which train.wrapping = 'fsdp' does not"
        " have; use bfloat16, or wrapping = 'ddp'"
    )
