"""Judging: confusion by a plain loop, class weights beside torch's, paired bootstraps beside a loop and sacreBLEU."""

import json

import numpy as np
import pytest
import sacrebleu
import torch
import torch.nn.functional as F
from small_runs import labelled_file

from transom.cli import main
from transom.equations.losses import weighted_cross_entropy
from transom.names import Misfit
from transom.show.confusion_picture import draw_confusion
from transom.training.confusion import ConfusionMatrix
from transom.training.paired_bootstrap import compare_hits, compare_translations
from transom.training.recipe import parse_recipe
from transom.training.tasks import TASKS
from transom.training.train import train

LABELS = ("a", "b", "c")


def predictions(count=211, seed=1):
    rng = np.random.default_rng(seed)
    right = rng.choice(3, count, p=[0.6, 0.3, 0.1])
    return np.where(rng.random(count) < 0.7, right, rng.integers(0, 2, count)), right


def test_the_matrix_and_the_measures_of_each_label_by_a_plain_loop():
    predicted, right = predictions()
    matrix = ConfusionMatrix.from_predictions(LABELS, predicted, right)
    for row in range(3):
        for column in range(3):
            count = sum(1 for p, r in zip(predicted, right, strict=True) if (r, p) == (row, column))
            assert matrix.counts[row, column] == count
    for number, label in enumerate(LABELS):
        hits = sum(p == r == number for p, r in zip(predicted, right, strict=True))
        found = matrix.by_label()[label]
        precision, recall = hits / max(1, sum(predicted == number)), hits / sum(right == number)
        assert (found["precision"], found["recall"]) == pytest.approx((precision, recall))
        assert found["f1"] == pytest.approx(2 * precision * recall / (precision + recall) if hits else 0.0)
        assert found["count"] == sum(right == number)


def test_the_picture_has_the_shares_of_each_row_and_all_counts():
    matrix = ConfusionMatrix.from_predictions(LABELS, *predictions())
    picture = draw_confusion(LABELS, matrix.counts.tolist())
    assert len(picture.table.rows) == 9
    for right, predicted, count, share in picture.table.rows:
        row, column = LABELS.index(right), LABELS.index(predicted)
        assert count == matrix.counts[row, column]
        assert share == pytest.approx(count / matrix.counts[row].sum())
    assert f"a ({matrix.counts[0].sum()})" in picture.text()
    assert json.loads(picture.json())["view"] == "confusion"
    assert picture.svg().startswith("<svg")


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_weighted_losses_are_torchs(smoothing):
    torch.manual_seed(1)
    logits, targets, weights = torch.randn(17, 3), torch.randint(0, 3, (17,)), torch.tensor([0.5, 2.0, 7.0])
    expected = F.cross_entropy(logits, targets, weights, reduction="sum", label_smoothing=smoothing)
    assert weighted_cross_entropy(logits, targets, weights, smoothing).item() == pytest.approx(
        expected.item(), rel=1e-5
    )


def classifier(tmp_path, name="run", **train_settings):
    table = {
        "task": "classify",
        "folder": str(tmp_path / name),
        "data": {"train": str(labelled_file(tmp_path)), "format": "labelled", "held_out": 40, "longest": 16},
        "tokens": {"kind": "words", "vocabulary": 30},
        "model": {"layers": 1, "d_model": 8, "d_hidden": 12, "heads": 2, "dropout": 0.0},
        "train": {"tokens": 64, "updates": 6, "checkpoint_every": 3, "threads": 1, **train_settings},
    }
    return table


def test_balanced_weights_give_every_label_the_same_weight(tmp_path):
    recipe = parse_recipe(classifier(tmp_path, class_weights="balanced"), "test")
    task = TASKS["classify"](recipe, tmp_path / "run", print)
    counts = np.bincount(task.train_set.labels)
    assert task.class_weights.numpy() * counts == pytest.approx(np.full(2, counts.sum() / 2), rel=1e-6)
    model, batch = task.new_model(), task.train_set.batch(np.arange(9))
    expected = F.cross_entropy(
        task.logits(model, batch), batch.tensors["label"], task.class_weights, reduction="sum", label_smoothing=0.1
    )
    loss, count = task.loss(model, batch, 0.1)
    assert (loss.item(), int(count)) == (pytest.approx(expected.item(), rel=1e-5), 9)
    with pytest.raises(Misfit, match=r"train.class_weights must be one of none, balanced, but got 'even'"):
        parse_recipe(classifier(tmp_path, class_weights="even"), "test")


def test_consistency_is_r_drop(tmp_path):
    """The mean loss of two readings, and the mean of both Kullback-Leibler divergences; no dropout, no difference."""
    recipe = parse_recipe(classifier(tmp_path, consistency=0.7), "test")
    task = TASKS["classify"](recipe, tmp_path / "run", print)
    model, batch = task.new_model().train(), task.train_set.batch(np.arange(9))
    plain = F.cross_entropy(task.logits(model, batch), batch.tensors["label"], reduction="sum", label_smoothing=0.1)
    loss, count = task.loss(model, batch, 0.1)
    assert (loss.item(), int(count)) == (pytest.approx(plain.item(), rel=1e-5), 9)
    table = classifier(tmp_path, consistency=0.7)
    table["model"]["dropout"] = 0.5
    task = TASKS["classify"](parse_recipe(table, "test"), tmp_path / "dropped", print)
    model, labels = task.new_model().train(), batch.tensors["label"]
    torch.manual_seed(3)
    logits = model(torch.cat([batch.tensors["tokens"]] * 2), torch.cat([batch.tensors["tokens"]] * 2) != 0)
    p, q = logits[:9].log_softmax(-1), logits[9:].log_softmax(-1)
    divergence = (
        F.kl_div(p, q, reduction="sum", log_target=True) + F.kl_div(q, p, reduction="sum", log_target=True)
    ) / 2
    assert divergence > 0.1
    torch.manual_seed(3)
    expected = F.cross_entropy(logits, labels.repeat(2), reduction="sum") / 2 + 0.7 * divergence
    assert task.loss(model, batch)[0].item() == pytest.approx(expected.item(), rel=1e-5)
    with pytest.raises(Misfit, match=r"train.consistency is for task = 'classify', but it is 'write'; leave it out"):
        parse_recipe(table | {"task": "write"}, "test")


def bootstrap_by_loop(first, second, samples, seed):
    """The same draws, one by one, in plain Python."""
    rows = np.random.default_rng(seed).integers(0, len(first), (samples, len(first)))
    change = [int(b) - int(a) for a, b in zip(first, second, strict=True)]
    drawn = [sum(change[row] for row in draw) for draw in rows.tolist()]
    mean, seen = sum(drawn) / samples, sum(change)
    as_large = sum(1 for one in drawn if abs(one - mean) >= abs(seen))
    ordered = sorted(one / len(first) for one in drawn)
    return (as_large + 1) / (samples + 1), ordered


@pytest.mark.parametrize("gain", [0.0, 0.02, 0.3])
def test_a_comparison_of_hits_is_that_of_a_plain_loop(gain):
    rng = np.random.default_rng(5)
    first = rng.random(97) < 0.6
    second = first | (rng.random(97) < gain)
    found = compare_hits(first, second, samples=200, seed=7)
    p, ordered = bootstrap_by_loop(first, second, 200, 7)
    assert found.p == pytest.approx(p)
    assert found.first == pytest.approx(first.mean())
    assert found.second == pytest.approx(second.mean())
    assert found.low == pytest.approx(np.quantile(ordered, 0.025))
    assert found.high == pytest.approx(np.quantile(ordered, 0.975))
    assert found.p < 0.05 or gain < 0.3
    assert found.p == 1.0 or gain


def test_the_same_model_is_no_better_than_itself():
    hits = np.random.default_rng(1).random(50) < 0.5
    assert compare_hits(hits, hits).p == 1.0
    with pytest.raises(Misfit, match="both models need the same examples, but there are 50 and 49"):
        compare_hits(hits, hits[1:])


def test_translations_are_compared_by_sacrebleu():
    targets = [[f"the cat number {n} sat on the old mat", f"cat {n} sat there"] for n in range(30)]
    first = [f"the cat number {n} sat on a mat" for n in range(30)]
    second = [f"the cat number {n} sat on the old mat" if n % 2 else "no" for n in range(30)]
    bleu, chrf = compare_translations(first, second, targets, lowercase=False, samples=100)
    columns = list(map(list, zip(*targets, strict=True)))
    assert bleu.first == pytest.approx(sacrebleu.corpus_bleu(first, columns).score)
    assert bleu.second == pytest.approx(sacrebleu.corpus_bleu(second, columns).score)
    assert chrf.first == pytest.approx(sacrebleu.corpus_chrf(first, columns).score)
    assert 0 < bleu.p <= 1
    assert "BLEU" not in bleu.metric
    assert "bleu: " in bleu.summary()


def test_evaluate_takes_a_checkpoint_another_model_and_draws_the_matrix(tmp_path, capsys):
    lines = []
    for name, updates in (("run", 6), ("other", 3)):
        train(parse_recipe(classifier(tmp_path, name, updates=updates), "test"))
    table = classifier(tmp_path)
    for section in ("data", "tokens", "model", "train"):
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in table[section].items()]
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'task = "classify"\nfolder = "{tmp_path}/run"\n' + "\n".join(lines) + "\n")
    picture = tmp_path / "confusion.svg"
    arguments = ["evaluate", str(recipe), "--beside", str(tmp_path / "other/model"), "--confusion", str(picture)]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["labels"]) == {"few", "many"}
    assert np.sum(found["confusion"]["counts"]) == 40
    assert found["compared"][0]["metric"] == "accuracy"
    assert found["compared"][0]["first"] == pytest.approx(found["accuracy"])
    assert "<svg" in picture.read_text()
    assert main(["evaluate", str(recipe), "--model", str(tmp_path / "run/checkpoints/step-00000003"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["update"] == 3
    assert main(["evaluate", str(recipe)]) == 0
    printed = capsys.readouterr().out
    assert "precision  recall" in printed
    assert "Which labels are confused" in printed
