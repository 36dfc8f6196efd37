"""train, evaluate, translate, generate and classify as one calls them: what goes to stdout, and every complaint."""

import io
import json
import random
import sys

import pytest

from transom.cli import main

pytestmark = pytest.mark.usefixtures("own_errors")
SIZES = "d_model = 8\nd_hidden = 11\nheads = 2\nlongest = 32\n"
TRAIN = "[train]\nupdates = 4\ntokens = 128\nblock = 7\nrows = 3\njudge_every = 2\nthreads = 1\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data, a recipe for each task, and a model by each."""
    folder = tmp_path_factory.mktemp("home")
    draws = random.Random(1)
    texts = [" ".join(draws.choices("abcde", k=draws.randint(2, 6))) for _ in range(60)]
    (folder / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts))
    (folder / "labelled.txt").write_text("".join(f"{'yes' if 'a' in text else 'no'} {text}\n" for text in texts))
    (folder / "text.txt").write_text("\n".join(texts))
    recipe(folder, "translate", "pairs.tsv", "tsv", "words", "encoder_layers = 1\ndecoder_layers = 1\n")
    recipe(folder, "classify", "labelled.txt", "labelled", "words", "layers = 1\n")
    recipe(folder, "write", "text.txt", "document", "characters", "layers = 1\npositions = 'learned'\n")
    return folder


def recipe(folder, task, file, format, kind, model):
    (folder / f"{task}.toml").write_text(
        f"task = '{task}'\nfolder = '{folder}/{task}'\n[data]\ntrain = '{folder}/{file}'\nformat = '{format}'\n"
        f"held_out = 20\n[tokens]\nkind = '{kind}'\n[model]\n{model}{SIZES}{TRAIN}[judge]\nwrite = false\n"
    )


@pytest.fixture(scope="module", autouse=True)
def trained(home):
    for task in ("translate", "classify", "write"):
        assert main(["train", str(home / f"{task}.toml")]) == 0


def said(capsys, *words):
    """What a command printed, which must have gone well."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def complaint(capsys, *words):
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix("transom: ").rstrip("\n")


def test_train_prints_the_folder_or_every_judgement(home, capsys):
    assert said(capsys, "train", home / "translate.toml") == f"{home}/translate/model\n"
    found = json.loads(said(capsys, "train", home / "translate.toml", "--json"))
    assert found["model"] == f"{home}/translate/model"
    assert [one["update"] for one in found["judged"]] == [2, 4]
    assert set(found["judged"][0]) == {"update", "loss", "perplexity"}


def test_train_takes_settings_on_top(home, capsys, tmp_path):
    said(capsys, "train", home / "write.toml", "--set", f"folder={tmp_path}", "--set", "train.updates=1")
    assert [json.loads(line)["update"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [1, 1]


def test_train_says_progress_on_stderr(home, capsys, tmp_path):
    assert main(["train", str(home / "write.toml"), "--set", f"folder={tmp_path}"]) == 0
    assert "parameters, 4 updates" in capsys.readouterr().err


def test_ctrl_c_is_a_line_and_code_130(home, capsys, monkeypatch, tmp_path):
    def stopped(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("transom.run.training.Training.update", stopped)
    assert main(["train", str(home / "write.toml"), "--set", f"folder={tmp_path}"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("transom: stopped; the same command goes on from the last checkpoint\n")


MEASURES = {"translate": ["loss", "perplexity", "bleu", "chrf"], "classify": ["loss", "accuracy", "f1"]}
MEASURES |= {"write": ["loss", "perplexity"]}


@pytest.mark.parametrize("task", MEASURES)
def test_evaluate_prints_each_measure(home, capsys, task):
    assert main(["evaluate", str(home / f"{task}.toml"), "--beams", "2"]) == 0
    out, err = capsys.readouterr()
    in_vain = f"--beams changes nothing where nothing is translated, and the task is {task}; leave it out"
    assert (f"transom: {in_vain}\n" in err) == (task != "translate")
    lines = out.splitlines()
    signed = [line.split()[1] for line in lines if line.startswith("signature")]
    lines = lines[: len(lines) - len(signed)]
    assert [line.split()[0] for line in lines] == MEASURES[task]
    found = json.loads(said(capsys, "evaluate", home / f"{task}.toml", "--beams", 2, "--json"))
    assert found.pop("model") == f"{home}/{task}/model"
    assert [found.pop("signature")] == signed if task == "translate" else not signed
    assert list(found) == MEASURES[task]
    for line in lines:
        name, number = line.split()
        assert float(number) == pytest.approx(found[name], rel=1e-3)


def test_texts_come_as_arguments_lines_of_a_file_or_of_stdin(home, capsys, monkeypatch, tmp_path):
    model = ["--model", home / "translate" / "model"]
    expected = said(capsys, "translate", "a b", "c d e", *model)
    assert len(expected.splitlines()) == 2
    (tmp_path / "texts.txt").write_text("a b\nc d e\n")
    assert said(capsys, "translate", "--file", tmp_path / "texts.txt", *model) == expected
    monkeypatch.setattr(sys, "stdin", io.StringIO("a b\nc d e\n"))
    assert said(capsys, "translate", *model) == expected
    rows = json.loads(said(capsys, "translate", "a b", "c d e", "--json", *model))
    assert [row["source"] for row in rows] == ["a b", "c d e"]
    assert [row["target"] for row in rows] == expected.splitlines()


def test_empty_lines_stay_empty_in_a_translation(home, capsys, monkeypatch, tmp_path):
    model = ["--model", home / "translate" / "model"]
    first, second = said(capsys, "translate", "a b", "c d e", *model).splitlines()
    lines = "\na b\n \nc d e\n\n"
    (tmp_path / "texts.txt").write_text(lines)
    assert said(capsys, "translate", "--file", tmp_path / "texts.txt", *model) == f"\n{first}\n\n{second}\n\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    rows = json.loads(said(capsys, "translate", "--json", *model))
    assert [row["source"] for row in rows] == ["", "a b", " ", "c d e", ""]
    assert [row["target"] for row in rows] == ["", first, "", second, ""]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))
    assert complaint(capsys, "translate", *model) == (
        "there should be a text to work on, but none came; give one, or --file, or lines on stdin"
    )
    assert complaint(capsys, "translate", "", *model) == (
        "text 1 of 1 is empty, but there must be something to read; leave it out"
    )


def test_classify_prints_label_chance_and_text(home, capsys):
    model = ["--model", home / "classify" / "model"]
    label, chance, text = said(capsys, "classify", "a b", *model).rstrip("\n").split("\t")
    (row,) = json.loads(said(capsys, "classify", "a b", "--json", *model))
    assert (text, row["text"]) == ("a b", "a b")
    assert label == row["label"] == max(row["chances"], key=row["chances"].get)
    assert float(chance) == pytest.approx(row["chances"][label], abs=1e-3)
    assert set(row["chances"]) == {"yes", "no"}


@pytest.mark.parametrize("how", [["--temperature", "0"], ["--seed", "3"], ["--seed", "3", "--top-k", "2"]])
def test_generate_writes_on_also_beyond_the_longest(home, capsys, how):
    words = ["generate", "a b", "--model", home / "write" / "model", "--tokens", 50, *how]
    shown = said(capsys, *words)
    (row,) = json.loads(said(capsys, *words, "--json"))
    assert row["prompt"] == "a b"
    assert shown == f"a b{row['text']}\n"
    assert said(capsys, *words) == shown


def test_generate_begins_anew_without_a_prompt(home, capsys):
    words = ["generate", "--model", home / "write" / "model", "--tokens", 9, "--seed", 1]
    assert said(capsys, *words) == said(capsys, *words, "")


@pytest.mark.parametrize(("option", "value"), [("--top-k", "5"), ("--top-p", "0.5"), ("--seed", "1")])
def test_what_is_for_drawing_is_refused_where_nothing_is_drawn(home, capsys, option, value):
    words = ["generate", "a", "--model", home / "write" / "model", "--temperature", "0", option, value]
    assert complaint(capsys, *words) == (
        f"at --temperature 0 nothing is drawn, but {option} {value} came; leave one of the two out"
    )


def test_complaints_are_one_line(home, capsys, monkeypatch, tmp_path):
    model = ["--model", home / "classify" / "model"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert complaint(capsys, "classify", *model) == (
        "there should be a text to work on, but none came; give one, or --file, or lines on stdin"
    )
    assert complaint(capsys, "classify", "a", "--model", tmp_path / "gone") == (
        f"{tmp_path}/gone should be the folder of a model, but there is no such folder; check the path"
    )
    assert complaint(capsys, "translate", "a", *model) == (
        f"{home}/classify/model should hold a model to translate with, but it holds one to classify with;"
        " use transom classify, or name another folder"
    )
    assert complaint(capsys, "classify", "a", "--file", home / "text.txt", *model) == (
        "texts come as arguments or from --file, but both came; leave one out"
    )
    assert complaint(capsys, "train", tmp_path / "gone.toml") == (
        f"{tmp_path}/gone.toml should be a file, but it cannot be opened: No such file or directory; check the path"
    )
    assert complaint(capsys, "train", home / "write.toml", "--set", "train.update=3") == (
        f"{home}/write.toml: [train] has no setting 'update'; did you mean 'updates'?"
    )
    assert complaint(capsys, "generate", "a") == "Missing option '--model'; see transom generate --help"


def test_an_unfinished_run_is_named_and_its_newest_checkpoint_judged(home, capsys, tmp_path):
    """The checkpoint of the last update, before and after the run has come to its end."""
    there = ("--set", f"folder={tmp_path}")
    said(capsys, "train", home / "write.toml", *there)
    expected = json.loads(said(capsys, "evaluate", home / "write.toml", *there, "--json"))
    (tmp_path / "model").rename(tmp_path / "moved")
    capsys.readouterr()
    assert main(["evaluate", str(home / "write.toml"), *there, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == (
        f"{tmp_path} holds an unfinished run: judged is its newest whole checkpoint, after update 4; transom train"
        f" {home}/write.toml goes on with it\n"
    )
    path = f"{tmp_path}/checkpoints/step-00000004"
    assert json.loads(out) == {**expected, "model": path, "unfinished": True, "update": 4}
    assert complaint(capsys, "generate", "a", "--model", tmp_path / "model") == (
        f"{tmp_path}/model should be the folder of a model, but {tmp_path} holds an unfinished run, of 4 updates so"
        " far; finish it with transom train, or judge it with transom evaluate"
    )
