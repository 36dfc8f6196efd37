"""The table of the bench: every row says its peer's version and, in words, who wins."""

import copy
import json
import re
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path

import pytest
import torch

table = pytest.importorskip("bench.measuring.table", reason="the bench is beside the tests, in the repository")
peers = import_module("bench.peers.environment")
all_questions = import_module("bench.measuring.all_questions")
questions = import_module("bench.__main__").QUESTIONS
package_size = import_module("bench.peers.package_size")

ROOT = Path(__file__).parents[1]
SIDE = {"Transom": 2.0, "Hugging Face": 6.0, "CTranslate2": 1.0}
ANSWERS = {
    "attention": {
        "attention": [
            {
                "shape": [1, 2, 3, 5],
                "causal": True,
                "milliseconds": {"sdpa": 2.0, "attend": 1.0, "sight": 2.02, "eager": 7.0, "eager + statistics": 11.0},
                "peak_MiB": {"sdpa": 1.0, "attend": 1.0, "sight": 3.0, "eager": 7.0, "eager + statistics": 13.0},
            }
        ]
    },
    "flex": {
        "compared": [
            {
                "shape": [1, 2, 3, 5],
                "kind": "window",
                "milliseconds": {"SDPA": 3.0, "eager attention": 5.0, "Transom": 2.0},
                "first_call_seconds": {},
                "not run": {"FlexAttention": "no compiler"},
            }
        ]
    },
    "kernel": {"ratios": {"training (3, 5) full": {"sdpa_ms": 10.0, "transom": 0.5}, "overview map": {"map": 2.0}}},
    "watching": {
        "compared": [
            {
                "tokens": 8192,
                "contenders": {
                    "Transom": {"seconds": [3.0, 2.0], "peak": 2 * 2**20},
                    "Hugging Face eager": {"seconds": [7.0], "peak": 26 * 2**20},
                    "TransformerLens": {"not run": "its weights alone take 36 GiB"},
                    "nnsight": {"seconds": [1.0], "peak": 22 * 2**20},
                },
            }
        ]
    },
    "pages": {
        "compared": [
            {
                "tokens": 512,
                "Transom": {"seen_seconds": 1.0, "drawn_seconds": 2.0, "page_bytes": 2**20, "trace_bytes": 2**22},
                "BertViz": {"seen_seconds": 1.0, "drawn_seconds": 5.0, "page_bytes": 2**26},
            }
        ]
    },
    "training": {
        "batch": [7, 5],
        "milliseconds": {"Transom": 3.0, "nn.Transformer": 6.0, "Transom, bfloat16": 2.0, "Marian, bfloat16": 5.0},
        "peak_MiB": {"Transom": 3.0, "nn.Transformer": 6.0, "Transom, bfloat16": 2.0, "Marian, bfloat16": 4.0},
    },
    "generation": {"cases": {"greedy, 1": {"milliseconds_a_step": SIDE}}},
    "llama": {"milliseconds_a_step": {"Transom": 2.0, "Hugging Face": 6.0, "llama.cpp": 1.0}, "not run": {}},
    "startup": {
        "seconds": {"transom.watch at hand": 2.0, "Hugging Face": 4.0},
        "brought": {"transom": {"bytes": 2**20, "packages": 5}, "transformers": {"bytes": 2**24, "packages": 11}},
    },
}


@pytest.mark.parametrize("question", questions)
def test_a_question_has_its_file_and_says_how_it_is_asked(question):
    told = (ROOT / f"bench/questions/{question}.py").read_text(encoding="utf-8")
    assert f"python -m bench {question}" in told
    assert "def run(options: Namespace) -> int:" in told


def test_every_kind_of_row_is_tried_below():
    assert set(ANSWERS) == set(table.ROWS) <= set(questions)


@pytest.mark.parametrize("question", ANSWERS)
def test_every_row_names_a_known_peer_and_says_who_wins(question):
    rows = table.rows_of(question, ANSWERS[question])
    assert rows
    for row in rows:
        assert row.question == question
        assert row.peer in peers.PACKAGES
        assert row.version
        assert row.verdict()


def test_words_say_who_wins_by_how_much_and_why_nothing_is_known():
    rows = {row.peer: row for row in table.rows_of("generation", ANSWERS["generation"])}
    assert rows["Hugging Face"].verdict() == "Transom 3.00 times quicker"
    assert rows["CTranslate2"].verdict() == "**CTranslate2 wins**: 2.00 times quicker"
    _, looked, eager, memory = table.rows_of("attention", ANSWERS["attention"])
    assert looked.verdict() == "alike; Transom with every statistic, SDPA with none"
    assert eager.verdict() == "Transom 5.45 times quicker"
    assert memory.verdict() == "Transom 4.33 times smaller"
    missing = next(row for row in table.rows_of("flex", ANSWERS["flex"]) if row.peer == "FlexAttention")
    assert missing.verdict() == "not measured: no compiler"
    assert missing.theirs is None


def test_a_peer_is_named_with_its_version_and_its_package_if_that_has_another_name(monkeypatch):
    monkeypatch.setattr(table, "peer_version", lambda peer: "7.5")
    named = [table.Row("", "", peer, "ms", 1.0, 2.0).peer_label() for peer in ("TransformerLens", "SDPA", "llama.cpp")]
    assert named == ["TransformerLens 7.5", "SDPA (torch 7.5)", "llama.cpp (cyllama 7.5)"]


def test_each_precision_of_training_stands_beside_its_like():
    rows = [row for row in table.rows_of("training", ANSWERS["training"]) if row.unit == "ms"]
    assert [(row.peer, row.case.split(", ")[1:], row.ours, row.theirs) for row in rows] == [
        ("nn.Transformer", [], 3.0, 6.0),
        ("Marian", [], 3.0, None),
        ("JoeyNMT", [], 3.0, None),
        ("Marian", ["bfloat16"], 2.0, 5.0),
    ]


def test_packages_are_fewer():
    rows = [row for row in table.rows_of("startup", ANSWERS["startup"]) if row.unit == "packages"]
    assert rows[0].verdict() == "Transom 2.20 times fewer"


def test_seconds_are_the_best_and_bytes_are_mebibytes():
    rows = [row for row in table.rows_of("watching", ANSWERS["watching"]) if row.peer == "Hugging Face eager"]
    assert [(row.unit, row.ours, row.theirs) for row in rows] == [("s", 2.0, 7.0), ("MiB at the peak", 2.0, 26.0)]


# Where in the answer of a question it says which contenders were unsteady, and the names of all of them.
UNSTEADY = {
    "attention": (lambda found: found["attention"][0], ["attend", "sight", "sdpa", "eager + statistics"]),
    "flex": (lambda found: found["compared"][0], ["Transom", "SDPA", "eager attention"]),
    "kernel": (lambda found: found["ratios"]["training (3, 5) full"], ["transom", "sdpa"]),
    "watching": (lambda found: found["compared"][0], ["Transom", "Hugging Face eager", "nnsight"]),
    "pages": (lambda found: found["compared"][0], ["Transom", "BertViz"]),
    "training": (
        lambda found: found,
        ["Transom", "nn.Transformer", "Marian", "Transom, bfloat16", "nn.Transformer, bfloat16", "Marian, bfloat16"],
    ),
    "generation": (lambda found: found["cases"]["greedy, 1"], ["Transom", "Hugging Face", "CTranslate2"]),
    "llama": (lambda found: found, ["Transom", "Hugging Face", "llama.cpp"]),
    "startup": (lambda found: found, ["transom.watch at hand", "Hugging Face"]),
}


@pytest.mark.parametrize("question", table.ROWS)
def test_a_row_whose_two_runs_differ_says_so(question):
    place, names = UNSTEADY[question]
    steady, shaken = ANSWERS[question], copy.deepcopy(ANSWERS[question])
    place(shaken)["unsteady"] = dict.fromkeys(names, 1.31)
    pairs = zip(table.rows_of(question, steady), table.rows_of(question, shaken), strict=True)
    timed = [(quiet, row) for quiet, row in pairs if row.unit.split()[0] in ("ms", "s") and row.theirs is not None]
    assert timed
    for quiet, row in timed:
        said = f"; unsteady: two runs differ, of Transom 1.31 times, of {row.peer} 1.31 times"
        assert row.verdict() == quiet.verdict() + said
        assert row.to_dict()["unsteady"] == {"Transom": 1.31, row.peer: 1.31}
        assert quiet.to_dict()["unsteady"] == {}


def test_a_memory_whose_two_runs_differ_says_so():
    shaken = copy.deepcopy(ANSWERS["watching"])
    shaken["compared"][0]["unsteady_peaks"] = {"nnsight": 1.2}
    rows = [row for row in table.rows_of("watching", shaken) if row.peer == "nnsight"]
    assert [row.unsteady for row in rows] == [{}, {"nnsight": 1.2}]


def test_a_question_without_an_answer_or_a_peer_has_no_rows():
    assert table.rows_of("generation", None) == []
    assert table.rows_of("induction", {"two layers": 1.0}) == []


def test_all_questions_become_one_page_and_one_document(monkeypatch, capsys, tmp_path):
    said = {
        "generation": {"result": ANSWERS["generation"], "met its bars": False, "seconds": 3.0},
        "induction": {"result": {}, "met its bars": True, "seconds": 5.0},
        "serving": {"no answer": "not done after 300 s"},
    }
    monkeypatch.setattr(all_questions, "ask_question", lambda question, options: said[question])
    options = Namespace(seconds=180, quick=False, json=False, into=tmp_path / "out")
    assert all_questions.ask_all(list(said), options) == 1
    printed = capsys.readouterr()
    page = (tmp_path / "out/bench.md").read_text(encoding="utf-8")
    assert printed.out == page
    assert "3 questions, at most 180 s for most, 9 min in all" in printed.err
    assert page.count("\n| generation | greedy, 1 |") == 2
    assert "* serving gave no answer: not done after 300 s." in page
    assert "* generation missed a bar of its own" in page
    assert "* induction has no peer" in page
    document = json.loads((tmp_path / "out/bench.json").read_text(encoding="utf-8"))
    assert [row["version"] for row in document["rows"]] == [
        peers.peer_version("Hugging Face"),
        peers.peer_version("CTranslate2"),
    ]
    assert document["answers"] == said


def test_a_quick_run_says_what_it_skipped_and_why(monkeypatch, capsys, tmp_path):
    asked, answer = [], {"result": {"ratios": {}}}
    monkeypatch.setattr(all_questions, "ask_question", lambda question, options: asked.append(question) or answer)
    options = Namespace(seconds=30, quick=True, json=False, into=tmp_path)
    assert set(all_questions.NOT_IN_QUICK) < set(questions)
    assert all_questions.ask_all(["kernel", *all_questions.NOT_IN_QUICK], options) == 0
    assert asked == ["kernel"]
    page = capsys.readouterr().out
    for name, why in all_questions.NOT_IN_QUICK.items():
        assert f"* {name} was skipped in this quick run: {why}.\n" in page
    assert "Where the runs differ more than 1.15 times, the row is called unsteady." in page


def test_a_quick_run_is_written_beside_the_whole_one_and_never_into_docs(monkeypatch, capsys):
    command = import_module("bench.__main__")
    for words, into, seconds in (([], "out/bench", 180), (["--quick"], "out/bench-quick", 60)):
        monkeypatch.setattr(sys, "argv", ["bench", *words])
        options = command.parse_options()
        assert (str(options.into), options.seconds) == (into, seconds)
    monkeypatch.setattr(sys, "argv", ["bench", "--quick", "--into", str(ROOT / "docs")])
    with pytest.raises(SystemExit):
        command.parse_options()
    said = "the figures in docs are those of a whole run, but this is a quick one; leave out --into or --quick"
    assert capsys.readouterr().err.endswith(f"error: {said}\n")


def test_a_question_that_fails_is_said_to_have_no_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(all_questions, "GRACE", 1)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    options = Namespace(seconds=5, quick=True, threads=1)
    assert all_questions.ask_question("induction", options) == {
        "no answer": "it ended with code 1; its words are above"
    }


def test_what_a_package_brings_is_counted_beyond_torch():
    found = package_size.measure_package("transom")
    names = set(package_size.required_distributions("transom")) - set(package_size.required_distributions("torch"))
    assert {"transom", "starlette", "typer"} <= names
    assert not {"torch", "networkx"} & names
    assert found["packages"] == len(names)
    assert found["bytes"] > 10 * 2**20  # the embedded translator alone


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PyTorch", "Hugging Face", "Transom"])
def test_the_page_of_peers_shows_what_is_printed(name):
    page = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    for what, came in import_module("bench.features").run_probes(name).items():
        assert masked(f"  {what:<36}{came}\n") in masked(page)


def masked(text: str) -> str:
    """Without the digits that rounding makes."""
    return re.sub(r"\d(\.\d)?e[+-]\d\d", "#", text)


def test_the_measured_page_is_the_one_that_its_document_gives():
    document = json.loads((ROOT / "docs/bench.json").read_text(encoding="utf-8"))
    assert not document["quick"]
    assert set(document["answers"]) == set(questions)
    assert (ROOT / "docs/bench.md").read_text(encoding="utf-8") == all_questions.render_report(document) + "\n"


def test_before_and_after_have_the_best_of_each_tree_and_the_peers_beside():
    compare = import_module("bench.measuring.compare_trees")

    def rows(*pairs):
        return [table.Row("generation", "greedy, 1", "Hugging Face", "ms a step", *pair) for pair in pairs]

    shown = compare.render_comparison(rows((4.0, 10.0), (2.0, 11.0)), rows((3.0, 8.0), (5.0, None)))
    assert shown.splitlines()[2:] == ["| generation | greedy, 1 | ms a step | 2 | 3 | 1.50 | Hugging Face | 0.80 |"]
    alone = compare.render_comparison([], rows((3.0, None)))
    assert alone.splitlines()[2:] == ["| generation | greedy, 1 | ms a step | – | 3 | – | Hugging Face | – |"]


def test_another_tree_is_asked_with_its_own_transom(tmp_path, monkeypatch):
    compare = import_module("bench.measuring.compare_trees")
    asked = {}

    def run(command, **settings):
        asked.update(settings, command=command)
        return Namespace(returncode=0, stdout='{"cases": {}}')

    monkeypatch.setattr(compare.subprocess, "run", run)
    options = Namespace(threads=1, seconds=5, quick=True, processor=False)
    assert compare.ask_tree("generation", tmp_path, options) == {"cases": {}}
    assert asked["env"]["PYTHONPATH"] == f"{tmp_path}/src"
    assert asked["cwd"] == ROOT
    words = ["-m", "bench", "generation", "--json", "--threads", "1", "--seconds", "5", "--quick"]
    assert asked["command"] == [sys.executable, *words]
    monkeypatch.setattr(compare.subprocess, "run", lambda *_, **__: Namespace(returncode=2, stdout=""))
    said = f"generation gave no answer with the transom of {tmp_path}; its words are above"
    with pytest.raises(RuntimeError, match=f"^{re.escape(said)}$"):
        compare.ask_tree("generation", tmp_path, options)


def test_trees_that_cannot_be_compared_are_refused(tmp_path, monkeypatch):
    compare = import_module("bench.measuring.compare_trees")
    said = f"--beside needs a checkout of Transom, but {tmp_path} has no src/transom; name its root"
    assert compare.check_trees(tmp_path) == said
    for name in ("before", "after"):
        (tmp_path / name / "src/transom/kernels/native").mkdir(parents=True)
        (tmp_path / name / "src/transom/__init__.py").touch()
    monkeypatch.setattr(compare, "ROOT", tmp_path / "after")
    assert compare.check_trees(tmp_path / "before") == ""
    (tmp_path / "after/src/transom/kernels/native/generic.so").touch()
    assert compare.check_trees(tmp_path / "before") == (
        f"both trees need their native engine, but {tmp_path / 'before'} has none; "
        "build it: python setup.py build_ext --inplace"
    )


def test_marian_with_our_parameters_gives_our_logits():
    """What the question of generation compares is one model in two libraries."""
    generation = import_module("bench.questions.generation")
    model = generation.build_translator()
    source, target = torch.tensor([[5, 7, 11, 13, 2]]), torch.tensor([[1, 17, 19]])
    with torch.no_grad():
        theirs = generation.build_marian(model)(input_ids=source, decoder_input_ids=target).logits
        torch.testing.assert_close(model(source, target), theirs, rtol=1e-4, atol=1e-4)


def test_a_measured_row_of_the_page_names_the_version_that_was_measured():
    document = json.loads((ROOT / "docs/bench.json").read_text(encoding="utf-8"))
    rows = [row for row in document["rows"] if row["theirs"] is not None]
    assert rows
    assert not [row["named"] for row in rows if "not installed" in row["named"]]
