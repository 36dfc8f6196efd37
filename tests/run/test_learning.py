"""Models learn: copy, reverse and sort, written out greedily on sequences that were never seen, all of them right."""

import pytest
from small_runs import pairs_file, recipe

from transom.run.parallel import World
from transom.run.tasks import TASKS
from transom.run.texts import translated
from transom.run.training import Training

pytestmark = pytest.mark.usefixtures("own_errors")
SIZES = {"d_model": 32, "d_hidden": 64, "heads": 4, "dropout": 0.0, "longest": 16}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["copy", "reverse", "sort"])
def test_a_small_model_learns_to(tmp_path, how):
    asked = recipe(
        tmp_path / "run",
        pairs_file(tmp_path, how, count=2000, longest=5),
        data={"held_out": 60},
        model={**SIZES, "positions": "learned", "arrangement": "pre_norm"},
        optimizer={"kind": "adam", "rate": 1e-2},
        schedule={"kind": "linear", "warmup": 20},
        train={"tokens": 384, "updates": 600, "smoothing": 0.0},
    )
    task = TASKS["translate"](asked, tmp_path / "run", print)
    training = Training(asked, task, World())
    while not training.finished:
        training.update()
    unseen = task.held_out.pairs
    assert not {pair.source for pair in unseen} & {pair.source for pair in task.learned.pairs}
    said = translated(training.model, task.tokenizer, [pair.source for pair in unseen])
    assert said == [pair.target for pair in unseen]
