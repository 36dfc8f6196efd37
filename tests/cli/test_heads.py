"""`transom heads`: any number of documents, stopped, gone on, split and joined, and always the same figures."""

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from model_folders import TEXTS, of_hugging_face, of_transom

import transom
from transom.cli import head_stream, main
from transom.cli.any_model import opened
from transom.cli.head_files import read
from transom.lens.measuring.head_sums import joined
from transom.lens.measuring.heads import measured

pytestmark = [
    pytest.mark.usefixtures("own_errors"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]
LAYER = {"heads": 2, "cross": False}
LINES = [f"{one} and {other}" for one in TEXTS[:3] for other in TEXTS[1:]]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a decoder, a translator and texts."""
    folder = tmp_path_factory.mktemp("home")
    of_transom("decoder", folder / "decoder")
    of_transom("encoder_decoder", folder / "both")
    (folder / "a.txt").write_text("\n".join(LINES[:5]) + "\n\n")
    (folder / "b.txt").write_text("\n".join(LINES[5:]) + "\n")
    with gzip.open(folder / "b.txt.gz", "wt") as file:
        file.write("\n".join(LINES[5:]) + "\n")
    return folder


def said(capsys, *words):
    capsys.readouterr()
    assert main(["heads", *map(str, words)]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def complaint(capsys, *words):
    capsys.readouterr()
    assert main(["heads", *map(str, words)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()[-1].removeprefix("transom: ")


def over(home, *words):
    return ["--model", home / "decoder", "--lines", "--text", home / "a.txt", home / "b.txt", *words]


def test_the_figures_are_those_of_the_documents_one_by_one(home, capsys):
    told = json.loads(said(capsys, *over(home, "--json")))
    model, parts = opened(home / "decoder"), []
    for line in LINES:
        fed = model.encode(line)
        with transom.watch(model.model) as trace:
            model.run(fed)
        parts.append(measured(trace, tokens=fed.tokens))
    table = transom.lens.measuring.head_table.HeadTable.of(joined(parts))
    assert told["heads"] == table.told()
    assert (told["documents"], told["pieces"]) == (9, 9)
    assert told["tokens"] == sum(len(model.encode(line).ids) for line in LINES)
    assert len(told["heads"]) == 6


def test_every_way_of_splitting_gives_the_same_to_the_last_bit(home, tmp_path, capsys):
    whole = said(capsys, *over(home, "--csv"))
    base = ["--model", home / "decoder", "--lines", "--csv"]
    for name in ("a.txt", "b.txt.gz"):
        said(capsys, *base, "--text", home / name, "--out", tmp_path / f"{name}.json")
    both = [tmp_path / "b.txt.gz.json", tmp_path / "a.txt.json"]
    assert said(capsys, "--merge", *both, "--csv", "--out", tmp_path / "all.json") == whole
    assert said(capsys, "--merge", tmp_path / "all.json", "--csv") == whole
    assert read(tmp_path / "all.json").count("documents") == 9


def test_a_run_that_is_stopped_goes_on_and_ends_the_same(home, tmp_path, capsys, monkeypatch):
    whole = said(capsys, *over(home, "--csv"))
    words, real = over(home, "--csv", "--out", tmp_path / "sums.json"), head_stream.with_document
    count = []

    def stopping(model, text, sums):
        count.append(text)
        if len(count) in (3, 7):
            raise KeyboardInterrupt
        return real(model, text, sums)

    monkeypatch.setattr(head_stream, "with_document", stopping)
    for _ in range(2):
        assert main(["heads", *map(str, words)]) == 130
        assert "transom: stopped; the same command goes on from it\n" in capsys.readouterr().err
    assert not read(tmp_path / "sums.json").finished
    assert said(capsys, *words) == whole
    assert len(count) == 9 + 2, "nothing was measured twice but what was interrupted"
    assert said(capsys, *words) == whole
    assert len(count) == 11, "what is finished is only shown"


def test_an_encoder_decoder_reads_its_own_translation(home, capsys):
    out = said(capsys, "--model", home / "both", "--lines", home / "a.txt", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    cross = [row for row in rows if row["cross"] == "1"]
    assert len(rows) == 12
    assert len(cross) == 3
    assert all(row["previous"] == "" and row["entropy"] for row in cross)
    assert all(row["distance"] for row in rows if row["cross"] == "0")


def test_a_document_is_a_file_cut_into_pieces_that_fit(home, capsys):
    told = json.loads(said(capsys, "--model", home / "decoder", home / "a.txt", "--longest", 11, "--json"))
    assert told["documents"] == 1
    assert told["pieces"] == -(-told["tokens"] // 11)
    printed = said(capsys, "--model", home / "decoder", home / "a.txt", "--longest", 11)
    assert printed.startswith(f"{home}/decoder: 1 document, {told['tokens']:,} tokens, 6 heads\n")


def test_the_table_is_sorted_cut_and_narrowed(home, capsys):
    lines = said(capsys, *over(home, "--sort", "confidence", "--most", 2, "--measure", "confidence")).splitlines()
    assert lines[0].startswith(f"{home}/decoder: 9 documents, ")
    assert lines[0].endswith(" tokens, 6 heads")
    assert lines[1].split() == ["layer", "head", "confidence"]
    assert len(lines) == 4
    assert float(lines[2].split()[-1]) >= float(lines[3].split()[-1])


@pytest.mark.slow
def test_a_hugging_face_folder_is_measured_too(home, tmp_path, capsys):
    pytest.importorskip("transformers")
    folder = of_hugging_face("decoder", tmp_path / "llama")
    told = json.loads(said(capsys, "--model", folder, "--lines", home / "a.txt", "--json"))
    assert len(told["heads"]) == 6
    assert told["documents"] == 5
    assert all(head["previous"] is not None for head in told["heads"])


def test_mistakes_are_said(home, tmp_path, capsys):
    one = ["--model", home / "decoder", home / "a.txt"]
    assert complaint(capsys, "--model", home / "decoder") == (
        "there should be texts to measure on, but none came; give --text and a file"
    )
    assert complaint(capsys, *one, "--csv", "--json") == (
        "the table comes as --csv or as --json, but both came; leave one out"
    )
    assert complaint(capsys, *one, "--measure", "sinks") == "there is no measure 'sinks'; did you mean 'sink'?"
    assert complaint(capsys, *one, "--sort", "sinks") == (
        "--sort takes a measure, but 'sinks' is none of those taken; did you mean 'sink'?"
    )
    assert complaint(capsys, "--merge", home / "a.txt", "--text", home / "b.txt") == (
        "--merge joins what was measured, but --text came too; leave one of the two out"
    )
    found = complaint(capsys, "--merge", home / "a.txt")
    assert found.startswith(f"{home}/a.txt should hold the sums of transom heads, but it cannot be read (")
    assert found.endswith("; name another file")


def test_what_does_not_belong_together_is_said(home, tmp_path, capsys):
    base = ["--lines", "--measure", "sink", "--out"]
    first, other, third = (tmp_path / f"{name}.json" for name in ("first", "other", "third"))
    said(capsys, "--model", home / "decoder", home / "a.txt", *base, first)
    said(capsys, "--model", home / "both", home / "a.txt", *base, other)
    said(capsys, "--model", home / "decoder", home / "b.txt", *base[:-1], "--measure", "previous", "--out", third)
    assert complaint(capsys, "--model", home / "decoder", home / "b.txt", *base, first) == (
        f"{first} holds sums of {home}/decoder over 5 documents of {home}/a.txt, which is other work than this; name"
        " another file with --out, or remove it"
    )
    assert complaint(capsys, "--merge", first, first) == (
        f"{first} and {first} are of the same texts, which would count twice; leave one out"
    )
    assert complaint(capsys, "--merge", first, other) == (
        f"{first} is of {home}/decoder and {other} of {home}/both, or of other parameters; join sums of one model"
    )
    assert complaint(capsys, "--merge", first, third) == (
        "one has the measures sink, the other sink, previous; join what was measured alike"
    )


@pytest.mark.parametrize("spoil", ["", "{}", "[]", "sums", "heads", "format"])
def test_a_damaged_file_of_sums_is_said(home, tmp_path, capsys, spoil):
    path = tmp_path / "sums.json"
    said(capsys, "--model", home / "decoder", home / "a.txt", "--lines", "--measure", "sink", "--out", path)
    told = json.loads(path.read_text())
    layer = next(iter(told["heads"]["layers"].values()))
    if spoil == "sums":
        layer["sums"]["sink"].pop()
    elif spoil == "heads":
        layer["heads"] = "many"
    elif spoil == "format":
        told["format"] = 7
    path.write_text(json.dumps(told) if spoil in ("sums", "heads", "format") else spoil)
    found = complaint(capsys, "--merge", path)
    assert found.startswith(f"{path} is of format 7, but" if spoil == "format" else f"{path} should hold the sums of")


def test_a_model_whose_numbers_do_not_fit_its_weights_is_not_shown(home, capsys, monkeypatch):
    from transom.lens.receipt import Receipt
    from transom.lens.sight import Sight

    monkeypatch.setattr(Sight, "receipt", lambda self: Receipt(1.0, 1e-6))
    assert main(["heads", "--model", str(home / "decoder"), str(home / "a.txt"), "--lines"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "transom: the weights of 'stack.blocks.0.attention' do not make the output that the model used: they are off by"
        " 1.0e+00, but 1.0e-06 is allowed; nothing of this run is drawn\n"
    )


def test_torchrun_needs_a_file(home, capsys, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert complaint(capsys, "--model", home / "decoder", home / "a.txt") == (
        "2 processes join their sums by way of a file, but none was named; give --out sums.json"
    )


def started(*words, processes=1):
    """The command in processes of its own."""
    command = ["-m", "transom", "heads", *map(str, words)]
    if processes > 1:
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), *command]
    return subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_and_ends_the_same(home, tmp_path, capsys):
    torch.set_num_threads(1)
    many = tmp_path / "many.txt"
    many.write_text("\n".join(LINES * 15))
    words = ["--model", home / "decoder", "--lines", many, "--csv"]
    whole = said(capsys, *words)
    out, seen = tmp_path / "sums.json", set()
    for _ in range(2):
        child = started(*words, "--out", out, "--save-every", 0)
        before, deadline = read(out).count("documents") if out.exists() else 0, time.monotonic() + 60
        while time.monotonic() < deadline and child.poll() is None:
            if out.exists() and read(out).count("documents") > before + 5:
                break
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        seen.add(read(out).count("documents"))
    assert len(seen) == 2
    assert max(seen) < 135
    last = started(*words, "--out", out)
    printed, told = last.communicate()
    assert last.returncode == 0, told
    assert printed == whole


@pytest.mark.slow
def test_two_processes_of_torchrun_give_what_one_gives(home, tmp_path, capsys):
    whole = said(capsys, *over(home, "--csv"))
    both = started(*over(home, "--csv", "--out", tmp_path / "sums.json"), processes=2)
    printed, told = both.communicate()
    assert both.returncode == 0, told
    assert printed == whole
    assert [path.name for path in tmp_path.iterdir()] == ["sums.json"], "the parts are gone"
    assert [one.part.rank for one in read(tmp_path / "sums.json").done] == [0, 1]


@pytest.mark.parametrize(
    ("heads", "told"),
    [
        ({"measures": ["a", "a"]}, "its measures should be different ones, but one comes twice"),
        ({"layers": {"x": LAYER | {"heads": 10**18}}}, "'x' should have 1 to 65536 heads, but it says another number"),
        ({"layers": {"x": LAYER | {"counts": {"a": [1]}}}}, "'x' should have 2 sums and counts of 'a', but it has not"),
        (
            {"layers": {"x": LAYER | {"sums": {"a": [1, 2**600]}, "counts": {"a": [1, 1]}}}},
            "'x' should have sums and counts of 'a' that can be, but one is too large",
        ),
    ],
    ids=["measures", "heads", "counts", "large"],
)
def test_sums_that_cannot_be_are_refused(heads, told, tmp_path, capsys):
    path = tmp_path / "sums.json"
    path.write_text(json.dumps({"model": "m", "digest": "0", "done": [], "heads": {"measures": ["a"]} | heads}))
    assert complaint(capsys, "--merge", path) == (
        f"{path} should hold the sums of transom heads, but it cannot be read ({told}); name another file"
    )
