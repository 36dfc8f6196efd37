"""The last word on a model: on the test part, all of it, and equal to what one computes by hand."""

from dataclasses import asdict

import msgspec
import numpy as np
import pytest
import sacrebleu
import torch
from small_runs import labelled_file, pairs_file, small_recipe
from test_loop import Stop, StopAfter

from transom.names import Misfit
from transom.text.corpora import Labelled, Pair
from transom.training.checkpoint import find_newest, find_unfinished
from transom.training.dataset import train_and_validation
from transom.training.evaluate import evaluate, evaluate_checkpoint
from transom.training.evaluation_metrics import group_references
from transom.training.inference import classify, load_for_task, translate
from transom.training.train import train

pytestmark = pytest.mark.usefixtures("own_errors")


def quiet(text):
    """Notes that a test does not look at."""


def labelled(tmp_path, **changes):
    data = {"format": "labelled", "test": 31, "longest": 64}
    model = {"layers": 1, "d_model": 10, "d_hidden": 13, "heads": 2, "longest": 64}
    recipe = small_recipe(
        tmp_path / "run", labelled_file(tmp_path), task="classify", data=data, train={"updates": 90}, **changes
    )
    return type(recipe)(**{name: getattr(recipe, name) for name in recipe.__struct_fields__} | {"model": model})


def test_translations_are_scored_on_the_test_sentences_by_sacrebleu(tmp_path):
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path, "copy"), data={"test": 23}, train={"updates": 30})
    folder = train(recipe)
    result = evaluate(recipe, folder, 3, quiet)
    pairs = train_and_validation(recipe, Pair, on_test_set=True)[1]
    sources, targets = group_references(pairs)
    assert len(sources) == 23
    assert len({target for one in targets for target in one}) == 23
    model = load_for_task(folder, "encoder_decoder")
    labels = translate(model.model, model.tokenizer, sources, beams=3)
    expected = sacrebleu.corpus_bleu(labels, [[one[0] for one in targets]])
    assert result.metrics["bleu"] == pytest.approx(expected.score)
    assert set(result.metrics) == {"loss", "perplexity", "bleu", "chrf", "loops"}
    assert "case:mixed" in result.signature


def test_a_model_of_small_letters_is_judged_in_small_letters(tmp_path):
    pairs = pairs_file(tmp_path, "copy")
    recipe = small_recipe(tmp_path / "run", pairs, data={"test": 23}, tokens={"lowercase": True}, train={"updates": 5})
    assert "case:lc" in evaluate(recipe, train(recipe), 1, quiet).signature


def test_evaluation_takes_what_learning_left_out_as_too_long(tmp_path):
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path, "copy"), data={"longest": 4}, train={"updates": 2})
    notes = []
    folder = train(recipe)
    evaluate(recipe, folder, 1, notes.append)
    assert notes == []


def test_labels_are_scored_as_the_command_would_give_them(tmp_path):
    recipe = labelled(tmp_path)
    folder = train(recipe)
    metrics = evaluate(recipe, folder, 1, quiet).metrics
    texts = train_and_validation(recipe, Labelled, on_test_set=True)[1]
    model = load_for_task(folder, "encoder")
    labels = classify(model.model, model.tokenizer, [example.text for example in texts])
    right = [label.label == example.label for label, example in zip(labels, texts, strict=True)]
    assert metrics["accuracy"] == pytest.approx(sum(right) / len(right))
    losses = [-torch.tensor(label.chances[example.label]).log() for label, example in zip(labels, texts, strict=True)]
    assert metrics["loss"] == pytest.approx(float(sum(losses)) / len(losses), rel=1e-4)
    assert metrics["accuracy"] > 0.7


def test_a_model_of_another_task_is_told(tmp_path):
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path), train={"updates": 1})
    folder = train(recipe)
    with pytest.raises(Misfit) as error:
        evaluate(labelled(tmp_path), folder, 1, quiet)
    assert str(error.value) == (
        f"{folder} should hold a model to classify with, but it holds one to translate with;"
        " use transom translate, or name another folder"
    )


def test_a_model_without_its_tokenizer_gets_none_made_for_it(tmp_path):
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path), train={"updates": 1})
    folder = train(recipe)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(Misfit) as error:
        evaluate(recipe, folder, 1, quiet)
    assert str(error.value) == (
        f"{folder} should hold a tokenizer.json, but there is none; save the model with its tokenizer"
    )
    assert not (folder / "tokenizer.json").exists()


UNFINISHED = {"updates": 12, "checkpoint_every": 4, "judge_every": 20}


def unfinished(tmp_path, task, name, updates):
    """A recipe of some updates for a task, with a small model."""
    data = {
        "translate": (pairs_file(tmp_path), {"test": 23}),
        "classify": (labelled_file(tmp_path), {"format": "labelled"}),
        "write": (pairs_file(tmp_path, "copy"), {"format": "document", "held_out": 200}),
    }[task]
    length = {**UNFINISHED, "updates": updates, "block": 11, "rows": 3}
    recipe = small_recipe(tmp_path / name, data[0], task=task, data=data[1], train=length)
    layers = {"encoder_layers": 1, "decoder_layers": 1} if task == "translate" else {"layers": 1}
    return msgspec.structs.replace(recipe, model={**layers, "d_model": 10, "d_hidden": 13, "heads": 2})


@pytest.mark.parametrize("task", ["translate", "classify", "write"])
def test_a_checkpoint_is_judged_as_the_model_that_would_be_made_of_it(tmp_path, task):
    """A run with as many updates as the checkpoint has, finished, and judged as its model."""
    recipe, short = (unfinished(tmp_path, task, name, updates) for name, updates in (("run", 12), ("short", 8)))
    with pytest.raises(Stop):
        train(recipe, callbacks=[StopAfter(10)])
    run = find_unfinished(tmp_path / "run" / "model")
    assert run == find_unfinished(tmp_path / "run") == tmp_path / "run"
    checkpoint = find_newest(run / "checkpoints").checkpoint
    assert checkpoint.step == 8
    # The recipe may have been changed since: the model is the one the run began with.
    later = msgspec.structs.replace(recipe, model={"heads": 1})
    judged, expected = evaluate_checkpoint(later, checkpoint, 2, quiet), evaluate(short, train(short), 2, quiet)
    np.testing.assert_equal(asdict(judged), asdict(expected))
    assert find_unfinished(tmp_path / "short" / "model") is None


def test_an_unfinished_run_is_named_where_a_model_is_wanted(tmp_path):
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path), train=UNFINISHED)
    with pytest.raises(Stop):
        train(recipe, callbacks=[StopAfter(9)])
    for folder in (tmp_path / "run", tmp_path / "run" / "model"):
        with pytest.raises(Misfit) as error:
            load_for_task(folder, "encoder_decoder")
        assert str(error.value) == (
            f"{folder} should be the folder of a model, but {tmp_path}/run holds an unfinished run, of 8 updates so"
            " far; finish it with transom train, or evaluate it with transom evaluate"
        )


def test_a_checkpoint_of_another_task_or_with_another_tokenizer_is_not_judged(tmp_path):
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path), train={**UNFINISHED, "updates": 4})
    train(recipe)
    checkpoint = find_newest(tmp_path / "run" / "checkpoints").checkpoint
    tokenizer = tmp_path / "run" / "tokenizer.json"
    with pytest.raises(Misfit) as error:
        evaluate_checkpoint(labelled(tmp_path), checkpoint, 1, quiet)
    assert str(error.value) == (
        f"{tmp_path}/run holds a run of task 'translate', but the recipe has 'classify'; name its own recipe"
    )
    tokenizer.write_text("{}")
    with pytest.raises(Misfit, match=rf"started with another {tokenizer}: its SHA-256 was \w+ and is \w+ now; restore"):
        evaluate_checkpoint(recipe, checkpoint, 1, quiet)
    tokenizer.unlink()
    with pytest.raises(Misfit) as error:
        evaluate_checkpoint(recipe, checkpoint, 1, quiet)
    assert str(error.value) == (
        f"{tmp_path}/run should hold the tokenizer.json of its run, but there is none; restore it"
    )
    assert not tokenizer.exists()
