"""The last word on a model: on the test part, all of it, and equal to what one computes by hand."""

import pytest
import sacrebleu
import torch
from small_runs import labelled_file, pairs_file, recipe

from transom.names import Misfit
from transom.run.evaluate import evaluate
from transom.run.examples import learned_and_held_out
from transom.run.measures import references
from transom.run.texts import classified, ready, translated
from transom.run.train import train
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
