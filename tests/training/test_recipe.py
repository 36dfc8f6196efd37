"""Recipes: every setting known and explained, every mistake an error with its way out."""

import math
import random
import re
import runpy
import tomllib
from pathlib import Path

import msgspec
import pytest

from transom.models import PRESETS, EncoderDecoderConfig
from transom.names import Misfit
from transom.text.corpora import FORMATS
from transom.training import recipe as recipes
from transom.training.recipe import (
    SECTIONS,
    TASK_NAMES,
    Recipe,
    apply_override,
    load_recipe,
    model_config,
    parse_recipe,
)
from transom.training.tasks import TASKS
from transom.training.train import train

ROOT = Path(__file__).parent.parent.parent
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))


def table(**changes):
    """A minimal recipe."""
    least = {"task": "translate", "folder": "out", "data": {"train": "x.tsv", "format": "tsv", "held_out": 3}}
    return {**least, "train": {"updates": 7}, **changes}


def parsing_error(settings):
    with pytest.raises(Misfit) as error:
        parse_recipe(settings, "mine.toml")
    return str(error.value)


def test_a_missing_setting_has_a_default():
    recipe = parse_recipe(table(), "mine.toml")
    assert (recipe.seed, recipe.optimizer.kind, recipe.schedule.kind, recipe.train.keep) == (
        1,
        "adamw",
        "inverse_sqrt",
        3,
    )
    assert recipe.vectors is None
    assert recipe.model == {}


def test_recipes_know_every_task():
    assert set(TASK_NAMES) == set(TASKS)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_shipped_recipe_loads(path):
    assert load_recipe(path).folder == f"out/{path.stem}"


def test_the_reverse_recipe_reverses(monkeypatch):
    monkeypatch.chdir(ROOT)
    lines = Path(load_recipe(ROOT / "recipes/reverse.toml").data.train).read_text(encoding="utf-8").splitlines()
    assert len(set(lines)) == 3000
    assert all(line.split("\t")[1] == line.split("\t")[0][::-1] for line in lines)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_reference_names_every_setting(section):
    """Also those it does not set: they are commented out."""
    text = (ROOT / "recipes/reference.toml").read_text(encoding="utf-8")
    part = re.search(rf"^(?:# )?\[{section}\](.*?)(?=^(?:# )?\[|\Z)", text, re.DOTALL | re.MULTILINE)
    assert part is not None
    names = re.findall(r"^(?:# )?(\w+) = ", part[1], re.MULTILINE)
    assert sorted(names) == sorted(field.name for field in msgspec.structs.fields(SECTIONS[section]))


def test_the_reference_runs_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    recipe = load_recipe(ROOT / "recipes/reference.toml", [f"folder={tmp_path}", "train.updates=2", "train.threads=1"])
    assert train(recipe) == tmp_path / "model"
    assert (tmp_path / "model" / "model.safetensors").is_file()


UNKNOWN = {"data": "trian", "tokens": "vocabluary", "vectors": "fiel", "optimizer": "rat", "schedule": "warmpu"}
UNKNOWN |= {"train": "update", "judge": "beam", "augment": "typo", "start": "modle", "lora": "rnak"}
SUGGESTED = {"data": "train", "tokens": "vocabulary", "vectors": "file", "optimizer": "rate", "schedule": "warmup"}
SUGGESTED |= {"train": "updates", "judge": "beams", "augment": "typos", "start": "model", "lora": "rank"}


@pytest.mark.parametrize("section", SECTIONS)
def test_an_unknown_name_in_a_section_suggests_the_nearest(section):
    settings = table()
    settings[section] = {**settings.get(section, {}), UNKNOWN[section]: 1}
    assert parsing_error(settings) == (
        f"mine.toml: [{section}] has no setting {UNKNOWN[section]!r}; did you mean {SUGGESTED[section]!r}?"
    )


def test_an_unknown_name_beside_the_sections_suggests_the_nearest():
    assert parsing_error(table(optimiser={})) == "mine.toml has no setting 'optimiser'; did you mean 'optimizer'?"


CHOICES = "must be one of {}, but got {!r}; did you mean {!r}?"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "translat"}, f"task {CHOICES.format('translate, write, classify', 'translat', 'translate')}"),
        (
            {"data": {"train": "x", "format": "tvs", "held_out": 3}},
            f"data.format {CHOICES.format(', '.join(FORMATS), 'tvs', 'tsv')}",
        ),
        ({"tokens": {"kind": "word"}}, f"tokens.kind {CHOICES.format('bpe, words, characters', 'word', 'words')}"),
        ({"optimizer": {"kind": "adanw"}}, f"optimizer.kind {CHOICES.format('adamw, adam', 'adanw', 'adamw')}"),
        (
            {"schedule": {"kind": "cosin"}},
            f"schedule.kind {CHOICES.format('inverse_sqrt, cosine, linear, constant', 'cosin', 'cosine')}",
        ),
        (
            {"train": {"updates": 7, "precision": "bfloat61"}},
            f"train.precision {CHOICES.format('float32, bfloat16, float16, auto', 'bfloat61', 'bfloat16')}",
        ),
        ({"train": {"updates": 7, "wrapping": "dpd"}}, f"train.wrapping {CHOICES.format('ddp, fsdp', 'dpd', 'ddp')}"),
        (
            {"model": {"preset": "tinny"}},
            f"model.preset {CHOICES.format('base, tiny, shakespeare_char', 'tinny', 'tiny')}",
        ),
        (
            {"model": {"preset": ["tiny"]}},
            "model.preset must be one of base, tiny, shakespeare_char, but got \"['tiny']\"; did you mean 'tiny'?",
        ),
        ({"train": {}}, "a run needs a length, but train.updates=0 and train.epochs=0; give one of the two"),
        (
            {"train": {"updates": 7, "epochs": 3}},
            "a run needs a length, but train.updates=7 and train.epochs=3; give one of the two",
        ),
        (
            {"data": {"train": "x", "format": "tsv"}},
            "a model is evaluated on unseen data, data.valid or data.held_out of data.train, but neither was given;"
            " give one of the two",
        ),
        (
            {"data": {"train": "x", "format": "tsv", "valid": "y", "held_out": 3}},
            "a model is evaluated on unseen data, data.valid or data.held_out of data.train, but both was given;"
            " give one of the two",
        ),
        (
            {"vectors": {"file": "glove.txt"}},
            "[vectors] are for task = 'classify', but it is 'translate'; leave the section out",
        ),
        (
            {"task": "write", "data": {"train": "x", "format": "lines", "held_out": 3, "test": 5}},
            "task = 'write' has no test set, but data.test=5; leave it out",
        ),
        (
            {"model": {"vocabulary": 5}},
            "model.vocabulary comes from the tokenizer, but it is in [model] too; leave it out",
        ),
        ({"model": {"labels": ["a"]}}, "model.labels comes from the examples, but it is in [model] too; leave it out"),
        ({"train": 7}, "train must be a section, but it is 7; write [train]"),
    ],
)
def test_settings_that_do_not_fit_together_are_errors(changes, message):
    assert parsing_error(table(**changes)) == f"mine.toml: {message}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"updates": "many"}}, "[train] does not fit: Expected `int`, got `str` - at `$.updates`"),
        ({"train": {"updates": -1}}, "[train] does not fit: Expected `int` >= 0 - at `$.updates`"),
        ({"train": {"updates": 7, "accumulate": 0}}, "[train] does not fit: Expected `int` >= 1 - at `$.accumulate`"),
        ({"optimizer": {"rate": 0.0}}, "[optimizer] does not fit: Expected `float` > 0.0 - at `$.rate`"),
        ({"optimizer": {"rate": math.nan}}, "[optimizer] does not fit: Expected `float` > 0.0 - at `$.rate`"),
        ({"data": {"format": "tsv"}}, "[data] does not fit: Object missing required field `train`"),
    ],
)
def test_a_value_of_the_wrong_kind_is_an_error(changes, message):
    assert parsing_error(table(**changes)) == f"mine.toml: {message}; correct that setting"


def test_a_recipe_without_a_task_is_an_error():
    settings = table()
    del settings["task"]
    assert (
        parsing_error(settings) == "mine.toml does not fit: Object missing required field `task`; correct that setting"
    )


def write_recipe(tmp_path, content):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    return path


def loading_error(path, *sets):
    with pytest.raises(Misfit) as error:
        load_recipe(path, sets)
    return str(error.value)


def test_files_that_are_no_recipe_are_errors(tmp_path, monkeypatch):
    gone = tmp_path / "gone.toml"
    assert (
        loading_error(gone)
        == f"{gone} should be a file, but it cannot be opened: No such file or directory; check the path"
    )
    path = write_recipe(tmp_path, b"task = ")
    message = "should be TOML, but Invalid value (at end of document); see recipes/reference.toml"
    assert loading_error(path) == f"the recipe {path} {message}"
    path = write_recipe(tmp_path, b"task = '\xff'")
    message = "text must be UTF-8, but byte 0xff is not; save the file as UTF-8"
    assert loading_error(path) == f"{path}, line 1: {message}"
    path = write_recipe(tmp_path, b".".join([b"a"] * 50_000) + b" = 1")
    message = "should be TOML, but a key in it has more than 16 parts; see recipes/reference.toml"
    assert loading_error(path) == f"the recipe {path} {message}"
    monkeypatch.setattr(recipes, "LONGEST", 5)
    path = write_recipe(tmp_path, b"a = 123")
    assert loading_error(path) == f"{path} may have at most 5 bytes, but it has more; is it another file?"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("train.updates=100", {"train": {"updates": 100}}),
        ("optimizer.rate = 1e-3", {"optimizer": {"rate": 1e-3}}),
        ("optimizer.betas=[0.9, 0.99]", {"optimizer": {"betas": [0.9, 0.99]}}),
        ("folder=out/mine", {"folder": "out/mine"}),
        ("folder='out = mine'", {"folder": "out = mine"}),
        ("folder=a=b", {"folder": "a=b"}),
        ("judge.write=true", {"judge": {"write": True}}),
        ("data.train=", {"data": {"train": ""}}),
    ],
)
def test_set_puts_a_value_of_toml_or_a_plain_string(override, expected):
    settings: dict = {}
    apply_override(settings, override)
    assert settings == expected


def test_set_goes_on_top_of_the_file(tmp_path):
    path = write_recipe(
        tmp_path, b"task='write'\nfolder='a'\ndata={train='x',format='lines',held_out=3}\ntrain.updates=5\n"
    )
    assert load_recipe(path).train.updates == 5
    assert load_recipe(path, ["train.updates=6", "train.updates=7", "seed=11"]).train.updates == 7
    for bad in ("train.updates", "=5", " = 5"):
        assert (
            loading_error(path, bad) == f"--set takes key=value, but got {bad!r}; for example --set train.updates=100"
        )
    message = "needs a section 'folder', but it is a value; see recipes/reference.toml"
    assert loading_error(path, "folder.name=x") == f"--set folder.name=x {message}"
    assert loading_error(path, "train.update=5") == f"{path}: [train] has no setting 'update'; did you mean 'updates'?"


def test_a_preset_is_a_start_that_the_recipe_changes():
    recipe = parse_recipe(table(model={"preset": "tiny", "dropout": 0.0}), "mine.toml")
    expected = msgspec.structs.replace(PRESETS["tiny"](29), dropout=0.0)
    assert model_config(EncoderDecoderConfig, recipe, 29) == expected


def test_the_table_of_sections_is_complete():
    plain = {"task", "folder", "seed", "model"}
    assert {field.name for field in msgspec.structs.fields(Recipe)} - plain == set(SECTIONS)


def test_the_reference_is_toml_without_doubt():
    assert tomllib.loads((ROOT / "recipes/reference.toml").read_text(encoding="utf-8"))["task"] == "translate"


def test_pictures_of_digits_are_drawn_as_patches():
    """Every pixel of a picture is a dot of one Braille character, at its place."""
    drawing = runpy.run_path(str(ROOT / "recipes/digits/draw_digits.py"))
    picture = drawing["draw_digit"]("4", random.Random(5))
    text = drawing["picture_as_text"](picture)
    assert len(text) == 32
    dots = {0: (0, 0), 1: (1, 0), 2: (2, 0), 3: (0, 1), 4: (1, 1), 5: (2, 1), 6: (3, 0), 7: (3, 1)}  # as Unicode has it
    black = {
        (4 * (place // 8) + y, 2 * (place % 8) + x)
        for place, patch in enumerate(text)
        for bit, (y, x) in dots.items()
        if patch != "·" and (ord(patch) - 0x2800) >> bit & 1
    }
    assert black == {(y, x) for y, row in enumerate(picture) for x, is_black in enumerate(row) if is_black}
    assert 20 < len(black) < 120
