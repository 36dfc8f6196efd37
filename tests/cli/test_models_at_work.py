"""train, evaluate, translate, generate and classify as commands: what they print, and every error."""

import io
import json
import random
import sys

import pytest

from transom.cli import main
from transom.cli.cli_io import read_texts

pytestmark = pytest.mark.usefixtures("own_errors")
SIZES = "d_model = 8\nd_hidden = 11\nheads = 2\nlongest = 32\n"
TRAIN = "[train]\nupdates = 4\ntokens = 128\nblock = 7\nrows = 3\njudge_every = 2\nthreads = 1\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data, a recipe for each task, and a model by each."""
    folder = tmp_path_factory.mktemp("home")
    rng = random.Random(1)
    texts = [" ".join(rng.choices("abcde", k=rng.randint(2, 6))) for _ in range(60)]
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


def test_train_prints_the_folder_or_every_evaluation(home, run_command):
    assert run_command("train", home / "translate.toml").out == f"{home}/translate/model\n"
    found = json.loads(run_command("train", home / "translate.toml", "--json").out)
    assert found["model"] == f"{home}/translate/model"
    assert [row["update"] for row in found["judged"]] == [2, 4]
    assert set(found["judged"][0]) == {"update", "loss", "perplexity"}


def test_train_takes_settings_on_top(home, run_command, tmp_path):
    run_command("train", home / "write.toml", "--set", f"folder={tmp_path}", "--set", "train.updates=1")
    assert [json.loads(line)["update"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [1, 1]


def test_train_prints_progress_on_stderr(home, run_command, tmp_path):
    output = run_command("train", home / "write.toml", "--set", f"folder={tmp_path}")
    assert "parameters, 4 updates" in output.err


def test_ctrl_c_is_a_line_and_code_130(home, run_command, monkeypatch, tmp_path):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("transom.training.loop.TrainingLoop.update", interrupt)
    out, err = run_command("train", home / "write.toml", "--set", f"folder={tmp_path}", code=130)
    assert out == ""
    assert err.endswith("transom: stopped; the same command resumes from the last checkpoint\n")


METRICS = {"translate": ["loss", "perplexity", "bleu", "chrf", "loops"], "classify": ["loss", "accuracy", "f1"]}
METRICS |= {"write": ["loss", "perplexity"]}


@pytest.mark.parametrize("task", METRICS)
def test_evaluate_prints_each_metric(home, run_command, task):
    out, err = run_command("evaluate", home / f"{task}.toml", "--beams", 2)
    note = f"--beams is for translations, but the task is {task}; leave it out"
    assert (f"transom: {note}\n" in err) == (task != "translate")
    metrics, _, by_label = out.partition("\nlabel ")  # of a classifier: each label, and the confusion matrix
    assert ("precision" in by_label and "Which labels are confused" in by_label) == (task == "classify")
    lines = metrics.splitlines()
    signatures = [line.split()[1] for line in lines if line.startswith("signature")]
    lines = lines[: len(lines) - len(signatures)]
    assert [line.split()[0] for line in lines] == METRICS[task]
    found = json.loads(run_command("evaluate", home / f"{task}.toml", "--beams", 2, "--json").out)
    assert found.pop("model") == f"{home}/{task}/model"
    assert [found.pop("signature")] == signatures if task == "translate" else not signatures
    if task == "classify":
        assert list(found.pop("labels")) == found.pop("confusion")["labels"]
    assert list(found) == METRICS[task]
    for line in lines:
        name, number = line.split()
        assert float(number) == pytest.approx(found[name], rel=1e-3)


def test_evaluate_prints_the_rate_of_everyday_sentences_by_kind(home, run_command, complaint, tmp_path):
    rows = ["short\ta b\t~ zzz", "short\tc d\t~ yyy", "long\ta b c d e\t~ zzz"]
    (tmp_path / "list.tsv").write_text("kind\tenglish\tcheck\n" + "\n".join(rows) + "\n")
    setting = ["--set", f"data.everyday={tmp_path / 'list.tsv'}"]
    out, _ = run_command("evaluate", home / "translate.toml", *setting, "--everyday")
    lines = out.splitlines()
    assert lines[:3] == [
        f"everyday    0 of 3 (0%)  {tmp_path / 'list.tsv'}",
        "  short           0 of 2",
        "  long            0 of 1",
    ]
    assert lines[3].startswith("  short: a b → ")
    assert len(lines) == 6
    (found,) = json.loads(run_command("evaluate", home / "translate.toml", *setting, "--json").out)["everyday"]
    assert (found["passed"], found["of"], found["kinds"]) == (0, 3, {"short": [0, 2], "long": [0, 1]})
    assert [failure["source"] for failure in found["failures"]] == ["a b", "c d", "a b c d e"]
    recipe = home / "translate.toml"
    assert complaint("evaluate", recipe, "--everyday") == (
        f"--everyday needs lists of sentences, but {recipe} has no data.everyday; name files there"
    )


def test_texts_come_as_arguments_lines_of_a_file_or_of_stdin(home, run_command, monkeypatch, tmp_path):
    model = ["--model", home / "translate" / "model"]
    expected = run_command("translate", "a b", "c d e", *model).out
    assert len(expected.splitlines()) == 2
    (tmp_path / "texts.txt").write_text("a b\nc d e\n")
    assert run_command("translate", "--file", tmp_path / "texts.txt", *model).out == expected
    monkeypatch.setattr(sys, "stdin", io.StringIO("a b\nc d e\n"))
    assert run_command("translate", *model).out == expected
    rows = json.loads(run_command("translate", "a b", "c d e", "--json", *model).out)
    assert [row["source"] for row in rows] == ["a b", "c d e"]
    assert [row["target"] for row in rows] == expected.splitlines()


def test_empty_lines_stay_empty_in_a_translation(home, run_command, complaint, monkeypatch, tmp_path):
    model = ["--model", home / "translate" / "model"]
    first, second = run_command("translate", "a b", "c d e", *model).out.splitlines()
    lines = "\na b\n \nc d e\n\n"
    (tmp_path / "texts.txt").write_text(lines)
    assert run_command("translate", "--file", tmp_path / "texts.txt", *model).out == f"\n{first}\n\n{second}\n\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    rows = json.loads(run_command("translate", "--json", *model).out)
    assert [row["source"] for row in rows] == ["", "a b", " ", "c d e", ""]
    assert [row["target"] for row in rows] == ["", first, "", second, ""]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))
    assert complaint("translate", *model) == (
        "there should be a text to work on, but there is none; give one, or --file, or lines on stdin"
    )
    assert complaint("translate", "", *model) == (
        "text 1 of 1 is empty, but there must be something to read; leave it out"
    )


def test_classify_prints_label_chance_and_text(home, run_command):
    model = ["--model", home / "classify" / "model"]
    label, chance, text = run_command("classify", "a b", *model).out.rstrip("\n").split("\t")
    (row,) = json.loads(run_command("classify", "a b", "--json", *model).out)
    assert (text, row["text"]) == ("a b", "a b")
    assert label == row["label"] == max(row["chances"], key=row["chances"].get)
    assert float(chance) == pytest.approx(row["chances"][label], abs=1e-3)
    assert set(row["chances"]) == {"yes", "no"}


@pytest.mark.parametrize("options", [["--temperature", "0"], ["--seed", "3"], ["--seed", "3", "--top-k", "2"]])
def test_generate_continues_also_beyond_the_longest(home, run_command, options):
    args = ["generate", "a b", "--model", home / "write" / "model", "--tokens", 50, *options]
    shown = run_command(*args).out
    (row,) = json.loads(run_command(*args, "--json").out)
    assert row["prompt"] == "a b"
    assert shown == f"a b{row['text']}\n"
    assert run_command(*args).out == shown


def test_generate_begins_a_new_text_without_a_prompt(home, run_command):
    args = ["generate", "--model", home / "write" / "model", "--tokens", 9, "--seed", 1]
    assert run_command(*args).out == run_command(*args, "").out


@pytest.mark.parametrize(("option", "value"), [("--top-k", "5"), ("--top-p", "0.5"), ("--seed", "1")])
def test_options_for_sampling_are_refused_at_temperature_0(home, complaint, option, value):
    args = ["generate", "a", "--model", home / "write" / "model", "--temperature", "0", option, value]
    assert complaint(*args) == (
        f"--temperature 0 draws no tokens, but got {option} {value} too; leave one of the two out"
    )


def test_texts_come_from_arguments_a_file_or_standard_input(monkeypatch, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one\n\ntwo three\n")
    assert read_texts(["x", "y z"], None) == ["x", "y z"]
    assert read_texts([], path) == ["one", "two three"]
    assert read_texts([], path, blanks=True) == ["one", "", "two three"]
    for blanks, expected in ((False, ["a b", "c"]), (True, ["a b", "", "c"])):
        monkeypatch.setattr(sys, "stdin", io.StringIO("a b\n\nc"))
        assert read_texts([], None, blanks) == expected


def test_errors_are_one_line(home, complaint, monkeypatch, tmp_path):
    model = ["--model", home / "classify" / "model"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert complaint("classify", *model) == (
        "there should be a text to work on, but there is none; give one, or --file, or lines on stdin"
    )
    assert complaint("classify", "a", "--model", tmp_path / "gone") == (
        f"{tmp_path}/gone should be the folder of a model, but there is no such folder; check the path"
    )
    assert complaint("translate", "a", *model) == (
        f"translate takes an encoder–decoder, but {home}/classify/model is an encoder; use classify, or name another"
        " model"
    )
    assert complaint("classify", "a", "--file", home / "text.txt", *model) == (
        "texts come as arguments or from --file, but got both; leave one out"
    )
    assert complaint("train", tmp_path / "gone.toml") == (
        f"{tmp_path}/gone.toml should be a file, but it cannot be opened: No such file or directory; check the path"
    )
    assert complaint("train", home / "write.toml", "--set", "train.update=3") == (
        f"{home}/write.toml: [train] has no setting 'update'; did you mean 'updates'?"
    )
    assert complaint("generate", "a") == "Missing option '--model'; see transom generate --help"


def test_of_an_unfinished_run_the_newest_checkpoint_is_evaluated(home, run_command, complaint, tmp_path):
    """The checkpoint of the last update, before and after the run is finished."""
    setting = ("--set", f"folder={tmp_path}")
    run_command("train", home / "write.toml", *setting)
    expected = json.loads(run_command("evaluate", home / "write.toml", *setting, "--json").out)
    (tmp_path / "model").rename(tmp_path / "moved")
    out, err = run_command("evaluate", home / "write.toml", *setting, "--json")
    assert err == (
        f"{tmp_path} holds an unfinished run: this is its newest intact checkpoint, after update 4; transom train"
        f" {home}/write.toml goes on with it\n"
    )
    path = f"{tmp_path}/checkpoints/step-00000004"
    assert json.loads(out) == {**expected, "model": path, "unfinished": True, "update": 4}
    assert complaint("generate", "a", "--model", tmp_path / "model") == (
        f"{tmp_path}/model should be the folder of a model, but {tmp_path} holds an unfinished run, of 4 updates so"
        " far; finish it with transom train, or evaluate it with transom evaluate"
    )
