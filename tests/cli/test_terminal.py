"""Hostile text from files and models through every command: it never reaches a terminal unescaped."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from files.test_terminal import steering
from model_folders import of_transom
from show.hostile import TERMINAL

import transom
from transom.cli import COMMANDS, main
from transom.cli.cli_io import print_result, print_styled
from transom.cli.heads_corpus import CorpusPart, HeadSumsFile, PartProgress, save_sums
from transom.lens.metrics.head_sums import HeadSums, LayerSums
from transom.models import Decoder, DecoderConfig, Encoder, EncoderConfig
from transom.text.tokenizer import Tokenizer

pytestmark = [pytest.mark.usefixtures("own_errors"), pytest.mark.filterwarnings("ignore::UserWarning")]
HOUSE = Path(transom.__file__).parent
EVIL = "\x1b[2J\x9b31m\u202e\x07[bold]x[/]"
NAME = "\x1b[2Jevil\u202e\x9b[red]"  # what a file could be called
OWN_COLOURS = re.compile(r"\x1b\[(?:0|1|2|36|38;5;\d+(?:;48;5;\d+)?)m")  # 36: the tour, by rich
LESSON = """
title = {evil}
about = {evil}
tokens = [{evil}, "b"]
embeddings = [[1, 0], [0, 1]]
closing = {evil}
[parameters]
all = "identity"
[[case]]
name = {evil}
says = {evil}
embeddings = [[1, 1], [0, 1]]
[case.parameters]
all = "identity"
[[claim]]
says = {evil}
of = "weights"
row = {evil}
value = [0.9, 0.1]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Every file that a command reads, with hostile text wherever there can be text."""
    folder = tmp_path_factory.mktemp("home") / NAME
    folder.mkdir()
    (folder / "lesson.toml").write_text(LESSON.format(evil=json.dumps(EVIL)))
    (folder / "broken.toml").write_text(f"title = [{json.dumps(EVIL)}\n")
    (folder / "unknown.toml").write_text(f"{json.dumps(EVIL)} = 1\n")
    (folder / "short.txt").write_text(f"the cat\n\n{EVIL}")
    save_trace(folder / "run.safetensors")
    save_models(folder)
    sums = HeadSums(["entropy"], {EVIL: LayerSums(2, False)})
    save_sums(folder / "sums.json", HeadSumsFile(EVIL, "0", [PartProgress(CorpusPart([EVIL], [1], True, 1024))], sums))
    return folder


def save_trace(path: Path) -> None:
    torch.manual_seed(3)
    model = torch.nn.Sequential()
    model.add_module(EVIL, transom.layers.SelfAttention(d_model=5))
    with transom.watch(model, tokens=[EVIL, "b", "c"]) as trace:
        model(torch.randn(1, 3, 5))
    assert trace.names == [EVIL]
    trace.save(path)


def save_models(folder: Path) -> None:
    of_transom("encoder_decoder", folder / "both")
    torch.manual_seed(5)
    tokenizer = Tokenizer.train("bpe", ["the cat", EVIL * 3], 300)
    sizes = {"vocabulary": tokenizer.size, "d_model": 12, "heads": 3, "d_hidden": 17, "layers": 1, "longest": 64}
    Decoder(DecoderConfig(**sizes)).save_pretrained(folder / "decoder", tokenizer)
    Encoder(EncoderConfig(**sizes, labels=(EVIL, "yes"))).save_pretrained(folder / "encoder", tokenizer)


RUNS = {
    "check": (1, ["check", "lesson.toml"]),
    "check --json": (1, ["check", "--json", "lesson.toml"]),
    "check broken": (2, ["check", "broken.toml"]),
    "check unknown key": (2, ["check", "unknown.toml"]),
    "check nothing": (2, ["check", "gone.toml"]),
    "check --new": (2, ["check", "--new", "lesson.toml"]),
    "learn": (0, ["learn", "lesson.toml", "--all"]),
    "learn --json": (0, ["learn", "lesson.toml", "--json"]),
    "effect": (0, ["effect", "the cat", "--model", "both"]),
    "effect --json": (0, ["effect", "the cat", "--model", "decoder", "--head", "0,1", "--json"]),
    "effect of no edge": (2, ["effect", "the cat", "--model", "decoder", "--edge", EVIL]),
    "sources": (0, ["sources", "--model", "decoder", "--context", "short.txt", "--question", EVIL, "--tokens", "2"]),
    "logits": (0, ["logits", f"the {EVIL}", "--model", "decoder"]),
    "logits of no token": (2, ["logits", "the cat", "--model", "decoder", "--token", EVIL]),
    "logits --lens": (0, ["logits", "the cat", "--model", "both", "--lens"]),
    "see --trace": (0, ["see", "--trace", "run.safetensors", "--all"]),
    "see --steps": (0, ["see", "--trace", "run.safetensors", "--steps"]),
    "see --json": (0, ["see", "--trace", "run.safetensors", "--json"]),
    "see another layer": (2, ["see", "--trace", "run.safetensors", "--layer", "none"]),
    "see another file": (2, ["see", "--trace", "lesson.toml"]),
    "see text": (0, ["see", f"the {EVIL}", "--model", "decoder"]),
    "see writes": (0, ["see", "the", "--model", "decoder", "--generate", "5"]),
    "see no model": (2, ["see", "the", "--model", "gone"]),
    "serve no file": (2, ["serve", "gone.safetensors", "--port", "0"]),
    "train a lesson": (2, ["train", "lesson.toml"]),
    "train --set": (2, ["train", "lesson.toml", "--set", f"{EVIL}=1"]),
    "evaluate nothing": (2, ["evaluate", "gone.toml"]),
    "diff nothing": (2, ["diff", "gone", "gone"]),
    "translate": (0, ["translate", EVIL, "--model", "both"]),
    "translate --json": (0, ["translate", EVIL, "--model", "both", "--json"]),
    "translate wrong": (2, ["translate", EVIL, "--model", "decoder"]),
    "generate": (0, ["generate", EVIL, "--model", "decoder", "--tokens", "9", "--seed", "1"]),
    "generate --json": (0, ["generate", EVIL, "--model", "decoder", "--tokens", "9", "--seed", "1", "--json"]),
    "import nothing": (2, ["import", EVIL, "--to", "new"]),
    "import one of ours": (2, ["import", "decoder", "--to", "new"]),
    "export nothing": (2, ["export", EVIL, "--to", "new"]),
    "site": (2, ["site", "new", "--record", EVIL]),
    "site licence": (2, ["site", "new", "--licence", EVIL]),
    "classify": (0, ["classify", EVIL, "--model", "encoder"]),
    "classify --json": (0, ["classify", EVIL, "--model", "encoder", "--json"]),
    "heads merge": (2, ["heads", "--merge", "lesson.toml"]),
    "heads sums": (0, ["heads", "--merge", "sums.json"]),
    "heads": (0, ["heads", "--model", "decoder", "--lines", "--text", "unknown.toml"]),
    "heads --csv": (0, ["heads", "--model", "decoder", "--lines", "--text", "unknown.toml", "--csv"]),
    "unknown command": (2, [EVIL]),
    "unknown option": (2, ["see", f"--{EVIL}"]),
    "--debug": (2, ["check", "gone.toml", "--debug"]),
    "tour --html": (0, ["tour", "--html", "tour.html"]),
    "exercises": (0, ["exercises", "1", "--count", "1"]),
    "doctor": (0, ["doctor"]),
}
RESULTS = {"translate", "generate", "classify", "heads --csv"}  # which are not escaped in a pipe


def paths_in(home: Path, args: list[str]) -> list[str]:
    """The arguments, with each file in the folder with the hostile name."""
    known = {path.name for path in home.iterdir()} | {"tour.html"}
    return [str(home / arg) if arg in known or arg.startswith("gone") else arg for arg in args]


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("name", RUNS)
def test_no_command_passes_controls_on(name, terminal, home, capsys, monkeypatch):
    code, args = RUNS[name]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    exit_code = main(paths_in(home, args))
    out, err = capsys.readouterr()
    assert exit_code == code, err
    assert steering(err) == []
    if terminal or name not in RESULTS:
        assert steering(OWN_COLOURS.sub("", out)) == []


def test_every_command_is_among_them():
    assert {args[0] for _, args in RUNS.values()} >= set(COMMANDS)


def test_results_are_not_escaped_in_a_pipe(capsys, monkeypatch):
    for payload in (*TERMINAL, "\u202egnp.exe"):
        print_result(payload)
        assert capsys.readouterr().out == f"{payload}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    print_result("a\x1b[2J\u202e\n", end="")
    assert capsys.readouterr().out == "a‹U+001B›[2J‹U+202E›\n"


def test_a_styled_line_takes_no_markup_from_its_text(capsys):
    from rich.text import Text

    print_styled(Text.assemble("a [bold]b[/] ", ("c\x1b[2J", "bold")))
    assert capsys.readouterr().out == "a [bold]b[/] c‹U+001B›[2J\n"


ALLOWED = {"cli/cli_io.py", "training/progress.py", "serve/offline_page.py", "show/views/__init__.py"}


def test_only_a_few_places_print():
    """A new print goes through cli/cli_io.py; the others escape their text with files/terminal.py themselves."""
    for path in HOUSE.rglob("*.py"):
        file = path.relative_to(HOUSE).as_posix()
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        plain = {func.id for func in calls if isinstance(func, ast.Name)}
        dotted = {ast.unparse(func) for func in calls if isinstance(func, ast.Attribute)}
        printing = plain & {"print", "Console", "Progress"} | {
            name for name in dotted if re.search(r"typer\.s?echo$|std(out|err)\.write|console\.print|print_exc$", name)
        }
        if file in ALLOWED:
            assert "transom.files.terminal" in path.read_text("utf-8"), file
        else:
            assert not printing, f"{file}: {printing}"
