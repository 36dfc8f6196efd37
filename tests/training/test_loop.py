"""Training: what an update computes, that a stopped run goes on as if it had not been, and what it refuses."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from small_runs import outcome, pairs_file, small_recipe

from transom.names import Misfit
from transom.training.checkpoint_files import checkpoint_path, load_checkpoint
from transom.training.distributed import World
from transom.training.loop import Callback, TrainingLoop
from transom.training.tasks import TASKS
from transom.training.train import train


def quiet(text):
    """Notes that a test does not look at."""


@pytest.fixture
def data(tmp_path):
    return pairs_file(tmp_path)


def training(tmp_path, data, name="run", **sections):
    recipe = small_recipe(tmp_path / name, data, **sections)
    return TrainingLoop(recipe, TASKS[recipe.task](recipe, tmp_path / name, quiet), World())


def parameters(run):
    return {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}


def test_an_update_is_torchs_own_of_the_mean_loss_over_real_targets(tmp_path, data):
    """Against F.cross_entropy over whole logits, torch.optim.Adam and clip_grad_norm_, written out here."""
    # A large ε, because Adam makes a gradient that is rounding alone as large as any other.
    plain, adam = {"dropout": 0.0}, {"kind": "adam", "rate": 0.01, "eps": 0.01}
    run = training(tmp_path, data, model=plain, optimizer=adam, train={"clip": 0.1})
    twin = training(tmp_path, data, "twin", model=plain)
    batch = twin.task.batch(0, 0, slice(None)).tensors
    target = F.pad(batch["next"][:, :-1], (1, 0), value=1)  # the start token, then each token but the last
    logits = twin.model(batch["source"], target, batch["source"] != 0, batch["next"] != 0)
    loss = F.cross_entropy(logits.flatten(0, 1), batch["next"].flatten(), ignore_index=0, label_smoothing=0.1)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(twin.model.parameters(), 0.1)
    torch.optim.Adam(twin.model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=0.01).step()
    result = run.update()
    assert result.loss == pytest.approx(loss.item(), rel=1e-5)
    assert result.norm == pytest.approx(norm.item(), rel=1e-4)
    for name, expected in parameters(twin).items():
        assert torch.allclose(parameters(run)[name], expected, atol=1e-5), name


def test_accumulated_batches_are_one_large_batch(tmp_path, data):
    """Token by token, though the batches hold different numbers of targets."""
    plain = {"model": {"dropout": 0.0}, "optimizer": {"rate": 0.1}}
    run = training(tmp_path, data, train={"accumulate": 5}, **plain)
    batches = [run.task.batch(0, position, slice(None)) for position in range(5)]
    assert len({batch.targets for batch in batches}) > 1
    losses = [run.task.loss(run.model, batch, smoothing=0.1)[0] for batch in batches]
    mean = sum(losses) / sum(batch.targets for batch in batches)
    expected = torch.autograd.grad(mean, list(run.model.parameters()))
    run.gradients(batches, sum(batch.targets for batch in batches))
    for parameter, gradient in zip(run.model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-6)
    assert run.update().loss == pytest.approx(mean.item(), rel=1e-5)


class Stop(Exception):
    pass


class StopAfter(Callback):
    """Ends a run without ceremony after some updates of this start."""

    def __init__(self, updates):
        self.left = updates

    def on_update(self, training, result):
        self.left -= 1
        if self.left == 0:
            raise Stop


def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path, data):
    """Bit for bit: parameters and every logged loss; three stops, one of them past the end of an epoch."""
    whole = small_recipe(tmp_path / "whole", data, train={"average": 2})
    train(whole)
    stopped = small_recipe(tmp_path / "stopped", data, train={"average": 2})
    for updates in (2, 7, 20):
        with pytest.raises(Stop):
            train(stopped, callbacks=[StopAfter(updates)])
    train(stopped)
    assert outcome(stopped) == outcome(whole)
    epochs = {line["epoch"] for line in outcome(whole)[1] if "epoch" in line}
    assert len(epochs) > 1


def test_a_finished_run_is_finished(tmp_path, data):
    recipe = small_recipe(tmp_path / "run", data, train={"updates": 4})
    train(recipe)
    before = outcome(recipe)
    train(recipe)
    assert outcome(recipe) == before


def test_a_run_by_another_recipe_is_not_gone_on_with(tmp_path, data):
    train(small_recipe(tmp_path / "run", data, train={"updates": 3}))
    other = small_recipe(tmp_path / "run", data, train={"updates": 6}, optimizer={"rate": 0.5})
    with pytest.raises(Misfit) as error:
        train(other)
    assert str(error.value) == (
        f"{tmp_path}/run/checkpoints holds a run with another recipe: optimizer.rate was 0.001 and is 0.5 now; change"
        " it back, or choose another folder"
    )


def test_no_gain_ends_a_run(tmp_path, data):
    """With a rate of next to nothing nothing is gained."""
    recipe = small_recipe(tmp_path / "run", data, train={"judge_every": 2, "patience": 2}, optimizer={"rate": 1e-30})
    train(recipe)
    assert max(line["update"] for line in outcome(recipe)[1]) == 6


def test_a_number_that_is_none_stops_before_the_update(tmp_path, data):
    run = training(tmp_path, data)
    run.update()
    with torch.no_grad():
        run.model.decoder.blocks[0].norm_cross.weight[3] = math.inf
    before = parameters(run)
    with pytest.raises(Misfit) as error:
        run.update()
    assert str(error.value).startswith(
        "update 2 (epoch 0, batch 1) has loss nan and a gradient of norm nan, first bad in "
    )
    assert "nothing was updated and the last checkpoint is good" in str(error.value)
    assert run.state.position.updates == 1
    for name, parameter in parameters(run).items():
        assert torch.equal(parameter, before[name])


def test_dropout_follows_the_place_in_the_run_and_nothing_else(tmp_path, data):
    first, second = (training(tmp_path, data, name, model={"dropout": 0.5}) for name in ("one", "two"))
    torch.manual_seed(99)
    mine = first.update()
    torch.rand(17)
    assert second.update().loss == mine.loss


def test_the_log_tells_every_update_once(tmp_path, data):
    recipe = small_recipe(tmp_path / "run", data, train={"updates": 12, "judge_every": 5})
    train(recipe)
    lines = outcome(recipe)[1]
    assert [line["update"] for line in lines if "loss" in line] == list(range(1, 13))
    assert [line["update"] for line in lines if "judged" in line] == [5, 10, 12]
    assert set(lines[0]) == {"update", "epoch", "loss", "rate", "norm"}


def test_a_log_cut_by_a_kill_is_read_up_to_the_cut(tmp_path, data):
    recipe = small_recipe(tmp_path / "run", data, train={"updates": 6})
    train(recipe)
    log = tmp_path / "run" / "log.jsonl"
    log.write_text(log.read_text() + '{"update": 7, "lo')
    train(small_recipe(tmp_path / "run", data, train={"updates": 9}))
    assert [json.loads(line)["update"] for line in log.read_text().splitlines()][-1] == 9


def test_bfloat16_is_used_for_products_and_the_rest_stays_in_float32(tmp_path, data):
    plain = training(tmp_path, data, model={"dropout": 0.0})
    run = training(tmp_path, data, "low", model={"dropout": 0.0}, train={"precision": "bfloat16"})
    seen = []
    run.model.decoder.blocks[0].feed_forward.register_forward_hook(lambda module, given, out: seen.append(out.dtype))
    expected = plain.update().loss
    found = run.update().loss
    assert seen == [torch.bfloat16]
    assert {parameter.dtype for parameter in run.model.parameters()} == {torch.float32}
    assert found != expected
    assert found == pytest.approx(expected, rel=0.02)
    losses = [run.update().loss for _ in range(30)]
    assert sum(losses[-5:]) < sum(losses[:5])


def test_epochs_are_counted_in_batches_of_each(tmp_path, data):
    run = training(tmp_path, data, train={"updates": 0, "epochs": 3, "accumulate": 2})
    batches = sum(run.task.batches(epoch) for epoch in range(3))
    assert run.total_updates == math.ceil(batches / 2)


def test_the_model_is_the_mean_of_the_last_checkpoints_or_the_best_one(tmp_path, data):
    recipe = small_recipe(tmp_path / "mean", data, train={"updates": 8, "average": 3, "checkpoint_every": 2})
    kept = (
        {step: load_checkpoint(checkpoint_path(tmp_path / "mean" / "checkpoints", step)) for step in (4, 6, 8)}
        if train(recipe)
        else {}
    )
    found = load_file(tmp_path / "mean" / "model" / "model.safetensors")
    for name, tensor in found.items():
        mean = sum(kept[step].tensors["model"][name].double() for step in kept) / 3
        assert torch.allclose(tensor.double(), mean, atol=1e-7), name
    recipe = small_recipe(tmp_path / "best", data, train={"updates": 8, "judge_every": 2}, optimizer={"rate": 0.3})
    train(recipe)
    judged = {line["update"]: line["judged"]["loss"] for line in outcome(recipe)[1] if "judged" in line}
    best = min(judged, key=lambda update: judged[update])
    found = load_file(tmp_path / "best" / "model" / "model.safetensors")
    kept = load_checkpoint(checkpoint_path(tmp_path / "best" / "checkpoints", best)).tensors["model"]
    assert all(torch.equal(tensor, kept[name]) for name, tensor in found.items())


def test_what_a_run_may_change_on_its_way(tmp_path, data):
    train(small_recipe(tmp_path / "run", data, train={"updates": 3}))
    free = {
        "updates": 5,
        "threads": 1,
        "wrapping": "fsdp",
        "report_every": 2,
        "judge_every": 2,
        "keep": 5,
        "average": 2,
    }
    train(small_recipe(tmp_path / "run", data, train=free, judge={"examples": 7}))
    assert outcome(small_recipe(tmp_path / "run", data))[1][-1]["update"] == 5


def test_a_second_run_on_the_same_folder_is_refused(tmp_path, data):
    recipe = small_recipe(tmp_path / "run", data, train={"updates": 2})

    class Second(Callback):
        def on_update(self, training, result):
            train(recipe)

    with pytest.raises(Misfit, match=r"checkpoints must belong to one run, but process \d+ is writing to it; wait"):
        train(recipe, callbacks=[Second()])
