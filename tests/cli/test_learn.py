"""`transom learn`: the list, a lesson at once or page by page, and its JSON."""

import json
import re
import sys

import pytest

from transom.cli import main
from transom.lessons.fixing import new_text
from transom.lessons.glossary import GLOSSARY
from transom.lessons.playing import pages
from transom.lessons.shelf import paths, shipped


def said(capsys, *words):
    assert main(["learn", *words]) == 0
    return capsys.readouterr()


def test_the_list_is_numbered(capsys):
    out, err = said(capsys)
    assert [line.split(maxsplit=1) for line in out.splitlines()] == [
        [str(number), shipped(number).title] for number in range(1, len(paths()) + 1)
    ]
    assert "transom learn 1 plays the first" in err


def test_the_list_as_json(capsys):
    rows = json.loads(said(capsys, "--json").out)
    assert [row["number"] for row in rows] == list(range(1, len(paths()) + 1))
    assert rows[0]["name"] == "three-tokens"
    assert set(rows[0]) == {"number", "name", "title", "about", "picture"}


@pytest.mark.parametrize("word", ["1", "three-tokens"])
def test_a_lesson_comes_at_once_where_nobody_can_press_enter(word, capsys):
    out = said(capsys, word).out
    titles = [page.title for page in pages(shipped(1))]
    places = [out.index(title) for title in titles]
    assert places == sorted(places)
    assert "e^2 / (e^1 + e^1 + e^2) = 7.3891 / 12.8256 = 0.5761" in out
    assert "sum of The, as printed = 1.2669 0.9999 1.2669 0.9999" in out
    assert "sum of The, right = 0.8446 0.5777 0.8446 0.5777" in out


def on_a_terminal(monkeypatch, answer):
    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "72")


def raising(error):
    raise error


@pytest.mark.parametrize(
    ("answer", "code", "end"),
    [
        (lambda: "q", 0, ""),
        (lambda: raising(EOFError), 0, "\n"),
        (lambda: raising(KeyboardInterrupt), 130, "\n"),
    ],
    ids=["q", "Ctrl-D", "Ctrl-C"],
)
def test_a_lesson_can_be_left(monkeypatch, capsys, answer, code, end):
    on_a_terminal(monkeypatch, answer)
    assert main(["learn", "1"]) == code
    out, err = capsys.readouterr()
    assert shipped(1).title in out.splitlines()[0]
    assert len(out.splitlines()) == 1 + len(next(pages(shipped(1))).fitted(72))
    assert err == f"Enter for the next step, q to stop {end}"


def test_ctrl_c_anywhere_is_no_fault(monkeypatch, capsys):
    monkeypatch.setattr("transom.cli.learn.listing", lambda as_json: raising(KeyboardInterrupt))
    assert main(["learn"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_a_bound_is_printed(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    claim = '\n[[claim]]\nof = "weights"\nmeasure = "largest"\nrow = 1\n'
    path.write_text(f"{new_text('mine.toml')}{claim}above = 0.10\n{claim}below = 1.5\n")
    found = re.findall(r"largest of weights of row 1 = 0\.\d+ (.*)\n", said(capsys, str(path)).out)
    assert found == ["(> 0.10)", "(< 1.5)"]


def test_on_a_terminal_enter_turns_the_page(monkeypatch, capsys):
    pressed = []
    on_a_terminal(monkeypatch, lambda: pressed.append("") or "")
    said(capsys, "4")
    assert len(pressed) == len(list(pages(shipped(4))))  # and the picture at the end
    said(capsys, "4", "--all")
    assert len(pressed) == len(list(pages(shipped(4))))


def test_a_lesson_as_json(capsys):
    found = json.loads(said(capsys, "13", "--json").out)
    steps = {step["name"]: step for step in found["cases"][0]["steps"]}
    assert steps["masked"]["values"][0][1:] == [None, None, None]
    assert {claim["verdict"] for claim in found["claims"]} == {"right"}
    assert [case["name"] for case in found["cases"]] == ["", "the second layer alone", "without residuals"]


def test_heads_and_layers_are_counted_from_0(capsys):
    assert main(["learn", "many-heads"]) == 0
    out = capsys.readouterr().out
    assert out.index("weights (head 0): ") < out.index("weights (head 1): ")
    assert "weights in head 0 of it" in out
    assert main(["learn", "layers-together"]) == 0
    out = capsys.readouterr().out
    assert out.index("weights (layer 0): ") < out.index("weights (layer 1): ")
    assert "(layer 2)" not in out


def test_the_glossary(capsys):
    out = said(capsys, "--glossary").out
    assert [re.split(r"  +", line)[0] for line in out.splitlines()] == list(GLOSSARY)
    assert json.loads(said(capsys, "--glossary", "--json").out) == GLOSSARY


QUICK = {1, 5, 7, 14}


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=() if number in QUICK else pytest.mark.slow) for number in range(1, len(paths()) + 1)],
)
def test_every_lesson_has_its_picture(number, tmp_path, capsys):
    file = tmp_path / "picture.html"
    out, err = said(capsys, str(number), "--html", str(file))
    assert (out, err) == (f"{file}\n", "")
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page


def test_a_lesson_ends_with_its_picture(capsys):
    out, err = said(capsys, "7")
    assert "\nPicture\nThe strongest arrows of the attention\n" in out
    assert "Je    0.89 ━" in out
    assert err == "\nWith --html FILE its picture is drawn as a page.\n"


def test_a_lesson_of_one_s_own(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text(new_text("mine.toml"))
    assert said(capsys, str(path)).out.startswith("Mine\nWhat this lesson shows, in a sentence or two.\n")


def test_a_lesson_that_is_not_there(capsys):
    assert main(["learn", "99"]) == 2
    assert capsys.readouterr().err == (
        f"transom: there are lessons 1 to {len(paths())}, but 99 came; transom learn lists them\n"
    )
