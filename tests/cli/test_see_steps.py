"""`transom see --steps`: the numbers of one token, the arithmetic of one cell, and pictures in files."""

import json
import re
from functools import partial

import pytest
import torch

import transom
from transom.cli.see_steps import NO_MODEL
from transom.lens.capture.head_origin import BEFORE
from transom.runner import load_text_model
from transom.show.formatting import display_width

pytestmark = pytest.mark.usefixtures("own_errors")
TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def folder(model_folder):
    return str(model_folder("transom", "decoder"))


@pytest.fixture
def see(folder, run_command):
    """Runs `transom see` on one head."""
    return partial(run_command, "see", TEXT, "--model", folder, "--layer", 0, "--head", 1)


def watch_text(folder):
    """The first attention of the model on the text, and the tokens."""
    model = load_text_model(folder)
    with transom.watch(model.model) as trace:
        model.run(model.encode_text(TEXT))
    return trace[0], model.encode_text(TEXT).tokens


def test_the_steps_of_one_token_are_those_of_the_model(see, folder):
    sight, tokens = watch_text(folder)
    row = len(tokens) - 2
    lines = see("--steps", "--token", row).out.splitlines()
    weights = sight.weights(batch=0, head=1, rows=row).tolist()
    first = next(number for number, line in enumerate(lines) if line.startswith("at ↓ step →"))
    printed = [float(line.split()[-1]) for line in lines[first + 1 : first + row + 2]]
    assert printed == pytest.approx(weights[: row + 1], abs=5e-5)
    assert len(lines) <= 40
    assert max(map(display_width, lines)) <= 100


def test_the_steps_go_from_the_input_to_the_output(see, folder):
    found = json.loads(see("--steps", "--json").out)
    by_name = {step["name"]: torch.tensor(step["values"]) for step in found["steps"] if step["name"] != "masked"}
    assert list(by_name) == ["embedding", "Q", "K", "V", "scores", "scaled", "weights", "sum", "joined", "output"]
    model, calls = load_text_model(folder), []
    module = model.model.get_submodule(found["layer"])
    with torch.no_grad():
        module.register_forward_hook(lambda _, args, output: calls.append((args[0][0], output[0])))
        model.run(model.encode_text(TEXT))
    for name, expected in zip(("embedding", "output"), calls[0], strict=True):
        assert torch.allclose(by_name[name], expected, rtol=1e-5, atol=1e-5)
    assert found["notes"] == [BEFORE]
    lines = see("--steps").out
    assert lines.index("embedding: ") < lines.index("Q: ") < lines.index("sum: ") < lines.index("output: ")
    assert "Of 12 numbers of a vector, 6 are shown." in lines


def test_a_saved_run_begins_at_q_and_says_why(see, run_command, tmp_path):
    see("--save", tmp_path / "run.safetensors")
    found = json.loads(run_command("see", "--trace", tmp_path / "run.safetensors", "--steps", "--json").out)
    assert found["steps"][0]["name"] == "Q"
    assert found["notes"] == [NO_MODEL]


def test_the_arithmetic_of_a_cell_gives_its_score(see, folder):
    sight, _ = watch_text(folder)
    out = see("--cell", "3,1").out
    sums = " ".join(out.split("scores = Q Kᵀ")[1].split("scaled:")[0].split())
    terms = re.findall(r"\(?(-?[\d.]+(?:e-?\d+)?)\)?·\(?(-?[\d.]+(?:e-?\d+)?)\)?", sums)
    assert len(terms) == sight.Q.shape[3]
    score = float(sight.scores(batch=0, head=1, rows=3, keys=1)) / sight.problem.scale
    assert sum(float(left) * float(right) for left, right in terms) == pytest.approx(score, abs=2e-3)
    assert "weights = softmax(masked)" in out


def test_json_has_every_step_or_one_cell(see, folder):
    sight, tokens = watch_text(folder)
    found = json.loads(see("--steps", "--json").out)
    assert found["reads"] == found["at"] == tokens
    assert found["receipt"]["holds"] is True
    by_name = {step["name"]: step["values"] for step in found["steps"]}
    assert by_name["weights"][2] == pytest.approx(sight.weights(batch=0, head=1, rows=2).tolist(), abs=1e-6)
    found = json.loads(see("--cell", "2,-1", "--json").out)
    assert (found["row"], found["column"]) == (2, len(tokens) - 1)
    assert found["cell"]["masked"]["masked"] is True
    assert found["cell"]["weights"]["result"] == 0.0


def test_pictures_are_saved_in_the_named_files(see, tmp_path):
    page, figure = tmp_path / "steps.html", tmp_path / "steps.svg"
    err = see("--steps", "--html", page, "--svg", figure).err
    assert err == f"the picture is in {page}\nthe picture is in {figure}\n"
    assert page.read_text(encoding="utf-8").count("popovertarget") > 100
    assert "Every step of" in figure.read_text(encoding="utf-8")
    see("--html", tmp_path / "head.html")
    overview = (tmp_path / "head.html").read_text(encoding="utf-8")
    assert "Where " in overview
    assert "arrows are drawn" in overview


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--cell", "3"], "--cell takes FROM,AT, two tokens by number or text, but got '3'; try --cell 0,0"),
        (["--cell", "99,0"], "FROM 99 is none of the 6 tokens; count from 0 to 5"),
        (["--token", "99"], "--token 99 is none of the 6 tokens; count from 0 to 5"),
        (["--token", "the"], "--token 'the' occurs 2 times; give its number, one of 0, 4"),
        (["--cell", "caat,0"], "FROM 'caat' is none of the tokens; did you mean 'cat'?"),
        (
            ["--svg", "no-folder/x.svg"],
            "no-folder/x.svg could not be written: No such file or directory; choose another folder",
        ),
    ],
)
def test_bad_use_is_one_line(see, args, message):
    assert see(*args, code=2).err == f"transom: {message}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--cell", "cat,sat", "--layer", "decoder.blocks.1.attention"],
            "--cell cat,sat is not in decoder.blocks.1.attention (the target), but in encoder.blocks.1.attention"
            " (the source); give --layer encoder.blocks.1.attention",
        ),
        (
            ["--cell", "chat,cat", "--layer", "decoder.blocks.0.attention"],
            "--cell chat,cat is not in decoder.blocks.0.attention (the target), but in decoder.blocks.0.cross"
            " (from the target at the source); give --layer decoder.blocks.0.cross",
        ),
        (
            ["--token", "cat", "--layer", "decoder.blocks.0.cross"],
            "--token cat is not in decoder.blocks.0.cross (from the target at the source), but in"
            " encoder.blocks.0.attention (the source); give --layer encoder.blocks.0.attention",
        ),
        (
            ["--cell", "dog,sat", "--layer", "encoder.blocks.1.attention"],
            "FROM 'dog' is none of the tokens; there are the, cat, sat, ., </s>",
        ),
    ],
)
def test_a_token_of_another_attention_is_pointed_to(complaint, args, message):
    assert complaint("see", "The cat sat.", "--head", 0, *args) == message
