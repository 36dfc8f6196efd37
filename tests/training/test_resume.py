"""Resuming a run: only with the data, the tokenizer, the recipe and the precision it started with."""

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import msgspec
import pytest
from small_runs import labelled_file, outcome, pairs_file, recipe_to_dict, small_recipe
from test_checkpoint import as_if_whole
from test_loop import Stop, StopAfter

from transom.names import Misfit
from transom.training import precision
from transom.training.checkpoint_files import checkpoint_path, load_checkpoint
from transom.training.dataset import hash_files
from transom.training.loop import Callback
from transom.training.recipe import FREE, FREE_OF_TRAIN, SECTIONS, Recipe
from transom.training.resume import check_recipe, parse_checkpoint, parse_saved_recipe
from transom.training.train import train

SHORT = {"updates": 6, "checkpoint_every": 2}


class Notes(Callback):
    """Remembers what was noted."""

    def __init__(self):
        self.texts = []

    def on_note(self, text):
        self.texts.append(text)


def train_and_stop(recipe, after=3):
    """Stop a run after some updates."""
    with pytest.raises(Stop):
        train(recipe, callbacks=[StopAfter(after)])


def training_error(recipe):
    with pytest.raises(Misfit) as error:
        train(recipe)
    return str(error.value)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory):
    """A run that was stopped after three of six updates, with the checkpoint of the second."""
    folder = tmp_path_factory.mktemp("stopped")
    recipe = small_recipe(folder / "run", pairs_file(folder), train=SHORT)
    train_and_stop(recipe)
    return recipe


@pytest.fixture
def run(tmp_path, stopped_run):
    """That run, copied to another folder; its data stays where it is."""
    shutil.copytree(stopped_run.folder, tmp_path / "run")
    return msgspec.structs.replace(stopped_run, folder=str(tmp_path / "run"))


def rewrite_state(folder, step, change):
    """Change the state of a checkpoint, with a manifest that fits it."""
    path = checkpoint_path(folder / "checkpoints", step)
    content = json.loads((path / "state.json").read_bytes())
    change(content["state"])
    as_if_whole(path, content)


def test_a_run_does_not_resume_with_other_data(tmp_path, run):
    data = Path(run.data.train)
    before, content = sha256(data), data.read_text()
    lines = content.splitlines(keepends=True)
    data.write_text("".join(lines[: len(lines) // 2]))
    assert training_error(run) == (
        f"{tmp_path}/run holds a run that started with another {data}: its SHA-256 was {before} and is"
        f" {sha256(data)} now; restore that file, or choose another folder"
    )
    data.write_text(content)
    train(run)
    twin = small_recipe(tmp_path / "twin", data, train=SHORT)
    train(twin)
    assert outcome(run) == outcome(twin)


def test_a_run_does_not_resume_with_another_tokenizer(tmp_path, run):
    file = tmp_path / "run" / "tokenizer.json"
    before, content = sha256(file), file.read_bytes()
    swapped = content.replace(b'"a"', b'"#"').replace(b'"b"', b'"a"').replace(b'"#"', b'"b"')
    assert swapped != content
    file.write_bytes(swapped)
    now = sha256(file)
    for sha in (now, "gone"):
        assert training_error(run) == (
            f"{tmp_path}/run holds a run that started with another {file}: its SHA-256 was {before} and is {sha} now;"
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
    recipe = small_recipe(
        tmp_path / "run",
        first,
        task="classify",
        data={"train": [str(first), str(packed)], "format": "labelled", "held_out": 0, "valid": str(valid)},
        vectors={"file": str(vectors)},
    )
    assert hash_files(recipe) == {str(path): sha256(path) for path in (first, packed, valid, vectors)}


def test_a_run_resumes_from_a_checkpoint_without_hashes_with_a_note(tmp_path, run):
    """As Transom 0.1.0 wrote them."""
    rewrite_state(tmp_path / "run", 2, lambda state: state.pop("inputs"))
    notes = Notes()
    train(run, callbacks=[notes])
    path = checkpoint_path(tmp_path / "run/checkpoints", 2)
    assert notes.texts == [
        f"{path} has no SHA-256 of data and tokenizer, so it is not known whether they changed",
        "resuming from update 2",
    ]
    assert load_checkpoint(checkpoint_path(tmp_path / "run/checkpoints", 6)).state["inputs"] == {
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


def recipe_with(section, folder):
    """A recipe that has this section: those of a translator, or those of a classifier."""
    sections = {"augment": {"augment": {}}, "start": {"start": {"model": "m"}}}
    sections["lora"] = sections["start"] | {"lora": {}}
    if section in sections:
        return small_recipe(folder, folder / "x.tsv", **sections[section])
    return small_recipe(folder, folder / "x.tsv", task="classify", vectors={"file": "v.txt"})


@pytest.mark.parametrize(("section", "name"), settings())
def test_a_setting_newer_than_the_checkpoint_has_its_default(tmp_path, section, name):
    """Whatever its default is, None as well."""
    recipe = recipe_with(section, tmp_path)
    saved = recipe_to_dict(recipe)
    default = {field.name: field.default for field in msgspec.structs.fields(SECTIONS.get(section, Recipe))}[name]
    (saved if section is None else saved[section]).pop(name)
    parsed = parse_saved_recipe(saved, "state.json")
    own = parsed if section is None else getattr(parsed, section)
    if default is not msgspec.NODEFAULT:
        assert getattr(own, name) == default
    free = name in FREE_OF_TRAIN if section == "train" else (section or name) in FREE
    same = getattr(own, name) == getattr(recipe if section is None else getattr(recipe, section), name)
    if free or same:
        check_recipe(recipe, parsed, tmp_path)
    else:
        with pytest.raises(Misfit, match=f"holds a run with another recipe: .*{name}"):
            check_recipe(recipe, parsed, tmp_path)


@pytest.mark.parametrize("section", [None, *SECTIONS])
def test_a_setting_that_this_version_does_not_have_is_named(tmp_path, section):
    saved = recipe_to_dict(recipe_with(section, tmp_path))
    (saved if section is None else saved[section])["newer"] = 1
    with pytest.raises(Misfit) as error:
        parse_saved_recipe(saved, "state.json")
    setting = "newer" if section is None else f"{section}.newer"
    assert str(error.value) == (
        f"state.json holds a run with the setting {setting!r}, which this version of Transom does not have;"
        " use the version that wrote it, or choose another folder"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda state: state.pop("standing"),
            "must hold the state of a training run, but it does not fit: Object missing required field `standing`;"
            " use the version of Transom that wrote it, or choose another folder",
        ),
        (
            lambda state: state.update(more=1),
            "must hold the state of a training run, but it does not fit: Object contains unknown field `more`;"
            " use the version of Transom that wrote it, or choose another folder",
        ),
        (
            lambda state: state["standing"]["place"].update(epoch="0"),
            "must hold the state of a training run, but it does not fit: Expected `int`, got `str` - at"
            " `$.standing.place.epoch`; use the version of Transom that wrote it, or choose another folder",
        ),
        (
            lambda state: state["standing"]["place"].update(updates=1),
            "must hold the counts of step 2, but it has 1 updates, the best 0, and 0 evaluations without gain;"
            " choose another folder",
        ),
        (
            lambda state: state["standing"].update(best_update=3),
            "must hold the counts of step 2, but it has 2 updates, the best 3, and 0 evaluations without gain;"
            " choose another folder",
        ),
        (
            lambda state: state.update(scale={"scale": 2.0}),
            "must hold the state of a training run, but it does not fit: Object missing required field"
            " `growth_factor`; use the version of Transom that wrote it, or choose another folder",
        ),
        (
            lambda state: state["recipe"]["train"].update(precision="float16"),
            "must hold a loss scale for train.precision = 'float16' only, but for 'float16' there is none;"
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
    path = checkpoint_path(tmp_path / "run/checkpoints", 2)
    assert training_error(run) == f"{path / 'state.json'} {message}"


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
        (lambda groups: groups[1].update(params=[0]), "'params' as (0,), but this one has"),
    ],
)
def test_settings_of_an_optimizer_that_do_not_fit_are_refused(tmp_path, run, change, message):
    rewrite_state(tmp_path / "run", 2, lambda state: change(state["optimizer"]))
    message_found = training_error(run)
    assert message_found.startswith(f"the checkpoint has the optimizer's {message}")
    assert message_found.endswith("; resume with the recipe the run started with")


def test_a_position_that_the_data_does_not_have_is_refused(tmp_path, run):
    """What a checkpoint without hashes would have shown of a shrunken corpus."""
    path = checkpoint_path(tmp_path / "run/checkpoints", 2)
    rewrite_state(tmp_path / "run", 2, lambda state: state["standing"]["place"].update(position=3))
    assert training_error(run) == (
        f"{path} is at batch 3 of epoch 0, but after 2 batches of this data no run is there; restore the data"
        " it started with, or choose another folder"
    )


@pytest.mark.parametrize("gone", ["model", "optimizer"])
def test_a_checkpoint_without_a_group_is_refused(tmp_path, run, gone):
    path = checkpoint_path(tmp_path / "run/checkpoints", 2)
    (path / f"{gone}.safetensors").unlink()
    as_if_whole(path, json.loads((path / "state.json").read_bytes()))
    assert training_error(run) == f"{path} must hold {gone}.safetensors, but it does not; choose another folder"


@pytest.mark.parametrize("has", [True, False])
def test_auto_is_bfloat16_if_the_processor_has_it_and_stays(tmp_path, monkeypatch, has):
    """Also on another machine: a run resumes in the precision it started with, bit for bit."""
    recipe, named = (
        small_recipe(tmp_path / name, pairs_file(tmp_path), train={**SHORT, "precision": chosen})
        for name, chosen in (("auto", "auto"), ("named", "bfloat16" if has else "float32"))
    )
    monkeypatch.setattr(precision, "has_bfloat16", lambda: has)
    train(named)
    train_and_stop(recipe)
    path = checkpoint_path(tmp_path / "auto/checkpoints", 2)
    assert parse_checkpoint(load_checkpoint(path)).recipe.train.precision == named.train.precision
    monkeypatch.setattr(precision, "has_bfloat16", lambda: not has)
    notes = Notes()
    train(recipe, callbacks=[notes])
    assert outcome(recipe) == outcome(named)
    assert notes.texts == [*([WARNING] if has else []), "resuming from update 2"]


WARNING = (
    "warning: train.precision = 'bfloat16' needs a processor with bfloat16 arithmetic to be fast, but this one has"
    " no avx512_bf16, amx_bf16, bf16: a step may take 7 to 12 times as long as in float32; train.precision = 'auto'"
    " would choose float32 here, in a new folder"
)


def test_a_run_that_named_its_precision_resumes_with_auto(tmp_path):
    """The shipped recipes named bfloat16 in Transom 0.1.0."""
    data = pairs_file(tmp_path)
    train_and_stop(small_recipe(tmp_path / "run", data, train={**SHORT, "precision": "bfloat16"}))
    shutil.copytree(tmp_path / "run", tmp_path / "twin")
    for name, chosen in (("run", "auto"), ("twin", "bfloat16")):
        train(small_recipe(tmp_path / name, data, train={**SHORT, "precision": chosen}))
    assert outcome(small_recipe(tmp_path / "run", data)) == outcome(small_recipe(tmp_path / "twin", data))
    assert training_error(
        small_recipe(tmp_path / "run", data, train={**SHORT, "updates": 8, "precision": "float32"})
    ) == (
        f"{tmp_path}/run/checkpoints holds a run with another recipe: train.precision was 'bfloat16' and is 'float32'"
        " now; change it back, or choose another folder"
    )
