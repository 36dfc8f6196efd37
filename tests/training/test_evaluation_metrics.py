"""Measures: accuracy and F1 against loops, BLEU against sacreBLEU called as its documentation does."""

import random
import sys

import pytest
import sacrebleu
import torch

from transom.names import Misfit
from transom.text.corpora import Pair
from transom.training.evaluation_metrics import accuracy, group_references, macro_f1, mean_loss, score_translations
from transom.training.task import EvaluationResult


def looped_f1(said, right, labels):
    total = 0.0
    for label in range(labels):
        hits = sum(1 for one, other in zip(said, right, strict=True) if one == other == label)
        called, there = said.count(label), right.count(label)
        precision = hits / called if called else 0.0
        recall = hits / there if there else 0.0
        total += 2 * precision * recall / (precision + recall) if hits else 0.0
    return total / labels


@pytest.mark.parametrize("labels", [2, 3, 7])
def test_accuracy_and_macro_f1_are_their_loops(labels):
    draws = random.Random(labels)
    said = [draws.randrange(labels) for _ in range(53)]
    right = [draws.randrange(labels) if draws.random() < 0.5 else one for one in said]
    found = torch.tensor(said), torch.tensor(right)
    assert accuracy(*found) == pytest.approx(sum(map(int.__eq__, said, right)) / 53)
    assert macro_f1(*found, labels) == pytest.approx(looped_f1(said, right, labels))


def test_a_label_that_is_never_met_counts_as_nothing():
    said = right = torch.tensor([0, 1, 1])
    assert macro_f1(said, right, 4) == pytest.approx(0.5)


def test_the_mean_loss_weighs_targets_not_batches():
    sums = [(torch.tensor(6.0), torch.tensor(2)), (torch.tensor(1.0), torch.tensor(5))]
    assert mean_loss(iter(sums)) == pytest.approx(1.0)


SAID = ["the cat sat on the mat today", "a dog barks at the moon", "nothing is as good as this is"]
MANY = [
    ["the cat sat on a mat today", "the cat is on the mat today"],
    ["a dog barked at the moon"],
    ["nothing is as good as that", "there is nothing as good as this is", "nothing is as good as this"],
]


def test_bleu_is_sacrebleus_with_one_reference():
    first = [targets[0] for targets in MANY]
    expected = sacrebleu.corpus_bleu(SAID, [first])
    assert score_translations(SAID, [[one] for one in first]).bleu == expected.score
    assert 0.0 < expected.score < 100.0


def test_bleu_is_sacrebleus_with_several_references():
    """Its own form for references of different number: columns, with None or nothing where there is none."""
    columns = [["the cat sat on a mat today", "a dog barked at the moon", "nothing is as good as that"]]
    columns.append(["the cat is on the mat today", "", "there is nothing as good as this is"])
    columns.append(["", "", "nothing is as good as this"])
    assert score_translations(SAID, MANY).bleu == pytest.approx(sacrebleu.corpus_bleu(SAID, columns).score)
    assert score_translations(SAID, MANY).bleu > score_translations(SAID, [targets[:1] for targets in MANY]).bleu


def test_the_score_of_every_sentence_against_its_own_target_is_100():
    assert score_translations([targets[-1] for targets in MANY], MANY).bleu == pytest.approx(100.0)


def test_bleu_in_small_letters():
    loud = [one.upper() for one in SAID]
    assert score_translations(loud, MANY, lowercase=True).bleu == score_translations(SAID, MANY).bleu
    assert score_translations(loud, MANY).bleu < 1.0


def test_chrf_is_sacrebleus():
    first = [targets[0] for targets in MANY]
    found = score_translations(SAID, [[one] for one in first])
    assert found.chrf == sacrebleu.corpus_chrf(SAID, [first]).score
    assert 0.0 < found.chrf < 100.0


def test_the_signature_tells_the_settings():
    assert "case:mixed" in score_translations(SAID, MANY).signature
    assert "case:lc" in score_translations(SAID, MANY, lowercase=True).signature


def test_references_gather_the_targets_of_one_source():
    pairs = [Pair("a  Cat", "un chat"), Pair("a dog", "un chien"), Pair("A cat", "une chatte")]
    assert group_references(pairs) == (["a  Cat", "a dog"], [["un chat", "une chatte"], ["un chien"]])


def test_without_sacrebleu_the_way_out_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(Misfit) as error:
        score_translations(SAID, MANY)
    assert str(error.value) == "BLEU is computed by sacrebleu, which is not installed; pip install 'transom[eval]'"


def test_better_is_by_the_main_measure_and_its_direction():
    loss, bleu = (
        EvaluationResult({"loss": 2.0, "bleu": 30.0}, "loss", False),
        EvaluationResult({"loss": 2.0, "bleu": 30.0}, "bleu", True),
    )
    assert loss.is_better(None)
    assert (loss.is_better(2.5), loss.is_better(2.0), loss.is_better(1.5)) == (True, False, False)
    assert (bleu.is_better(29.0), bleu.is_better(30.0), bleu.is_better(31.0)) == (True, False, False)
