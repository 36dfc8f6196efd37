"""Going on with a run: with the data, the tokenizer, the recipe and the precision it began with, or not at all."""

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import msgspec
import pytest
from small_runs import labelled_file, outcome, pairs_file, recipe, told
from test_checkpoint import as_if_whole
from test_training import Stop, StopAfter

from transom.names import Misfit
from transom.run import precision
from transom.run.checkpoint import path_of, read
from transom.run.checkpoint_state import parse_recipe, parse_state
from transom.run.inputs import hash_files
from transom.run.kept import FREE, FREE_OF_TRAIN, check_recipe
from transom.run.recipe import SECTIONS, Recipe
from transom.run.train import train
from transom.run.training import Callback

SHORT = {"updates": 6, "checkpoint_every": 2}


class Notes(Callback):
    """Remembers what was noted."""

    def __init__(self):
        self.texts = []

    def noted(self, text):
        self.texts.append(text)


def stopped(asked, after=3):
    """The folder of a run that was stopped on its way."""
    with pytest.raises(Stop):
        train(asked, callbacks=[StopAfter(after)])


def complaint(asked):
    with pytest.raises(Misfit) as error:
        train(asked)
    return str(error.value)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run that was stopped after three of six updates, with the checkpoint of the second."""
    folder = tmp_path_factory.mktemp("begun")
    asked = recipe(folder / "run", pairs_file(folder), train=SHORT)
    stopped(asked)
    return asked


@pytest.fixture
def run(tmp_path, begun):
    """That run, moved to a folder of its own; its data stays where it is."""
    shutil.copytree(begun.folder, tmp_path / "run")
    return msgspec.structs.replace(begun, folder=str(tmp_path / "run"))


def rewrite_state(folder, step, change):
    """Change the state of a checkpoint, with a manifest that fits it."""
    path = path_of(folder / "checkpoints", step)
    content = json.loads((path / "state.json").read_bytes())
    change(content["state"])
    as_if_whole(path, content)


def test_a_run_does_not_go_on_with_other_data(tmp_path, run):
    data = Path(run.data.train)
    began, content = sha256(data), data.read_text()
    lines = content.splitlines(keepends=True)
    data.write_text("".join(lines[: len(lines) // 2]))
    assert complaint(run) == (
        f"{tmp_path}/run holds a run that began with another {data}: its SHA-256 was {began} and is {sha256(data)} now;"
        " restore that file, or choose another folder"
    )
    data.write_text(content)
    train(run)
    twin = recipe(tmp_path / "twin", data, train=SHORT)
    train(twin)
    assert outcome(run) == outcome(twin)


def test_a_run_does_not_go_on_with_another_tokenizer(tmp_path, run):
    file = tmp_path / "run" / "tokenizer.json"
    began, content = sha256(file), file.read_bytes()
    swapped = content.replace(b'"a"', b'"#"').replace(b'"b"', b'"a"').replace(b'"#"', b'"b"')
    assert swapped != content
    file.write_bytes(swapped)
    now = sha256(file)
    for found in (now, "gone"):
        assert complaint(run) == (
            f"{tmp_path}/run holds a run that began with another {file}: its SHA-256 was {began} and is {found} now;"
            " restore that file, or choose another folder"
        )
        file.unlink(missing_ok=True)
    assert not file.exists()
    file.write_bytes(content)
    train(run)


def test_every_file_that_a_recipe_names_is_hashed_as_it_lies_on_the_disk(tmp_path):
    first = labelled_file(tmp_path)
    packed, vectors, valid = tmp_path / "more.txt.gz", tmp_path / "vectors.txt", tmp_path / "valid.txt"
    packed.write_bytes(gzip.compress(first.read_bytes()))
    vectors.write_text("a 1 2\n")
    valid.write_text("many a a b\n")
    asked = recipe(
        tmp_path / "run",
        first,
        task="classify",
        data={"train": [str(first), str(packed)], "format": "labelled", "held_out": 0, "valid": str(valid)},
        vectors={"file": str(vectors)},
    )
    assert hash_files(asked) == {str(path): sha256(path) for path in (first, packed, valid, vectors)}


def test_a_checkpoint_without_hashes_is_gone_on_from_and_says_so(tmp_path, run):
    """As Transom 0.1.0 wrote them."""
    rewrite_state(tmp_path / "run", 2, lambda state: state.pop("inputs"))
    notes = Notes()
    train(run, callbacks=[notes])
    path = path_of(tmp_path / "run/checkpoints", 2)
    assert notes.texts == [
        f"{path} has no SHA-256 of data and tokenizer, so whether they changed cannot be checked",
        "going on from update 2",
    ]
    assert read(path_of(tmp_path / "run/checkpoints", 6)).state["inputs"] == {
        "files": {run.data.train: sha256(Path(run.data.train))},
        "tokenizer": sha256(tmp_path / "run/tokenizer.json"),
    }


def settings():
    """Every setting that has a default, as the section it is in, or None, and its name."""
    tops = [(None, field) for field in msgspec.structs.fields(Recipe) if field.name not in SECTIONS]
    inner = [(section, field) for section, kind in SECTIONS.items() for field in msgspec.structs.fields(kind)]
    return [
        pytest.param(section, field.name, id=f"{section}.{field.name}")
        for section, field in tops + inner
        if not field.required
    ]


@pytest.mark.parametrize(("section", "name"), settings())
def test_a_setting_younger_than_the_checkpoint_has_its_default(tmp_path, section, name):
    """Whatever its default is, None as well."""
    asked = recipe(tmp_path, tmp_path / "x.tsv", task="classify", vectors={"file": "v.txt"})
    saved = told(asked)
    default = {field.name: field.default for field in msgspec.structs.fields(SECTIONS.get(section, Recipe))}[name]
    (saved if section is None else saved[section]).pop(name)
    found = parse_recipe(saved, "state.json")
    held = found if section is None else getattr(found, section)
    if default is not msgspec.NODEFAULT:
        assert getattr(held, name) == default
    free = name in FREE_OF_TRAIN if section == "train" else (section or name) in FREE
    same = getattr(held, name) == getattr(asked if section is None else getattr(asked, section), name)
    if free or same:
        check_recipe(asked, found, tmp_path)
    else:
        with pytest.raises(Misfit, match=f"holds a run by another recipe: .*{name}"):
            check_recipe(asked, found, tmp_path)


@pytest.mark.parametrize("section", [None, *SECTIONS])
def test_a_setting_that_this_version_does_not_have_is_named(tmp_path, section):
    saved = told(recipe(tmp_path, tmp_path / "x.tsv", task="classify", vectors={"file": "v.txt"}))
    (saved if section is None else saved[section])["younger"] = 1
    with pytest.raises(Misfit) as error:
        parse_recipe(saved, "state.json")
    named = "younger" if section is None else f"{section}.younger"
    assert str(error.value) == (
        f"state.json holds a run with the setting {named!r}, which this version of Transom does not have;"
        " take the version that wrote it, or choose another folder"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda state: state.pop("standing"),
            "must hold the state of a training run, but it does not fit: Object missing required field `standing`;"
            " take the version of Transom that wrote it, or choose another folder",
        ),
        (
            lambda state: state.update(more=1),
            "must hold the state of a training run, but it does not fit: Object contains unknown field `more`;"
            " take the version of Transom that wrote it, or choose another folder",
        ),
        (
            lambda state: state["standing"]["place"].update(epoch="0"),
            "must hold the state of a training run, but it does not fit: Expected `int`, got `str` - at"
            " `$.standing.place.epoch`; take the version of Transom that wrote it, or choose another folder",
        ),
        (
            lambda state: state["standing"]["place"].update(updates=1),
            "must hold numbers of step 2, but it counts 1 updates, the best 0, and 0 judged without gain;"
            " choose another folder",
        ),
        (
            lambda state: state["standing"].update(best_update=3),
            "must hold numbers of step 2, but it counts 2 updates, the best 3, and 0 judged without gain;"
            " choose another folder",
        ),
        (
            lambda state: state.update(scale={"scale": 2.0}),
            "must hold the state of a training run, but it does not fit: Object missing required field"
            " `growth_factor`; take the version of Transom that wrote it, or choose another folder",
        ),
        (
            lambda state: state["recipe"]["train"].update(precision="float16"),
            "must hold a loss scale for train.precision = 'float16' alone, but for 'float16' there is none;"
            " choose another folder",
        ),
        (
            lambda state: state["recipe"]["train"].update(precision="auto"),
            "must name the precision of a run, but it has 'auto'; choose another folder",
        ),
        (
            lambda state: state["recipe"].update(train=[]),
            "must hold the recipe of a run, but Expected `object`, got `array` - at `$.train`; choose another folder",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused(tmp_path, run, change, message):
    rewrite_state(tmp_path / "run", 2, change)
    path = path_of(tmp_path / "run/checkpoints", 2)
    assert complaint(run) == f"{path / 'state.json'} {message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda groups: groups[0].pop("eps") and groups[0].update(epsilon=1.0),
            "'epsilon' as 1.0, but this one has none",
        ),
        (lambda groups: groups[0].update(eps=-1.0), "'eps' as -1.0, but this one has 1e-09"),
        (lambda groups: groups[0].update(betas=[0.9]), "'betas' as (0.9,), but this one has (0.9, 0.98)"),
        (lambda groups: groups[1].update(fused=1), "'fused' as 1, but this one has True"),
        (lambda groups: groups[1].update(params=[0]), "'params' as [0], but this one has"),
    ],
)
def test_settings_of_an_optimizer_that_do_not_fit_are_refused(tmp_path, run, change, message):
    rewrite_state(tmp_path / "run", 2, lambda state: change(state["optimizer"]))
    found = complaint(run)
    assert found.startswith(f"the checkpoint holds the optimizer's setting {message}")
    assert found.endswith("; go on with the recipe the run began with")


def test_a_place_that_the_data_does_not_have_is_refused(tmp_path, run):
    """What a checkpoint without hashes would have shown of a shrunken corpus."""
    path = path_of(tmp_path / "run/checkpoints", 2)
    rewrite_state(tmp_path / "run", 2, lambda state: state["standing"]["place"].update(position=3))
    assert complaint(run) == (
        f"{path} stands at batch 3 of epoch 0, but after 2 batches of this data no run stands there; restore the data"
        " it began with, or choose another folder"
    )


@pytest.mark.parametrize("gone", ["model", "optimizer"])
def test_a_checkpoint_without_a_group_is_refused(tmp_path, run, gone):
    path = path_of(tmp_path / "run/checkpoints", 2)
    (path / f"{gone}.safetensors").unlink()
    as_if_whole(path, json.loads((path / "state.json").read_bytes()))
    assert complaint(run) == f"{path} must hold {gone}.safetensors, but it does not; choose another folder"


@pytest.mark.parametrize("has", [True, False])
def test_auto_is_bfloat16_where_the_processor_has_it_and_is_kept(tmp_path, monkeypatch, has):
    """Also on another machine: a run goes on in the precision it began with, bit for bit."""
    asked, named = (
        recipe(tmp_path / name, pairs_file(tmp_path), train={**SHORT, "precision": chosen})
        for name, chosen in (("auto", "auto"), ("named", "bfloat16" if has else "float32"))
    )
    monkeypatch.setattr(precision, "has_bfloat16", lambda: has)
    train(named)
    stopped(asked)
    path = path_of(tmp_path / "auto/checkpoints", 2)
    assert parse_state(read(path)).recipe.train.precision == named.train.precision
    monkeypatch.setattr(precision, "has_bfloat16", lambda: not has)
    notes = Notes()
    train(asked, callbacks=[notes])
    assert outcome(asked) == outcome(named)
    assert notes.texts == [*([WARNING] if has else []), "going on from update 2"]


WARNING = (
    "warning: train.precision = 'bfloat16' needs a processor with its arithmetic to be quick, but this one has no"
    " avx512_bf16, amx_bf16, bf16: a step may take 7 to 12 times as long as in float32; train.precision = 'auto'"
    " chooses float32 here, in a new folder"
)


def test_a_run_that_named_its_precision_goes_on_by_auto(tmp_path):
    """The recipes that come along named bfloat16 in Transom 0.1.0."""
    data = pairs_file(tmp_path)
    stopped(recipe(tmp_path / "run", data, train={**SHORT, "precision": "bfloat16"}))
    shutil.copytree(tmp_path / "run", tmp_path / "twin")
    for name, chosen in (("run", "auto"), ("twin", "bfloat16")):
        train(recipe(tmp_path / name, data, train={**SHORT, "precision": chosen}))
    assert outcome(recipe(tmp_path / "run", data)) == outcome(recipe(tmp_path / "twin", data))
    assert complaint(recipe(tmp_path / "run", data, train={**SHORT, "updates": 8, "precision": "float32"})) == (
        f"{tmp_path}/run/checkpoints holds a run by another recipe: train.precision was 'bfloat16' and is 'float32'"
        " now; put it back, or choose another folder"
    )
