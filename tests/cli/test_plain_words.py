"""What a newcomer reads: plain help, lines that fit a narrow terminal, words that a model does not know."""

import re
from itertools import chain
from types import SimpleNamespace

import pytest
import torch

import transom
from transom.cli import COMMANDS, format_option_row, main
from transom.cli.cli_io import warn_unknown_words
from transom.lens.metrics.head_table import fit_columns
from transom.models import Encoder, EncoderConfig
from transom.text.tokenizer import Tokenizer

pytestmark = [
    pytest.mark.usefixtures("own_errors"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_what_to_give_in_plain_words(name, capsys):
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert not re.findall(r"<\w[\w \[\]]*>|x>=|<=x|\[\[", shown)


@pytest.mark.parametrize(
    ("row", "plain"),
    [
        (
            ("--arrows <int range>", "How many.  [default: 8; x>=1]"),
            ("--arrows N", "How many.  [default: 8; at least 1]"),
        ),
        (("--port <int range>", "[default: 7; 0<=x<=65535]"), ("--port N", "[default: 7; 0 to 65535]")),
        (("--how <this|that>", "One."), ("--how this|that", "One.")),
        (("text <str>", "What it reads."), ("text", "What it reads.")),
        (("--all", "x>=1 stays where it is prose"), ("--all", "x>=1 stays where it is prose")),
    ],
)
def test_kinds_and_bounds_in_words(row, plain):
    assert format_option_row(*row) == plain


def test_a_lesson_fits_a_narrow_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "50")
    assert main(["learn", "4"]) == 0
    shown = capsys.readouterr().out.splitlines()
    prose = [line for line in shown if re.match(r"\w", line) and len(line.split()) > 5]
    assert len(prose) > 3
    assert max(map(len, prose)) <= 50


def test_measures_that_do_not_fit_come_below():
    model = torch.nn.MultiheadAttention(14, 2, batch_first=True)
    x = torch.randn(1, 7, 14)
    with transom.watch(model) as trace:
        model(x, x, x)
    table = transom.heads(trace)
    wide, narrow = str(table).splitlines(), table.text(60).splitlines()
    assert max(map(len, narrow[: narrow.index("")])) <= 60
    headings = [line.split()[2:] for line in narrow if line.startswith("layer")]
    assert len(headings) > 1
    assert list(chain(*headings)) == wide[0].split()[2:]
    numbers = [line.split()[2:] for line in narrow if re.match(r"\S+ +1 ", line)]
    assert list(chain(*numbers)) == wide[2].split()[2:]


def test_columns_are_split_with_layer_and_head_in_front():
    assert fit_columns([7, 3, 5, 11, 2], None) == [[0, 1, 2, 3, 4]]
    assert fit_columns([7, 3, 5, 11, 2], 19) == [[0, 1, 2], [0, 1, 3], [0, 1, 4]]
    assert fit_columns([7, 3, 5, 11, 2], 29) == [[0, 1, 2], [0, 1, 3, 4]]


@pytest.mark.parametrize("kind", ["words", "characters", "bpe"])
def test_a_tokenizer_lists_the_words_it_does_not_know(kind):
    tokenizer = Tokenizer.train(kind, ["the cat sat on a mat"], 300, lowercase=True)
    unknown = {"words": ["ßoo", "dog"], "characters": ["ß", "d", "g"], "bpe": []}[kind]
    assert tokenizer.unknown_words("The ßoo Cat sat dog") == unknown
    assert tokenizer.unknown_words("the cat") == []


def test_unknown_words_are_listed_on_stderr(tmp_path, run_command):
    tokenizer = Tokenizer.train("words", ["the cat sat on a mat"], 300)
    config = EncoderConfig(
        vocabulary=tokenizer.size, labels=("no", "yes"), d_model=6, heads=2, d_hidden=7, layers=1, longest=11
    )
    Encoder(config).save_pretrained(tmp_path / "model", tokenizer=tokenizer)
    output = run_command("classify", "--model", tmp_path / "model", "the dog sat", "a dog and a cow")
    assert output.err == "transom: the model does not know “dog”, “and”, “cow”; it reads <unk> instead\n"
    assert len(output.out.splitlines()) == 2


def test_of_many_unknown_words_some_are_listed(capsys):
    words = [f"w{number}" for number in range(11)]
    warn_unknown_words(SimpleNamespace(unknown_words=lambda text: words), ["a text", "another"])
    assert capsys.readouterr().err.endswith("“w6”, “w7” and 3 more; it reads <unk> instead\n")


def test_a_text_that_does_not_fit_is_an_error_before_a_large_model_is_loaded(model_folder, monkeypatch, complaint):
    folder = model_folder("hf", "decoder")
    monkeypatch.setattr("transom.runner.hugging_face.load_model", None)
    error = complaint("see", "the cat sat on the mat " * 200, "--model", folder)
    assert re.fullmatch(r"the text has \d+ tokens, but \S+ takes \d+ at most; give a shorter one", error)
