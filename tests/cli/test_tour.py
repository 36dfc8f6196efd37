"""`transom tour`: each number is computed again with plain Python floats; the translation is the model's own."""

import json
import math
import re
import shlex
import socket
import sys

import numpy as np
import pytest
import torch

from transom.cli import COMMANDS, main, tour
from transom.cli.see_analysis import SeeRequest, analyse
from transom.cli.tour import SHADES, shade, translate_example, translation_lines
from transom.equations import attention
from transom.lens import Receipt, Sight
from transom.lessons import parse_lesson
from transom.lessons.lesson_file import load_shipped

X = {"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1], "sat": [1, 1, 1, 1]}


def dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def weights_by_hand(token):
    powers = [math.exp(dot(X[token], key) / math.sqrt(4)) for key in X.values()]
    return [power / sum(powers) for power in powers]


def context_by_hand(weights, values):
    return [dot(weights, column) for column in zip(*values, strict=True)]


@pytest.fixture(scope="module")
def translation():
    return translate_example()


@pytest.fixture(autouse=True)
def translate_once(translation, monkeypatch):
    """The translation takes a second or two, so it is computed once."""
    monkeypatch.setattr(tour, "translate_example", lambda: translation)


@pytest.fixture
def shown(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [".venv/bin/transom", "tour"])
    assert main(["tour"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


@pytest.fixture
def steps(capsys):
    assert main(["tour", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_holds_every_step(steps):
    x = list(X.values())
    assert steps["tokens"] == list(X)
    assert steps["embeddings"] == steps["Q"] == steps["K"] == steps["V"] == x
    assert steps["scores"] == [[dot(q, k) for k in x] for q in x]
    assert steps["scaled"] == [[dot(q, k) / 2 for k in x] for q in x]
    for token, weights, context in zip(X, steps["weights"], steps["context"], strict=True):
        assert weights == pytest.approx(weights_by_hand(token), rel=1e-14)
        assert context == pytest.approx(context_by_hand(weights_by_hand(token), x), rel=1e-14)
    assert steps["receipt"]["holds"]


def test_the_layer_agrees_with_the_equations(steps):
    x = torch.tensor(list(X.values()), dtype=torch.float64)
    assert torch.allclose(torch.tensor(steps["context"], dtype=x.dtype), attention.attention(x, x, x), rtol=1e-14)


def test_the_right_figure_is_the_one_in_closed_form(steps):
    e = math.e
    assert steps["context"][0] == pytest.approx([2 * e / (2 * e + 1), (1 + e) / (2 * e + 1)] * 2, rel=1e-14)
    assert [round(number, 4) for number in steps["context"][0]] == [0.8446, 0.5777, 0.8446, 0.5777]


def test_the_note_s_figure_follows_from_a_misread_value_and_cut_weights(steps):
    exact = weights_by_hand("The")
    cut = [math.floor(weight * 10**4) / 10**4 for weight in exact]
    misread = [X["The"], X["cat"], [2, 2, 2, 2]]
    assert cut == [0.4223, 0.1553, 0.4223]
    assert context_by_hand(cut, misread) == pytest.approx([1.2669, 0.9999, 1.2669, 0.9999], abs=1e-12)
    assert steps["slip"] == {
        "printed": [1.2669, 0.9999, 1.2669, 0.9999],
        "weights": cut,
        "V": misread,
        "retold": [1.2669, 0.9999, 1.2669, 0.9999],
        "reproduced": True,
    }


def test_neither_half_of_the_slip_gives_the_note_s_figure_alone():
    exact, misread = weights_by_hand("The"), [X["The"], X["cat"], [2, 2, 2, 2]]
    rounded = [round(weight, 4) for weight in exact]
    cut = [math.floor(weight * 10**4) / 10**4 for weight in exact]
    contexts = (context_by_hand(exact, misread), context_by_hand(rounded, misread), context_by_hand(cut, X.values()))
    assert [[round(number, 4) for number in context[:2]] for context in contexts] == [
        [1.267, 1.0],
        [1.2669, 1.0],
        [0.8446, 0.5776],
    ]


def test_it_fits_a_terminal(shown):
    assert len(shown) <= 40
    assert max(len(line) for line in shown) <= 100
    assert all(line == line.rstrip() for line in shown)


@pytest.mark.parametrize("token", X)
def test_each_row_is_shown_with_its_token(token, shown):
    rows = [line.split() for line in shown if line.split()[:1] == [token]]
    x, scores = X[token], [dot(X[token], key) for key in X.values()]
    weights = [f"{weight:.4f}" for weight in weights_by_hand(token)]
    context = [f"{number:.4f}" for number in context_by_hand(weights_by_hand(token), X.values())]
    vectors, matrices, sums = rows
    assert vectors == [token, *f"[{' '.join(map(str, x))}]".split()]
    assert matrices[1:7] == [*map(str, scores), *(f"{score / 2:.1f}" for score in scores)]
    assert matrices[7:10] == weights
    assert " ".join(sums).endswith(f"= [{' '.join(context)}]")
    assert re.findall(r"(\S+)·", " ".join(sums)) == weights


def test_the_slip_is_shown_beside_the_right_figure(shown):
    assert [line for line in shown if line.endswith(("as printed", "right"))] == [
        "   0.4223·[1 0 1 0] + 0.1553·[0 1 0 1] + 0.4223·[2 2 2 2] = [1.2669 0.9999 1.2669 0.9999] as printed",
        "   0.4223·[1 0 1 0] + 0.1554·[0 1 0 1] + 0.4223·[1 1 1 1] = [0.8446 0.5777 0.8446 0.5777] right",
    ]


def change_lesson(monkeypatch, old, new):
    """Replace something in the lesson."""
    lesson = load_shipped(tour.LESSON)
    assert old in lesson.source.text
    changed = parse_lesson(lesson.source.text.replace(old, new), lesson.source.name)
    monkeypatch.setattr("transom.lessons.lesson_file.load_shipped", lambda which: changed)


def test_the_layer_agrees_with_the_lesson(steps):
    lesson = load_shipped(tour.LESSON).steps()
    for name, step in {
        "Q": "Q",
        "scores": "scores",
        "scaled": "scaled",
        "weights": "weights",
        "context": "sum",
    }.items():
        assert np.allclose(steps[name], lesson[step].values, rtol=1e-14)


def test_a_slip_that_does_not_explain_the_figure_is_reported(monkeypatch, capsys):
    change_lesson(monkeypatch, "[2, 2, 2, 2]", "[3, 3, 3, 3]")
    main(["tour"])
    assert "= [1.6892 1.4222 1.6892 1.4222] not as printed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("weight", "block"),
    [(0.0, "░"), (0.25, "░"), (0.26, "▒"), (0.5, "▒"), (0.51, "▓"), (0.75, "▓"), (0.76, "█"), (1.0, "█")],
)
def test_a_block_is_darker_for_each_quarter_of_weight(weight, block):
    assert shade(weight) == block


def test_the_picture_shows_the_weights(shown, steps):
    first_part = shown[: next(number for number, line in enumerate(shown) if line.startswith("4  "))]
    drawn = [line[-19:] for line in first_part if line.endswith(tuple(SHADES))]
    assert drawn == ["  ".join(shade(weight) * 5 for weight in weights) for weights in steps["weights"]]


def test_colour_only_if_it_is_wanted(monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    main(["tour"])
    assert "\x1b[36m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["tour"])
    assert "\x1b[36m" not in capsys.readouterr().out


def test_tokens_are_text_not_markup(monkeypatch, capsys):
    change_lesson(monkeypatch, '["The", "cat", "sat"]', '["[red]", "[/]", "[b]"]')
    assert main(["tour"]) == 0
    assert "   [red]  [1 0 1 0]\n   [/]  [0 1 0 1]\n   [b]  [1 1 1 1]\n" in capsys.readouterr().out


def test_the_next_commands_exist(shown):
    offered = [shlex.split(line) for line in shown[shown.index("Next, try:") + 1 :]]
    assert len(offered) == 3
    for args in offered:
        assert args[0] == ".venv/bin/transom"
        assert args[1] in {*COMMANDS, "--help"}


@pytest.mark.parametrize("command", tour.NEXT)
def test_the_next_commands_run(command, capsys, monkeypatch):
    monkeypatch.setattr(
        "transom.serve.server.serve", lambda session, host, port, on_ready: on_ready(f"http://{host}:{port}/")
    )
    monkeypatch.setattr("transom.serve.server.bind_socket", lambda host, port: socket.socket())
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out != ""


@pytest.mark.parametrize(
    ("called", "found", "typed"),
    [
        (".venv/bin/transom", None, ".venv/bin/transom"),
        (".venv/bin/transom", "/usr/bin/transom", ".venv/bin/transom"),
        ("/usr/bin/transom", "/usr/bin/transom", "transom"),
        ("/a b/transom", None, "'/a b/transom'"),
        ("/somewhere/transom/__main__.py", "/usr/bin/transom", "python -m transom"),
    ],
)
def test_a_command_is_offered_as_it_can_be_typed_here(called, found, typed, monkeypatch):
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr("shutil.which", lambda name: found)
    assert tour.command_as_typed() == typed


def test_nothing_is_drawn_without_a_receipt(monkeypatch, capsys):
    monkeypatch.setattr(Sight, "receipt", lambda self: Receipt(difference=0.5, tolerance=1e-9))
    assert main(["tour"]) == 1
    note = "these weights do not reproduce the layer's output, so nothing is shown; transom doctor says more"
    assert capsys.readouterr() == ("", f"transom: {note}\n")


def test_the_weights_are_rows_over_the_source_tokens(translation):
    weights = torch.tensor(translation.weights)
    assert weights.shape == (len(translation.targets), len(translation.sources))
    assert torch.allclose(weights.sum(-1), torch.ones(len(weights)), atol=1e-5)
    assert translation.receipt["holds"]
    assert translation.receipt["difference"] <= translation.receipt["tolerance"]
    # The first word of a text has no capital among the tokens, only in the text (docs/text.md).
    assert "".join(translation.sources).strip().startswith(translation.source[0].lower() + translation.source[1:])
    assert translation.target[0].lower() + translation.target[1:] == "".join(translation.targets[:-1]).strip()
    assert translation.reads == ["<s>", *translation.targets[:-1]]


def test_the_knocked_out_arrow_is_the_strongest_of_its_row_and_costs_its_token(translation):
    assert translation.column == torch.tensor(translation.weights)[translation.row].argmax()
    assert 0.0 <= translation.after < translation.before <= 1.0


def test_the_head_is_the_one_that_see_and_the_page_show_first(translation):
    found = analyse(SeeRequest(translation.source, target=translation.target))
    assert (f"decoder.blocks.{translation.layer}.cross", translation.head) == (found.layer, found.head)
    assert torch.allclose(torch.tensor(translation.weights), found.sight.weights(batch=0, head=found.head), atol=1e-5)


def test_the_lines_hold_the_numbers(translation):
    lines = [line.plain for line in translation_lines(translation)]
    assert f"layer {translation.layer}, head {translation.head} looked" in lines[2]
    assert translation.source in lines[1]
    assert translation.target in lines[1]
    assert len(lines) == 4 + len(translation.targets) + 2
    assert f"{translation.before:.3f} to {translation.after:.3f}" in lines[-1]
    for row, line in enumerate(lines[4:-2]):
        assert line.startswith(f"   {translation.row_label(row)} ")
