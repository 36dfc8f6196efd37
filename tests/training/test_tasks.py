"""Each task: batches number by number, the share of each process, and what it refuses."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_runs import labelled_file, pairs_file, small_recipe

from transom.names import Misfit
from transom.text.corpora import Labelled, Pair
from transom.training.dataset import train_and_validation
from transom.training.recipe import parse_recipe
from transom.training.tasks import TASKS
from transom.training.tasks.translation import shift_right

PAIRS = "a b\tc\nc\td e f\nd e f a\tb b\n"
ALL_ROWS = slice(None)


def build_task(tmp_path, notes=None, **table):
    """A task from a table, with its notes in `notes`."""
    settings = {"folder": str(tmp_path / "run"), "train": {"updates": 1}, **table}
    recipe = parse_recipe(settings, "the test")
    return TASKS[recipe.task](recipe, tmp_path / "run", (notes if notes is not None else []).append)


def translate(tmp_path, notes=None, content=PAIRS, **data):
    (tmp_path / "train.tsv").write_text(content)
    (tmp_path / "valid.tsv").write_text("a c\tb\n")
    files = {"train": str(tmp_path / "train.tsv"), "valid": str(tmp_path / "valid.tsv"), "format": "tsv", **data}
    model = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 6, "d_hidden": 7, "heads": 2, "dropout": 0.0}
    return build_task(tmp_path, notes, task="translate", data=files, tokens={"kind": "words"}, model=model)


def write(tmp_path, text, **changes):
    (tmp_path / "text.txt").write_text(text)
    data = {"train": str(tmp_path / "text.txt"), "format": "document", "held_out": 7, **changes.pop("data", {})}
    train = {"updates": 1, "block": 5, "rows": 3, **changes}
    model = {"layers": 1, "d_model": 6, "d_hidden": 7, "heads": 2, "dropout": 0.0}
    return build_task(tmp_path, task="write", data=data, tokens={"kind": "characters"}, model=model, train=train)


LABELLED = "good a b c\nbad d e\ngood f\nugly a\n"


def classify(tmp_path, notes=None, content=LABELLED, held_out="bad a b\nugly c\n", **data):
    (tmp_path / "train.txt").write_text(content)
    (tmp_path / "valid.txt").write_text(held_out)
    files = {"train": str(tmp_path / "train.txt"), "valid": str(tmp_path / "valid.txt"), "format": "labelled", **data}
    model = {"layers": 1, "d_model": 6, "d_hidden": 7, "heads": 2, "dropout": 0.0}
    return build_task(tmp_path, notes, task="classify", data=files, tokens={"kind": "words"}, model=model)


def test_a_translation_batch_is_source_and_end_then_start_and_target_then_next(tmp_path):
    task = translate(tmp_path)
    a, b, c, d, e, f = (task.tokenizer.encode(letter)[0] for letter in "abcdef")
    batch = task.train_set.batch(np.array([0, 2, 1]))
    assert batch.tensors["source"].tolist() == [[a, b, 2, 0, 0], [d, e, f, a, 2], [c, 2, 0, 0, 0]]
    target = shift_right(batch.tensors["next"], 1, 0)
    assert target.tolist() == [[1, c, 0, 0], [1, b, b, 0], [1, d, e, f]]
    assert batch.tensors["next"].tolist() == [[c, 2, 0, 0], [b, b, 2, 0], [d, e, f, 2]]
    assert batch.targets == 2 + 3 + 4 == int((batch.tensors["next"] != 0).sum())


def test_an_epoch_has_every_pair_once_and_another_has_another_order(tmp_path):
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path, count=101))
    task = TASKS["translate"](recipe, tmp_path / "run", print)
    orders = []
    for epoch in range(2):
        rows = [row for position in range(task.batches(epoch)) for row in task.plan(epoch)[position].tolist()]
        assert sorted(rows) == list(range(len(task.train_set.pairs)))
        orders.append(rows)
        for position in range(task.batches(epoch)):
            batch = task.batch(epoch, position, ALL_ROWS).tensors
            assert max(batch["source"].numel(), batch["next"].numel()) <= recipe.train.tokens
    assert orders[0] != orders[1]


def test_processes_share_the_rows_of_a_batch(tmp_path):
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path))
    task = TASKS["translate"](recipe, tmp_path / "run", print)
    batch, shares = task.batch(0, 1, ALL_ROWS), [task.batch(0, 1, slice(rank, None, 3)) for rank in range(3)]
    assert sum(share.targets for share in shares) == batch.targets
    assert [len(share.tensors["source"]) for share in shares] == [
        len(batch.tensors["source"][rank::3]) for rank in range(3)
    ]


@pytest.mark.parametrize("task", [translate, lambda path: write(path, "abcdefgh" * 5), classify])
def test_a_process_without_a_row_has_zero_loss_and_zero_gradients(task, tmp_path):
    task = task(tmp_path)
    model = task.new_model()
    batch = task.batch(0, 0, slice(50, None, 51))
    assert batch.targets == 0
    loss, count = task.loss(model, batch)
    loss.backward()
    assert (float(loss.detach()), int(count)) == (0.0, 0)
    assert all(float(p.grad.abs().sum()) == 0.0 for p in model.parameters() if p.grad is not None)


def test_the_translation_loss_is_torchs_over_real_targets(tmp_path):
    task = translate(tmp_path)
    model, batch = task.new_model(), task.train_set.batch(np.array([0, 1, 2]))
    source, after = batch.tensors["source"], batch.tensors["next"]
    target = F.pad(after[:, :-1], (1, 0), value=1)  # the start token, then each token but the last
    logits = model(source, target, source != 0, after != 0).flatten(0, 1)
    expected = F.cross_entropy(logits, after.flatten(), ignore_index=0, label_smoothing=0.3, reduction="sum")
    loss, count = task.loss(model, batch, 0.3)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert int(count) == batch.targets


def test_pairs_that_are_too_long_are_left_out_and_counted(tmp_path):
    notes = []
    task = translate(tmp_path, notes, longest=4)
    assert [pair.source for pair in task.train_set.pairs] == ["a b", "c"]
    assert notes == ["1 of 3 rows have more than 4 tokens and are left out (the longest has 5)"]


def test_no_pair_that_is_short_enough_is_an_error(tmp_path):
    with pytest.raises(Misfit) as error:
        translate(tmp_path, longest=1)
    assert str(error.value) == ("no side may have over 1 tokens, but all 3 pairs do; raise data.longest")


def test_blocks_are_the_stream_and_the_stream_shifted_by_one(tmp_path):
    text = "".join(chr(97 + i % 23) for i in range(61))
    task = write(tmp_path, text)
    assert task.tokenizer.decode(task.train_set.tolist()) == text[:54]
    assert task.tokenizer.decode(task.held_out.tolist()) == text[54:]
    batch = task.batch(0, 0, ALL_ROWS)
    assert batch.tensors["tokens"].shape == (3, 5)
    assert batch.targets == 15
    for row, after in zip(batch.tensors["tokens"].tolist(), batch.tensors["next"].tolist(), strict=True):
        assert task.tokenizer.decode(row)[1:] == task.tokenizer.decode(after)[:-1]
        assert task.tokenizer.decode([*row, after[-1]]) in text[:54]


def test_texts_are_concatenated_with_an_end_token_each(tmp_path):
    task = write(tmp_path, "ab\ncd\n\nef\n" * 5, data={"format": "lines", "held_out": 9}, rows=2)
    stream = [*task.train_set.tolist(), *task.held_out.tolist()]
    assert len(stream) == 45
    assert stream[2::3] == [task.tokenizer.end] * 15
    assert task.tokenizer.decode(stream) == "abcdef" * 5


def test_evaluation_reads_all_held_out_text_once(tmp_path):
    task = write(tmp_path, "".join(chr(97 + i % 23) for i in range(97)), data={"held_out": 22})
    model = task.new_model().eval()
    blocks = torch.from_numpy(task.held_out[:21].astype(np.int64))
    expected = []
    for start in (0, 5, 10, 15):
        logits = model(blocks[None, start : start + 5])[0]
        expected.append(float(F.cross_entropy(logits, blocks[start + 1 : start + 6], reduction="sum").detach()))
    with torch.no_grad():
        result = task.evaluate(model)
    assert result.metrics["loss"] == pytest.approx(sum(expected) / 20, rel=1e-5)
    assert result.metrics["perplexity"] == pytest.approx(math.exp(sum(expected) / 20), rel=1e-5)
    assert (result.main_metric, result.higher_is_better) == ("loss", False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data": {"held_out": 5}},
            "data.held_out is how many tokens at the end are kept for evaluation, between 5 and 35 here, but it is 5;"
            " a tenth would be 4",
        ),
        (
            {"rows": 50},
            "a batch of 50 needs as many blocks of 5 tokens, but a stream of 33 has 5;"
            " give more text, or a smaller batch",
        ),
    ],
)
def test_too_little_text_is_an_error_at_once(tmp_path, changes, message):
    with pytest.raises(Misfit) as error:
        write(tmp_path, "abcdefgh" * 5, **changes)
    assert str(error.value) == message


def test_too_little_held_out_text_is_an_error_at_once(tmp_path):
    (tmp_path / "short.txt").write_text("abc")
    with pytest.raises(Misfit) as error:
        write(tmp_path, "abcdefgh" * 5, data={"held_out": 0, "valid": str(tmp_path / "short.txt")})
    assert str(error.value) == (
        "a block of 5 tokens and the next one need a stream of 6, but it has 3; give more text, or a shorter block"
    )


def test_labels_are_sorted_and_numbered(tmp_path):
    task = classify(tmp_path)
    assert task.labels == ["bad", "good", "ugly"]
    a, b, c, d, e = (task.tokenizer.encode(letter)[0] for letter in "abcde")
    batch = task.train_set.batch(np.array([3, 0, 1]))
    assert batch.tensors["tokens"].tolist() == [[a, 0, 0], [a, b, c], [d, e, 0]]
    assert batch.tensors["label"].tolist() == [2, 1, 0]
    assert batch.targets == 3
    model = task.new_model()
    assert model.config.labels == ("bad", "good", "ugly")
    loss, count = task.loss(model, batch)
    expected = F.cross_entropy(task.logits(model, batch), batch.tensors["label"], reduction="sum")
    assert (loss.item(), int(count)) == (pytest.approx(expected.item()), 3)


def test_a_long_text_is_truncated_and_counted(tmp_path):
    notes = []
    task = classify(tmp_path, notes, longest=2)
    assert task.train_set.tokens.lengths.tolist() == [2, 2, 1, 1]
    assert notes == ["1 of 4 texts have more than 2 tokens and are truncated"]


def test_a_label_without_training_examples_is_an_error(tmp_path):
    with pytest.raises(Misfit) as error:
        classify(tmp_path, held_out="bad a\nfine b\n")
    assert str(error.value) == (
        "the training labels are bad, good, ugly, but held-out examples have 'fine' too; add training examples with it"
    )


def test_a_model_of_other_labels_is_not_evaluated(tmp_path):
    model = classify(tmp_path).new_model()
    (tmp_path / "run" / "tokenizer.json").unlink()
    with pytest.raises(Misfit) as error:
        classify(tmp_path, content="bad a\nugly b\n").evaluate(model)
    assert str(error.value) == (
        "the model has the labels bad, good, ugly, but the examples have bad, ugly; give the data it was trained on"
    )


def test_data_of_another_task_is_an_error(tmp_path):
    with pytest.raises(Misfit) as error:
        translate(tmp_path, format="lines")
    assert str(error.value) == (
        "this task trains on a Pair, but data.format = 'lines' gives a Line;"
        " see recipes/reference.toml for the formats of each task"
    )


def test_parallel_takes_two_files(tmp_path):
    with pytest.raises(Misfit) as error:
        translate(tmp_path, format="parallel")
    assert str(error.value) == ("data.format = 'parallel' takes two files, but there are 1; give source and target")
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_text("a\nb\n")
    target.write_text("c\nd\n")
    both = [str(source), str(target)]
    task = translate(tmp_path, format="parallel", train=both, valid=both)
    assert task.train_set.pairs == [Pair("a", "c"), Pair("b", "d")]


def test_training_validation_and_test_sets_share_nothing(tmp_path):
    data = {"format": "labelled", "test": 30}
    recipe = small_recipe(tmp_path / "run", labelled_file(tmp_path), task="classify", data=data)
    train, held_out = train_and_validation(recipe, Labelled, on_test_set=False)
    again, test = train_and_validation(recipe, Labelled, on_test_set=True)
    parts = [{example.text for example in part} for part in (train, held_out, test)]
    assert [len(parts[1]), len(parts[2])] == [20, 30]
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    assert {example.text for example in again} == parts[0] | parts[1]


def with_vectors(tmp_path, text, **vector_settings):
    (tmp_path / "vectors.txt").write_text(text)
    (tmp_path / "train.txt").write_text("good a b\nbad c a\n")
    files = {"train": str(tmp_path / "train.txt"), "valid": str(tmp_path / "train.txt"), "format": "labelled"}
    model = {"layers": 1, "d_model": 6, "d_hidden": 7, "heads": 2}
    notes = []
    settings = {"data": files, "tokens": {"kind": "words"}, "model": model}
    settings["vectors"] = {"file": str(tmp_path / "vectors.txt"), **vector_settings}
    return build_task(tmp_path, notes, task="classify", **settings), notes


@pytest.mark.parametrize("frozen", [False, True])
def test_an_embedding_starts_from_word_vectors(tmp_path, frozen):
    task, notes = with_vectors(tmp_path, "a 1 2 3 4 5 6\nb 6 5 4 3 2 1\n", frozen=frozen)
    model = task.new_model()
    a, b = (task.tokenizer.encode(word)[0] for word in "ab")
    rows = model.embedding.vectors[[a, b]] * model.embedding.scale
    assert torch.allclose(rows, torch.tensor([[1.0, 2, 3, 4, 5, 6], [6.0, 5, 4, 3, 2, 1]]))
    assert model.embedding.vectors.requires_grad is not frozen
    assert notes == [f"{tmp_path}/vectors.txt: 2 of 3 words found (66.7%), missing for example 'c'"]


def test_word_vectors_may_be_scaled_down(tmp_path):
    task, _ = with_vectors(tmp_path, "a 1 2 3 4 5 6\nb 6 5 4 3 2 1\n", scale=0.25)
    model = task.new_model()
    rows = model.embedding.vectors[task.tokenizer.encode("b")[0]] * model.embedding.scale
    assert torch.allclose(rows, torch.tensor([6.0, 5, 4, 3, 2, 1]) / 4)


def test_word_vectors_of_another_width_are_an_error(tmp_path):
    with pytest.raises(Misfit) as error:
        with_vectors(tmp_path, "a 1 2 3\nb 3 2 1\n")[0].new_model()
    assert str(error.value) == (
        f"{tmp_path}/vectors.txt has vectors of 3 numbers, but model.d_model is 6; set model.d_model = 3"
    )
