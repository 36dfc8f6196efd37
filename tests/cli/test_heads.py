"""`transom heads`: documents measured, interrupted, resumed, split and joined always give the same figures."""

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import torch
from model_folders import TEXTS, of_transom

import transom
from transom.cli import heads_corpus
from transom.cli.heads_corpus import load_sums
from transom.lens.metrics.head_sums import HeadSums
from transom.lens.metrics.head_table import HeadTable
from transom.lens.metrics.heads import measure_sums
from transom.runner import load_text_model

pytestmark = [
    pytest.mark.usefixtures("own_errors"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]
LAYER = {"heads": 2, "cross": False}
LINES = [f"{first} and {second}" for first in TEXTS[:3] for second in TEXTS[1:]]


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


@pytest.fixture
def heads(run_command):
    """Runs `transom heads`; returns what it prints on standard output."""
    return lambda *args: run_command("heads", *args).out


@pytest.fixture
def heads_error(complaint):
    return partial(complaint, "heads")


def all_texts(home, *args):
    return ["--model", home / "decoder", "--lines", "--text", home / "a.txt", home / "b.txt", *args]


def test_the_figures_are_those_of_the_documents_one_by_one(home, heads):
    table = json.loads(heads(*all_texts(home, "--json")))
    model, parts = load_text_model(home / "decoder"), []
    for line in LINES:
        encoded = model.encode_text(line)
        with transom.watch(model.model) as trace:
            model.run(encoded)
        parts.append(measure_sums(trace, tokens=encoded.tokens))
    by_document = HeadTable.from_sums(HeadSums.merge_all(parts))
    assert table["heads"] == by_document.to_dicts()
    assert (table["documents"], table["pieces"]) == (9, 9)
    assert table["tokens"] == sum(len(model.encode_text(line).ids) for line in LINES)
    assert len(table["heads"]) == 6


def test_every_way_of_splitting_is_bit_identical(home, tmp_path, heads):
    expected = heads(*all_texts(home, "--csv"))
    base = ["--model", home / "decoder", "--lines", "--csv"]
    for name in ("a.txt", "b.txt.gz"):
        heads(*base, "--text", home / name, "--out", tmp_path / f"{name}.json")
    both = [tmp_path / "b.txt.gz.json", tmp_path / "a.txt.json"]
    assert heads("--merge", *both, "--csv", "--out", tmp_path / "all.json") == expected
    assert heads("--merge", tmp_path / "all.json", "--csv") == expected
    assert load_sums(tmp_path / "all.json").count("documents") == 9


def test_a_stopped_run_is_resumed_and_ends_the_same(home, tmp_path, heads, run_command, monkeypatch):
    expected = heads(*all_texts(home, "--csv"))
    args, add_document = all_texts(home, "--csv", "--out", tmp_path / "sums.json"), heads_corpus.add_document
    calls = []

    def add_or_stop(model, text, sums):
        calls.append(text)
        if len(calls) in (3, 7):
            raise KeyboardInterrupt
        return add_document(model, text, sums)

    monkeypatch.setattr(heads_corpus, "add_document", add_or_stop)
    for _ in range(2):
        assert "transom: stopped; the same command resumes it\n" in run_command("heads", *args, code=130).err
    assert not load_sums(tmp_path / "sums.json").is_finished
    assert heads(*args) == expected
    assert len(calls) == 9 + 2, "only the interrupted documents were measured twice"
    assert heads(*args) == expected
    assert len(calls) == 11, "a finished run is only shown"


def test_an_encoder_decoder_reads_its_own_translation(home, heads):
    out = heads("--model", home / "both", "--lines", home / "a.txt", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    cross = [row for row in rows if row["cross"] == "1"]
    assert len(rows) == 12
    assert len(cross) == 3
    assert all(row["previous"] == "" and row["entropy"] for row in cross)
    assert all(row["distance"] for row in rows if row["cross"] == "0")


def test_a_document_is_a_file_cut_into_pieces_that_fit(home, heads):
    table = json.loads(heads("--model", home / "decoder", home / "a.txt", "--longest", 11, "--json"))
    assert table["documents"] == 1
    assert table["pieces"] == -(-table["tokens"] // 11)
    printed = heads("--model", home / "decoder", home / "a.txt", "--longest", 11)
    assert printed.startswith(f"{home}/decoder: 1 document, {table['tokens']:,} tokens, 6 heads\n")


def test_the_table_is_sorted_cut_and_narrowed(home, heads):
    lines = heads(*all_texts(home, "--sort", "confidence", "--most", 2, "--measure", "confidence")).splitlines()
    assert lines[0].startswith(f"{home}/decoder: 9 documents, ")
    assert lines[0].endswith(" tokens, 6 heads")
    assert lines[1].split() == ["layer", "head", "confidence"]
    assert len(lines) == 4
    assert float(lines[2].split()[-1]) >= float(lines[3].split()[-1])


@pytest.mark.slow
def test_a_hugging_face_folder_is_measured_too(home, model_folder, heads):
    folder = model_folder("hf", "decoder")
    table = json.loads(heads("--model", folder, "--lines", home / "a.txt", "--json"))
    assert len(table["heads"]) == 6
    assert table["documents"] == 5
    assert all(head["previous"] is not None for head in table["heads"])


def test_bad_use_is_an_error(home, heads_error):
    args = ["--model", home / "decoder", home / "a.txt"]
    assert heads_error("--model", home / "decoder") == (
        "there should be texts to measure, but there are none; give --text and a file"
    )
    assert heads_error(*args, "--csv", "--json") == (
        "the table comes as --csv or as --json, but got both; leave one out"
    )
    assert heads_error(*args, "--measure", "sinks") == "there is no measure 'sinks'; did you mean 'sink'?"
    assert heads_error(*args, "--sort", "sinks") == (
        "--sort takes one of the measures, but got 'sinks'; did you mean 'sink'?"
    )
    assert heads_error("--merge", home / "a.txt", "--text", home / "b.txt") == (
        "--merge joins what was measured, but got --text too; leave one of the two out"
    )
    found = heads_error("--merge", home / "a.txt")
    assert found.startswith(f"{home}/a.txt should hold the sums of transom heads, but it cannot be read (")
    assert found.endswith("; name another file")


def test_sums_of_different_work_are_not_joined(home, tmp_path, heads, heads_error):
    base = ["--lines", "--measure", "sink", "--out"]
    first, other, third = (tmp_path / f"{name}.json" for name in ("first", "other", "third"))
    heads("--model", home / "decoder", home / "a.txt", *base, first)
    heads("--model", home / "both", home / "a.txt", *base, other)
    heads("--model", home / "decoder", home / "b.txt", *base[:-1], "--measure", "previous", "--out", third)
    assert heads_error("--model", home / "decoder", home / "b.txt", *base, first) == (
        f"{first} holds sums of {home}/decoder over 5 documents of {home}/a.txt, which is different work; name"
        " another file with --out, or remove it"
    )
    assert heads_error("--merge", first, first) == (
        f"{first} and {first} are of the same texts, which would count twice; leave one out"
    )
    assert heads_error("--merge", first, other) == (
        f"{first} is of {home}/decoder and {other} of {home}/both, or of other parameters; join sums of one model"
    )
    assert heads_error("--merge", first, third) == (
        "one has the measures sink, the other sink, previous; join what was measured alike"
    )


@pytest.mark.parametrize("spoil", ["", "{}", "[]", "sums", "heads", "format"])
def test_a_damaged_file_of_sums_is_an_error(home, tmp_path, heads, heads_error, spoil):
    path = tmp_path / "sums.json"
    heads("--model", home / "decoder", home / "a.txt", "--lines", "--measure", "sink", "--out", path)
    table = json.loads(path.read_text())
    layer = next(iter(table["heads"]["layers"].values()))
    if spoil == "sums":
        layer["sums"]["sink"].pop()
    elif spoil == "heads":
        layer["heads"] = "many"
    elif spoil == "format":
        table["format"] = 7
    path.write_text(json.dumps(table) if spoil in ("sums", "heads", "format") else spoil)
    found = heads_error("--merge", path)
    assert found.startswith(f"{path} has format 7, but" if spoil == "format" else f"{path} should hold the sums of")


def test_if_a_receipt_fails_nothing_is_shown(home, run_command, monkeypatch):
    from transom.lens.attention.receipt import Receipt
    from transom.lens.attention.sight import Sight

    monkeypatch.setattr(Sight, "receipt", lambda self: Receipt(1.0, 1e-6))
    out, err = run_command("heads", "--model", home / "decoder", home / "a.txt", "--lines", code=1)
    assert out == ""
    assert err == (
        "transom: the weights of 'stack.blocks.0.attention' do not reproduce the model's output: they are off by"
        " 1.0e+00, but 1.0e-06 is allowed; nothing of this run is drawn\n"
    )


def test_torchrun_needs_a_file(home, heads_error, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert heads_error("--model", home / "decoder", home / "a.txt") == (
        "2 processes join their sums through a file, but there is none; give --out sums.json"
    )


def start_heads(*args, processes=1):
    """The command in processes of its own."""
    command = ["-m", "transom", "heads", *map(str, args)]
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
def test_a_killed_run_is_resumed_and_ends_the_same(home, tmp_path, heads):
    torch.set_num_threads(1)
    many = tmp_path / "many.txt"
    many.write_text("\n".join(LINES * 15))
    args = ["--model", home / "decoder", "--lines", many, "--csv"]
    expected = heads(*args)
    out, counts = tmp_path / "sums.json", set()
    for _ in range(2):
        child = start_heads(*args, "--out", out, "--save-every", 0)
        before, deadline = load_sums(out).count("documents") if out.exists() else 0, time.monotonic() + 60
        while time.monotonic() < deadline and child.poll() is None:
            if out.exists() and load_sums(out).count("documents") > before + 5:
                break
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        counts.add(load_sums(out).count("documents"))
    assert len(counts) == 2
    assert max(counts) < 135
    last = start_heads(*args, "--out", out)
    printed, err = last.communicate()
    assert last.returncode == 0, err
    assert printed == expected


@pytest.mark.slow
def test_two_processes_of_torchrun_give_the_figures_of_one(home, tmp_path, heads):
    expected = heads(*all_texts(home, "--csv"))
    both = start_heads(*all_texts(home, "--csv", "--out", tmp_path / "sums.json"), processes=2)
    printed, err = both.communicate()
    assert both.returncode == 0, err
    assert printed == expected
    assert [path.name for path in tmp_path.iterdir()] == ["sums.json"], "the files of the parts are removed"
    assert [part.rank for part in load_sums(tmp_path / "sums.json").parts] == [0, 1]


@pytest.mark.parametrize(
    ("sums", "message"),
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
def test_impossible_sums_are_refused(sums, message, tmp_path, heads_error):
    path = tmp_path / "sums.json"
    path.write_text(json.dumps({"model": "m", "digest": "0", "done": [], "heads": {"measures": ["a"]} | sums}))
    assert heads_error("--merge", path) == (
        f"{path} should hold the sums of transom heads, but it cannot be read ({message}); name another file"
    )


@pytest.mark.parametrize("kind", ["decoder", "both"])
def test_influence_is_what_the_texts_would_lose_to_first_order(home, heads, kind):
    """Beside the derivative of the log-probability by a factor on each head's output, in float64."""
    folder = home / kind
    table = json.loads(heads("--model", folder, "--lines", home / "a.txt", "--influence", "--json"))
    model, expected, tokens = load_text_model(str(folder)), {}, 0
    model.model.double()
    lines = [line for line in (home / "a.txt").read_text().splitlines() if line.strip()]
    for line in lines:
        for ids in model.encode_pieces(line, 1024):
            encoded = model.prepare_inputs(ids)
            after = (encoded.target_ids or encoded.ids)[1:]
            tokens += len(after)
            for head in table["heads"] if after else ():
                key = (head["layer"], head["head"])
                expected[key] = expected.get(key, 0.0) + abs(slope(model, encoded, after, *key))
    for head in table["heads"]:
        assert head["influence"] == pytest.approx(expected[head["layer"], head["head"]] / tokens, rel=1e-3, abs=1e-5)
        assert head["rows"]["influence"] == tokens
    assert max(head["influence"] for head in table["heads"]) > 0.0


def test_estimates_of_heads_stand_beside_knock_outs(home, run_command):
    """The correlation that is printed is that of the changes with each head's part of W_O's input set to zero."""
    folder = home / "decoder"
    said = run_command("heads", "--model", folder, "--lines", home / "a.txt", "--influence").err
    found = re.search(
        r"estimates beside knock-outs of the 8 heads with the largest, in the first text: Pearson (\S+)", said
    )
    assert found is not None
    model = load_text_model(str(folder))
    model.model.double()
    line = next(line for line in (home / "a.txt").read_text().splitlines() if line.strip())
    encoded = model.prepare_inputs(model.encode_pieces(line, 1024)[0])
    after = encoded.ids[1:]
    estimates, layers = [], [name for name, part in model.model.named_modules() if hasattr(part, "W_O")]
    whole = text_log(model, encoded, after)
    for layer in layers:
        attention = model.model.get_submodule(layer)
        for head in range(attention.heads):
            estimates.append(
                (-slope(model, encoded, after, layer, head), without_head(model, encoded, after, layer, head) - whole)
            )
    estimates.sort(key=lambda pair: -abs(pair[0]))
    pearson = torch.corrcoef(torch.tensor(estimates[:8], dtype=torch.float64).T)[0, 1]
    assert float(found[1]) == pytest.approx(float(pearson), abs=0.006)


def text_log(model, encoded, after):
    logs = model.run(encoded)[0].double().log_softmax(dim=-1)
    return float(logs[range(len(after)), after].sum())


def without_head(model, encoded, after, layer, head):
    attention = model.model.get_submodule(layer)
    width = attention.W_O.weight.shape[1] // attention.heads
    kept = torch.ones(attention.W_O.weight.shape[1], dtype=torch.float64)
    kept[head * width : (head + 1) * width] = 0.0
    hook = attention.W_O.register_forward_pre_hook(lambda _, args: (args[0] * kept,))
    try:
        with torch.no_grad():
            return text_log(model, encoded, after)
    finally:
        hook.remove()


def slope(model, encoded, after, layer, head):
    """The derivative of the log-probability by the size of one head's output, by a central difference."""
    attention = model.model.get_submodule(layer)
    width = attention.W_O.weight.shape[1] // attention.heads
    step, found = 1e-4, []
    for factor in (1.0 + step, 1.0 - step):
        scale = torch.ones(attention.W_O.weight.shape[1], dtype=torch.float64)
        scale[head * width : (head + 1) * width] = factor
        hook = attention.W_O.register_forward_pre_hook(lambda _, args, scale=scale: (args[0] * scale,))
        with torch.no_grad():
            logs = model.run(encoded)[0].double().log_softmax(dim=-1)
        hook.remove()
        found.append(float(logs[range(len(after)), after].sum()))
    return (found[0] - found[1]) / (2 * step)


def test_an_encoder_writes_nothing_to_lose(home, model_folder, heads_error):
    folder = model_folder("transom", "encoder")
    assert heads_error("--model", folder, home / "a.txt", "--influence").endswith("is an encoder; leave it out")
