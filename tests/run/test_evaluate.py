"""The last word on a model: on the test part, all of it, and equal to what one computes by hand."""

import msgspec
import pytest
import sacrebleu
import torch
from small_runs import labelled_file, pairs_file, recipe
from test_training import Stop, StopAfter

from transom.names import Misfit
from transom.run.checkpoint import find_newest
from transom.run.evaluate import evaluate, evaluate_checkpoint
from transom.run.examples import learned_and_held_out
from transom.run.measures import references
from transom.run.texts import classified, ready, translated
from transom.run.train import train
from transom.run.unfinished import find_unfinished
from transom.text.examples import Labelled, Pair

pytestmark = pytest.mark.usefixtures("own_errors")


def quiet(text):
    """Notes that a test does not look at."""


def labelled(tmp_path, **changes):
    data = {"format": "labelled", "test": 31, "longest": 64}
    model = {"layers": 1, "d_model": 10, "d_hidden": 13, "heads": 2, "longest": 64}
    asked = recipe(
        tmp_path / "run", labelled_file(tmp_path), task="classify", data=data, train={"updates": 90}, **changes
    )
    return type(asked)(**{name: getattr(asked, name) for name in asked.__struct_fields__} | {"model": model})


def test_translations_are_scored_on_the_test_sentences_by_sacrebleu(tmp_path):
    asked = recipe(tmp_path / "run", pairs_file(tmp_path, "copy"), data={"test": 23}, train={"updates": 30})
    folder = train(asked)
    found = evaluate(asked, folder, 3, quiet)
    pairs = learned_and_held_out(asked, Pair, tested=True)[1]
    sources, targets = references(pairs)
    assert len(sources) == 23
    assert len({target for one in targets for target in one}) == 23
    model = ready(folder, "encoder_decoder")
    said = translated(model.model, model.tokenizer, sources, beams=3)
    expected = sacrebleu.corpus_bleu(said, [[one[0] for one in targets]])
    assert found.numbers["bleu"] == pytest.approx(expected.score)
    assert set(found.numbers) == {"loss", "perplexity", "bleu", "chrf"}
    assert "case:mixed" in found.how


def test_a_model_of_small_letters_is_judged_in_small_letters(tmp_path):
    pairs = pairs_file(tmp_path, "copy")
    asked = recipe(tmp_path / "run", pairs, data={"test": 23}, tokens={"lowercase": True}, train={"updates": 5})
    assert "case:lc" in evaluate(asked, train(asked), 1, quiet).how


def test_evaluation_takes_what_learning_left_out_as_too_long(tmp_path):
    asked = recipe(tmp_path / "run", pairs_file(tmp_path, "copy"), data={"longest": 4}, train={"updates": 2})
    notes = []
    folder = train(asked)
    evaluate(asked, folder, 1, notes.append)
    assert notes == []


def test_labels_are_scored_as_the_command_would_give_them(tmp_path):
    asked = labelled(tmp_path)
    folder = train(asked)
    found = evaluate(asked, folder, 1, quiet).numbers
    texts = learned_and_held_out(asked, Labelled, tested=True)[1]
    model = ready(folder, "encoder")
    said = classified(model.model, model.tokenizer, [example.text for example in texts])
    right = [label.label == example.label for label, example in zip(said, texts, strict=True)]
    assert found["accuracy"] == pytest.approx(sum(right) / len(right))
    losses = [-torch.tensor(label.chances[one.label]).log() for label, one in zip(said, texts, strict=True)]
    assert found["loss"] == pytest.approx(float(sum(losses)) / len(losses), rel=1e-4)
    assert found["accuracy"] > 0.7


def test_a_model_of_another_task_is_told(tmp_path):
    asked = recipe(tmp_path / "run", pairs_file(tmp_path), train={"updates": 1})
    folder = train(asked)
    with pytest.raises(Misfit) as error:
        evaluate(labelled(tmp_path), folder, 1, quiet)
    assert str(error.value) == (
        f"{folder} should hold a model to classify with, but it holds one to translate with;"
        " use transom translate, or name another folder"
    )


def test_a_model_without_its_tokenizer_gets_none_made_for_it(tmp_path):
    asked = recipe(tmp_path / "run", pairs_file(tmp_path), train={"updates": 1})
    folder = train(asked)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(Misfit) as error:
        evaluate(asked, folder, 1, quiet)
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
    asked = recipe(tmp_path / name, data[0], task=task, data=data[1], train=length)
    layers = {"encoder_layers": 1, "decoder_layers": 1} if task == "translate" else {"layers": 1}
    return msgspec.structs.replace(asked, model={**layers, "d_model": 10, "d_hidden": 13, "heads": 2})


@pytest.mark.parametrize("task", ["translate", "classify", "write"])
def test_a_checkpoint_is_judged_as_the_model_that_would_be_made_of_it(tmp_path, task):
    """A run with as many updates as the checkpoint has, finished, and judged as its model."""
    asked, short = (unfinished(tmp_path, task, name, updates) for name, updates in (("run", 12), ("short", 8)))
    with pytest.raises(Stop):
        train(asked, callbacks=[StopAfter(10)])
    run = find_unfinished(tmp_path / "run" / "model")
    assert run == find_unfinished(tmp_path / "run") == tmp_path / "run"
    found = find_newest(run / "checkpoints").checkpoint
    assert found.step == 8
    # The recipe may have been changed since: the model is the one the run began with.
    later = msgspec.structs.replace(asked, model={"heads": 1})
    assert evaluate_checkpoint(later, found, 2, quiet) == evaluate(short, train(short), 2, quiet)
    assert find_unfinished(tmp_path / "short" / "model") is None


def test_an_unfinished_run_is_named_where_a_model_is_wanted(tmp_path):
    asked = recipe(tmp_path / "run", pairs_file(tmp_path), train=UNFINISHED)
    with pytest.raises(Stop):
        train(asked, callbacks=[StopAfter(9)])
    for folder in (tmp_path / "run", tmp_path / "run" / "model"):
        with pytest.raises(Misfit) as error:
            ready(folder, "encoder_decoder")
        assert str(error.value) == (
            f"{folder} should be the folder of a model, but {tmp_path}/run holds an unfinished run, of 8 updates so"
            " far; finish it with transom train, or judge it with transom evaluate"
        )


def test_a_checkpoint_of_another_task_or_with_another_tokenizer_is_not_judged(tmp_path):
    asked = recipe(tmp_path / "run", pairs_file(tmp_path), train={**UNFINISHED, "updates": 4})
    train(asked)
    found = find_newest(tmp_path / "run" / "checkpoints").checkpoint
    tokenizer = tmp_path / "run" / "tokenizer.json"
    with pytest.raises(Misfit) as error:
        evaluate_checkpoint(labelled(tmp_path), found, 1, quiet)
    assert str(error.value) == (
        f"{tmp_path}/run holds a run of task 'translate', but the recipe has 'classify'; name its own recipe"
    )
    tokenizer.write_text("{}")
    with pytest.raises(Misfit, match=rf"began with another {tokenizer}: its SHA-256 was \w+ and is \w+ now; restore"):
        evaluate_checkpoint(asked, found, 1, quiet)
    tokenizer.unlink()
    with pytest.raises(Misfit) as error:
        evaluate_checkpoint(asked, found, 1, quiet)
    assert str(error.value) == (
        f"{tmp_path}/run should hold the tokenizer.json of its run, but there is none; restore it"
    )
    assert not tokenizer.exists()
