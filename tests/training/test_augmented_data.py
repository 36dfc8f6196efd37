"""[augment] and data.everyday: pairs are added from the seed, everyday sentences are never learned."""

import pytest
from small_runs import small_recipe
from test_recipe import parsing_error, table

from transom.names import Misfit
from transom.text.corpora import Pair
from transom.training.augmented_data import augment_training_pairs
from transom.training.dataset import hash_files, train_and_validation
from transom.training.tasks.translation import TranslationTask

EVERYDAY = "kind\tenglish\tcheck\nquestions\thow are you, number 3\t~ vous\n"


@pytest.fixture
def files(tmp_path):
    rows = [f"How are you, number {i}?\tComment allez-vous, numéro {i} ?\n" for i in range(50)]
    (tmp_path / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    (tmp_path / "everyday.tsv").write_text(EVERYDAY, encoding="utf-8")
    (tmp_path / "words.tsv").write_text("Yes\tOui\nHow are you, number 3!\tNon\n", encoding="utf-8")
    (tmp_path / "slots.tsv").write_text("name\tTom\tTom\nname\tMary\tMarie\n", encoding="utf-8")
    (tmp_path / "templates.tsv").write_text("Hi {name}\tSalut {name}\n", encoding="utf-8")
    return tmp_path


def build(files, everyday=True, **augment):
    data = {"everyday": str(files / "everyday.tsv")} if everyday else {}
    sections = {"augment": augment} if augment else {}
    return small_recipe(files / "run", files / "pairs.tsv", data={"held_out": 5, "longest": 99, **data}, **sections)


def test_pairs_are_added_and_everyday_sentences_are_left_out(files):
    settings = {"pairs": str(files / "words.tsv"), "times": 2, "slots": str(files / "slots.tsv"), "filled": 7}
    recipe = build(files, templates=str(files / "templates.tsv"), case=1.0, joined=0.5, **settings)
    train, _ = train_and_validation(recipe, Pair, on_test_set=False)
    notes = []
    pairs = augment_training_pairs(recipe, train, notes.append)
    kept = [pair for pair in train if "number 3?" not in pair.source]
    assert pairs[: len(kept)] == kept
    left_out = len(train) - len(kept)
    assert notes[0] == f"{left_out} training pairs are left out, because data.everyday has their sources"
    assert notes[1] == f"{len(pairs) - len(kept)} training pairs are added by [augment]"
    assert pairs.count(Pair("Yes", "Oui")) == 2
    assert sum(pair.source.startswith("Hi ") for pair in pairs) == 7
    assert not [pair for pair in pairs if pair.source.casefold().rstrip("?!. ") == "how are you, number 3"]
    assert augment_training_pairs(recipe, train, notes.append) == pairs


def test_the_task_learns_from_them_and_is_evaluated_without_them(files):
    recipe = build(files, case=1.0)
    train, held_out = train_and_validation(recipe, Pair, on_test_set=False)
    task = TranslationTask(recipe, files / "run", lambda text: None)
    assert len(task.train_set.pairs) > 1.8 * len(train)
    assert task.held_out.pairs == held_out


def test_a_resumed_run_needs_the_same_lists(files):
    settings = {"pairs": str(files / "words.tsv"), "slots": str(files / "slots.tsv"), "filled": 1}
    recipe = build(files, templates=str(files / "templates.tsv"), **settings)
    names = ("pairs", "words", "slots", "templates", "everyday")
    assert set(hash_files(recipe)) == {str(files / f"{name}.tsv") for name in names}


@pytest.mark.parametrize(
    ("augment", "message"),
    [
        (
            {"names": 0.5},
            "augment.names needs names to swap, but augment.swapped is empty; name slots of augment.slots",
        ),
        ({"swapped": ["nam"]}, "augment.swapped names the slot 'nam', but augment.slots has no such row; add one"),
        ({"filled": 3}, "augment.filled=3 needs augment.templates, but there are none; name a file"),
    ],
)
def test_settings_that_do_not_fit_together(files, augment, message):
    with pytest.raises(Misfit) as error:
        augment_training_pairs(build(files, **augment), [Pair("a", "b")], lambda text: None)
    assert str(error.value) == message


def test_they_are_for_translations():
    message = "mine.toml: {} is for task = 'translate', but it is 'write'; leave it out"
    assert parsing_error(table(task="write", augment={"case": 0.1})) == message.format("[augment]")
    data = {"train": "x.txt", "format": "lines", "held_out": 3, "everyday": "x.tsv"}
    assert parsing_error(table(task="write", data=data)) == message.format("data.everyday")
