"""Models learn: copy, reverse and sort, greedy decoding is right on every held-out sequence."""

import pytest
from small_runs import pairs_file, small_recipe

from transom.training.distributed import World
from transom.training.inference import translate
from transom.training.loop import TrainingLoop
from transom.training.tasks import TASKS

pytestmark = pytest.mark.usefixtures("own_errors")
SIZES = {"d_model": 32, "d_hidden": 64, "heads": 4, "dropout": 0.0, "longest": 16}


@pytest.mark.slow
@pytest.mark.parametrize(("order", "updates"), [("copy", 300), ("reverse", 600), ("sort", 600)])
def test_a_small_model_learns_to(tmp_path, order, updates):
    recipe = small_recipe(
        tmp_path / "run",
        pairs_file(tmp_path, order, count=2000, longest=5),
        data={"held_out": 60},
        model={**SIZES, "positions": "learned", "arrangement": "pre_norm"},
        optimizer={"kind": "adam", "rate": 1e-2},
        schedule={"kind": "linear", "warmup": 20},
        train={"tokens": 384, "updates": updates, "smoothing": 0.0},
    )
    task = TASKS["translate"](recipe, tmp_path / "run", print)
    training = TrainingLoop(recipe, task, World())
    while not training.is_finished:
        training.update()
    unseen = task.held_out.pairs
    assert not {pair.source for pair in unseen} & {pair.source for pair in task.train_set.pairs}
    translations = translate(training.model, task.tokenizer, [pair.source for pair in unseen])
    assert translations == [pair.target for pair in unseen]
