"""A corpus on disk: split and tokens as in memory, resumable builds, checked files, bit-exact runs."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from small_runs import labelled_file, outcome, pairs_file, small_recipe
from test_loop import Stop, StopAfter

from transom.names import Misfit
from transom.text.corpora import Labelled, Pair
from transom.text.holdout_split import HoldoutBorders, split_examples
from transom.text.token_store import TokenStore
from transom.training import stored_corpus
from transom.training.dataset import train_and_validation
from transom.training.evaluate import evaluate
from transom.training.tasks import TASKS
from transom.training.train import train

SHORT = {"updates": 6, "checkpoint_every": 2, "judge_every": 3}
ALL_ROWS = slice(None)


def stored_recipe(tmp_path, name="run", file=None, data=None, **sections):
    """A small translator whose pairs are on disk."""
    file = file or pairs_file(tmp_path)
    data = {"store": str(tmp_path / name / "store"), "test": 10, **(data or {})}
    return small_recipe(tmp_path / name, file, data=data, train={**SHORT, **sections.pop("train", {})}, **sections)


def classifier(tmp_path, **data):
    model = {"layers": 1, "d_model": 6, "d_hidden": 7, "heads": 2}
    table = small_recipe(tmp_path / "run", labelled_file(tmp_path), train=SHORT)
    table = msgspec.to_builtins(table) | {"task": "classify", "model": model}
    table["data"] |= {"format": "labelled", "store": str(tmp_path / "run" / "store"), **data}
    return msgspec.convert(table, type(stored_recipe(tmp_path)))


def build_task(recipe, notes=None, on_test_set=False):
    note = (notes if notes is not None else []).append
    return TASKS[recipe.task](recipe, Path(recipe.folder), note, on_test_set)


@pytest.mark.parametrize(("test", "held_out"), [(0, 7), (11, 7), (11, 0), (3, 150), (0, 0), (400, 1)])
def test_one_pass_finds_the_borders_of_two_splits(test, held_out):
    sentences = [f"sentence {n % 211} {'A' if n % 3 else 'a'}" for n in range(900)]
    finder = HoldoutBorders(test, held_out, seed=5)
    for sentence in sentences:
        finder.add(sentence)
    borders = finder.borders
    sides = {side: [s for s in sentences if finder.side(s, borders) == side] for side in ("train", "held_out", "test")}
    rest = examples = [Pair(sentence, "x") for sentence in sentences]
    expected = {"test": [], "held_out": []}
    try:
        if test:
            rest, expected["test"] = split_examples(examples, test, 5)
        if held_out:
            rest, expected["held_out"] = split_examples(rest, held_out, 6)
    except Misfit:
        assert not sides["train"]
        return
    for side, found in {**expected, "train": rest}.items():
        assert sides[side] == [pair.source for pair in found]


def test_a_store_holds_the_split_and_the_tokens_that_memory_would(tmp_path):
    recipe = stored_recipe(tmp_path)
    task = build_task(recipe)
    in_memory = msgspec.structs.replace(recipe, data=msgspec.structs.replace(recipe.data, store=None))
    train_pairs, held_out = train_and_validation(in_memory, Pair, on_test_set=False)
    _, test = train_and_validation(in_memory, Pair, on_test_set=True)
    assert task.held_out.pairs == held_out
    assert list(TokenStore(recipe.data.store).examples("test", Pair)) == test
    assert [row.tolist() for row in task.train_set.sources] == [task.tokenizer.encode(p.source) for p in train_pairs]
    assert [row.tolist() for row in task.train_set.targets] == [task.tokenizer.encode(p.target) for p in train_pairs]
    rows = [row for i in range(task.batches(0)) for row in task.plan(0)[i].tolist()]
    assert sorted(rows) == list(range(len(train_pairs)))
    batch, shares = task.batch(0, 1, ALL_ROWS), [task.batch(0, 1, slice(rank, None, 3)) for rank in range(3)]
    assert sum(share.targets for share in shares) == batch.targets


def test_texts_of_a_classifier_on_disk(tmp_path):
    notes = []
    recipe = classifier(tmp_path, longest=6)
    task = build_task(recipe, notes)
    in_memory = msgspec.structs.replace(recipe, data=msgspec.structs.replace(recipe.data, store=None))
    train_texts, held_out = train_and_validation(in_memory, Labelled, on_test_set=False)
    assert task.labels == ["few", "many"]
    assert [row.tolist() for row in task.train_set.tokens] == [
        task.tokenizer.encode(example.text)[:6] for example in train_texts
    ]
    assert task.train_set.labels.tolist() == [task.labels.index(example.label) for example in train_texts]
    assert len(task.held_out.tokens) == len(held_out)
    assert any("have more than 6 tokens and are truncated" in note for note in notes)
    folder = train(recipe)
    metrics = evaluate(recipe, folder, 1, print).metrics
    assert 0 <= metrics["accuracy"] <= 1


def test_a_stream_on_disk_is_the_one_in_memory(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"line {n} of many\n" for n in range(200)))
    data = {"train": str(text), "format": "lines", "held_out": 500}
    changes = {"task": "write", "tokens": {"kind": "characters"}, "train": {**SHORT, "block": 16, "rows": 4}}
    model = {"layers": 1, "d_model": 8, "d_hidden": 8, "heads": 2, "dropout": 0.0}
    tasks = {}
    for name, store in (("memory", None), ("disk", str(tmp_path / "store"))):
        table = msgspec.to_builtins(small_recipe(tmp_path / name, text, train=SHORT)) | changes | {"model": model}
        table["data"] |= data | {"store": store}
        recipe = msgspec.convert(table, type(stored_recipe(tmp_path)))
        tasks[name] = build_task(recipe)
    assert tasks["disk"].train_set.tolist() == tasks["memory"].train_set.tolist()
    assert tasks["disk"].held_out.tolist() == tasks["memory"].held_out.tolist()
    assert tasks["disk"].batches(0) == tasks["memory"].batches(0)
    batch = tasks["disk"].batch(1, 2, ALL_ROWS)
    assert batch.tensors["tokens"].shape == (4, 16)
    result = train(recipe)
    assert evaluate(recipe, result, 1, print).metrics["loss"] > 0
    (tmp_path / "store" / "store.json").unlink()
    with pytest.raises(Misfit, match="should be the token store of this data and of the tokenizer in"):
        evaluate(recipe, result, 1, print)


class Killed(BaseException):
    """Stands for a kill."""


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(stored_corpus, "CHUNK", 7)
    monkeypatch.setattr(stored_corpus, "COMMIT", 3)


def store_bytes(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.mark.parametrize("commits", [1, 4, 14])
def test_a_build_that_was_stopped_goes_on_and_ends_with_the_same_bytes(tmp_path, small_chunks, commits):
    file = pairs_file(tmp_path)
    whole = stored_recipe(tmp_path, "whole", file)
    build_task(whole)
    stopped = stored_recipe(tmp_path, "stopped", file)
    seen = []

    def kill(text):
        seen.append(text)
        if sum("tokenised" in note for note in seen) == commits:
            with (Path(str(stopped.data.store) + ".building") / "source.tokens").open("ab") as half:
                half.write(b"half a write")
            raise Killed

    with pytest.raises(Killed):
        TASKS["translate"](stopped, Path(stopped.folder), kill)
    notes = []
    build_task(stopped, notes)
    assert notes[0] == f"going on after {21 * commits} of 300 examples"
    assert store_bytes(stopped.data.store) == store_bytes(whole.data.store)


def test_a_build_that_was_changed_since_is_not_continued(tmp_path, small_chunks):
    recipe = stored_recipe(tmp_path)

    def kill(text):
        if "tokenised" in text:
            raise Killed

    with pytest.raises(Killed):
        TASKS["translate"](recipe, Path(recipe.folder), kill)
    path = Path(recipe.data.store + ".building") / "target.tokens"
    content = bytearray(path.read_bytes())
    content[5] ^= 4
    path.write_bytes(content)
    with pytest.raises(Misfit, match=r"target\.tokens should have SHA-256 [0-9a-f]{64}, but it was changed since"):
        build_task(recipe)


@pytest.mark.parametrize("name", ["source.tokens", "target.offsets", "held_out.jsonl", "store.json", "manifest.json"])
def test_a_flipped_bit_in_a_store_is_reported(tmp_path, name):
    recipe = stored_recipe(tmp_path)
    build_task(recipe)
    path = Path(recipe.data.store) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(Misfit):
        TokenStore(recipe.data.store)


def test_a_store_of_other_data_is_built_again_and_says_so(tmp_path):
    build_task(stored_recipe(tmp_path))
    notes = []
    task = build_task(stored_recipe(tmp_path, file=pairs_file(tmp_path, order="copy")), notes)
    assert notes[0].endswith("was made from other data, settings or tokens, so it is built again")
    assert task.train_set.sources[0].tolist() == task.train_set.targets[0].tolist()
    notes = []
    build_task(stored_recipe(tmp_path, file=pairs_file(tmp_path, order="copy")), notes)
    assert notes[0].endswith("rows, tokenised before; SHA-256 as it should be")


def test_the_tokenizer_is_trained_on_a_sample_that_is_stated(tmp_path):
    notes = []
    recipe = stored_recipe(tmp_path, tokens={"sample": 40})
    build_task(recipe, notes)
    (note,) = [note for note in notes if "trained on" in note]
    drawn = int(note.split()[5])
    assert 30 <= drawn <= 40
    assert note == f"the tokenizer is trained on {drawn} of 300 examples, drawn by the seed"


def test_a_sample_has_every_example_with_the_same_chance():
    hits = np.zeros(50, dtype=int)
    rng = np.random.default_rng(3)
    for _ in range(2000):
        sample = []
        for number, draw in enumerate(rng.integers(0, 2**63, 50).tolist(), 1):
            stored_corpus.keep_in_sample(sample, number - 1, number, draw, 10)
        hits[sample] += 1
    assert abs(hits / 2000 - 0.2).max() < 0.04


def test_a_stopped_run_on_a_store_ends_with_the_same_bits(tmp_path):
    file = pairs_file(tmp_path)
    runs = [stored_recipe(tmp_path, name, file) for name in ("whole", "stopped")]
    train(runs[0])
    with pytest.raises(Stop):
        train(runs[1], callbacks=[StopAfter(3)])
    train(runs[1])
    assert outcome(runs[0]) == outcome(runs[1])


def test_bad_lines_stop_a_build_before_anything_is_written(tmp_path):
    file = tmp_path / "bad.tsv"
    file.write_text("a\tb\nc\nd\te\nf\n")
    with pytest.raises(Misfit, match=r"line 2: expected 2 columns .* · line 4: expected 2 columns .* · 2 bad lines"):
        build_task(stored_recipe(tmp_path, file=file))
    assert not (tmp_path / "run" / "store").exists()


def test_all_sentences_held_out_is_an_error(tmp_path):
    with pytest.raises(Misfit, match=r"both sides need examples, but data.held_out=9999 and data.test=10 leave none"):
        build_task(stored_recipe(tmp_path, data={"held_out": 9999}))


def test_augmented_pairs_are_not_for_a_store(tmp_path):
    with pytest.raises(Misfit, match=r"\[augment\] changes pairs in memory, but data.store keeps them on disk"):
        stored_recipe(tmp_path, augment={"typos": 0.1})
    with pytest.raises(Misfit, match=r"tokens.sample is for a corpus with data.store, but there is none"):
        stored_recipe(tmp_path, data={"store": None}, tokens={"sample": 3})


def test_a_store_says_what_it_was_made_from(tmp_path):
    recipe = stored_recipe(tmp_path)
    build_task(recipe)
    about = json.loads((Path(recipe.data.store) / "store.json").read_text())
    assert about["made_from"]["seed"] == 1
    assert list(about["made_from"]["files"]) == [recipe.data.train]
    assert about["rows"] == len(TokenStore(recipe.data.store).columns["source"])
