"""`transom see --steps`: one token's numbers, one cell's arithmetic, and pictures in files; bad use is told."""

import json
import re

import pytest
import torch
from model_folders import of_transom

from transom.cli import main
from transom.cli.any_model import opened
from transom.cli.see_steps import NO_MODEL
from transom.lens.asking.origin import BEFORE
from transom.show.visible import cells

pytestmark = pytest.mark.usefixtures("own_errors")
TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(of_transom("decoder", tmp_path_factory.mktemp("models") / "decoder"))


@pytest.fixture
def said(folder, capsys):
    def run(*words, code=0):
        capsys.readouterr()
        assert main(["see", TEXT, "--model", folder, "--layer", "0", "--head", "1", *map(str, words)]) == code
        return capsys.readouterr()

    return run


def looked(folder):
    import transom

    one = opened(folder)
    with transom.watch(one.model) as trace:
        one.run(one.encode(TEXT))
    return trace[0], one.encode(TEXT).tokens


def test_the_steps_of_one_token_are_those_of_the_model(said, folder):
    sight, tokens = looked(folder)
    row = len(tokens) - 2
    lines = said("--steps", "--token", row).out.splitlines()
    weights = sight.weights(batch=0, head=1, rows=row).tolist()
    first = next(number for number, line in enumerate(lines) if line.startswith("at ↓ step →"))
    printed = [float(line.split()[-1]) for line in lines[first + 1 : first + row + 2]]
    assert printed == pytest.approx(weights[: row + 1], abs=5e-5)
    assert len(lines) <= 40
    assert max(map(cells, lines)) <= 100


def test_the_steps_go_from_what_came_in_to_what_went_out(said, folder):
    found = json.loads(said("--steps", "--json").out)
    by_name = {step["name"]: torch.tensor(step["values"]) for step in found["steps"] if step["name"] != "masked"}
    assert list(by_name) == ["embedding", "Q", "K", "V", "scores", "scaled", "weights", "sum", "joined", "output"]
    one, kept = opened(folder), []
    module = one.model.get_submodule(found["layer"])
    with torch.no_grad():
        module.register_forward_hook(lambda _, given, out: kept.append((given[0][0], out[0])))
        one.run(one.encode(TEXT))
    for name, right in zip(("embedding", "output"), kept[0], strict=True):
        assert torch.allclose(by_name[name], right, rtol=1e-5, atol=1e-5)
    assert found["notes"] == [BEFORE]
    lines = said("--steps").out
    assert lines.index("embedding: ") < lines.index("Q: ") < lines.index("sum: ") < lines.index("output: ")
    assert "Of 12 numbers of a vector, 6 are shown." in lines


def test_a_run_from_a_file_begins_at_q_and_says_why(said, tmp_path, capsys):
    said("--save", tmp_path / "run.safetensors")
    capsys.readouterr()
    assert main(["see", "--trace", str(tmp_path / "run.safetensors"), "--steps", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps"][0]["name"] == "Q"
    assert found["notes"] == [NO_MODEL]


def test_the_arithmetic_of_a_cell_is_written_out_and_comes_out(said, folder):
    sight, _ = looked(folder)
    out = said("--cell", "3,1").out
    sums = " ".join(out.split("scores = Q Kᵀ")[1].split("scaled:")[0].split())
    terms = re.findall(r"\(?(-?[\d.]+(?:e-?\d+)?)\)?·\(?(-?[\d.]+(?:e-?\d+)?)\)?", sums)
    assert len(terms) == sight.Q.shape[3]
    score = float(sight.scores(batch=0, head=1, rows=3, keys=1)) / sight.problem.scale
    assert sum(float(left) * float(right) for left, right in terms) == pytest.approx(score, abs=2e-3)
    assert "weights = softmax(masked)" in out


def test_json_has_every_step_or_one_cell(said, folder):
    sight, tokens = looked(folder)
    found = json.loads(said("--steps", "--json").out)
    assert found["reads"] == found["at"] == tokens
    assert found["receipt"]["holds"] is True
    by_name = {step["name"]: step["values"] for step in found["steps"]}
    assert by_name["weights"][2] == pytest.approx(sight.weights(batch=0, head=1, rows=2).tolist(), abs=1e-6)
    one = json.loads(said("--cell", "2,-1", "--json").out)
    assert (one["row"], one["column"]) == (2, len(tokens) - 1)
    assert one["cell"]["masked"]["masked"] is True
    assert one["cell"]["weights"]["result"] == 0.0


def test_pictures_go_into_the_files_that_were_named(said, tmp_path):
    page, figure = tmp_path / "steps.html", tmp_path / "steps.svg"
    told = said("--steps", "--html", page, "--svg", figure).err
    assert told == f"the picture is in {page}\nthe picture is in {figure}\n"
    assert page.read_text(encoding="utf-8").count("popovertarget") > 100
    assert "Every step of" in figure.read_text(encoding="utf-8")
    said("--html", tmp_path / "head.html")
    whole = (tmp_path / "head.html").read_text(encoding="utf-8")
    assert "Where " in whole
    assert "arrows are drawn" in whole


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cell", "3"], "--cell takes FROM,AT, two tokens by number or text, but got '3'; try --cell 0,0"),
        (["--cell", "99,0"], "FROM 99 is none of the 6 tokens; count from 0 to 5"),
        (["--token", "99"], "--token 99 is none of the 6 tokens; count from 0 to 5"),
        (["--token", "the"], "--token 'the' stands there 2 times; give its number, one of 0, 4"),
        (["--cell", "caat,0"], "FROM 'caat' is none of the tokens; did you mean 'cat'?"),
        (
            ["--svg", "no-folder/x.svg"],
            "no-folder/x.svg could not be written: No such file or directory; choose another folder",
        ),
    ],
)
def test_bad_use_is_told_in_one_line(said, words, message, folder):
    assert looked(folder)[1] is not None
    assert said(*words, code=2).err == f"transom: {message}\n"


@pytest.mark.parametrize(
    ("words", "message"),
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
            "FROM 'dog' is none of the tokens; there are The, cat, sat, ., </s>",
        ),
    ],
)
def test_a_token_of_the_other_side_is_pointed_to(capsys, words, message):
    assert main(["see", "The cat sat.", "--head", "0", *words]) == 2
    assert capsys.readouterr().err == f"transom: {message}\n"
