"""`transom learn`: the list, a lesson at once or page by page, and its JSON."""

import json
import re
import sys
from functools import partial

import pytest

from transom.lessons.glossary import GLOSSARY
from transom.lessons.lesson_file import load_shipped, new_text, shipped_paths
from transom.lessons.lesson_pages import pages


@pytest.fixture
def learn(run_command):
    return partial(run_command, "learn")


def test_the_list_is_numbered(learn):
    out, err = learn()
    assert [line.split(maxsplit=1) for line in out.splitlines()] == [
        [str(number), load_shipped(number).title] for number in range(1, len(shipped_paths()) + 1)
    ]
    assert "transom learn 1 plays the first" in err


def test_the_list_as_json(learn):
    rows = json.loads(learn("--json").out)
    assert [row["number"] for row in rows] == list(range(1, len(shipped_paths()) + 1))
    assert rows[0]["name"] == "three-tokens"
    assert set(rows[0]) == {"number", "name", "title", "about", "picture"}


@pytest.mark.parametrize("name", ["1", "three-tokens"])
def test_a_lesson_is_printed_at_once_if_there_is_no_terminal(name, learn):
    out = learn(name).out
    titles = [page.title for page in pages(load_shipped(1))]
    positions = [out.index(title) for title in titles]
    assert positions == sorted(positions)
    assert "e^2 / (e^1 + e^1 + e^2) = 7.3891 / 12.8256 = 0.5761" in out
    assert "sum of The, as printed = 1.2669 0.9999 1.2669 0.9999" in out
    assert "sum of The, right = 0.8446 0.5777 0.8446 0.5777" in out


def use_terminal(monkeypatch, read_line):
    monkeypatch.setattr("builtins.input", read_line)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "72")


def raising(error):
    raise error


@pytest.mark.parametrize(
    ("read_line", "code", "end"),
    [
        (lambda: "q", 0, ""),
        (lambda: raising(EOFError), 0, "\n"),
        (lambda: raising(KeyboardInterrupt), 130, "\n"),
    ],
    ids=["q", "Ctrl-D", "Ctrl-C"],
)
def test_a_lesson_can_be_left(monkeypatch, learn, read_line, code, end):
    use_terminal(monkeypatch, read_line)
    out, err = learn("1", code=code)
    assert load_shipped(1).title in out.splitlines()[0]
    assert len(out.splitlines()) == 1 + len(next(pages(load_shipped(1))).wrap(72))
    assert err == f"Enter for the next step, q to stop {end}"


def test_ctrl_c_anywhere_is_no_error(monkeypatch, learn):
    monkeypatch.setattr("transom.cli.learn.print_lessons", lambda as_json: raising(KeyboardInterrupt))
    assert learn(code=130).err.strip() == ""


def test_a_bound_is_printed(tmp_path, learn):
    path = tmp_path / "mine.toml"
    claim = '\n[[claim]]\nof = "weights"\nmeasure = "largest"\nrow = 1\n'
    path.write_text(f"{new_text('mine.toml')}{claim}above = 0.10\n{claim}below = 1.5\n")
    found = re.findall(r"largest of weights of row 1 = 0\.\d+ (.*)\n", learn(str(path)).out)
    assert found == ["(> 0.10)", "(< 1.5)"]


def test_on_a_terminal_enter_turns_the_page(monkeypatch, learn):
    pressed = []
    use_terminal(monkeypatch, lambda: pressed.append("") or "")
    learn("4")
    assert len(pressed) == len(list(pages(load_shipped(4))))  # and the picture at the end
    learn("4", "--all")
    assert len(pressed) == len(list(pages(load_shipped(4))))


def test_a_lesson_as_json(learn):
    found = json.loads(learn("13", "--json").out)
    steps = {step["name"]: step for step in found["cases"][0]["steps"]}
    assert steps["masked"]["values"][0][1:] == [None, None, None]
    assert {claim["verdict"] for claim in found["claims"]} == {"right"}
    assert [case["name"] for case in found["cases"]] == ["", "the second layer alone", "without residuals"]


def test_heads_and_layers_are_counted_from_0(learn):
    out = learn("many-heads").out
    assert out.index("weights (head 0): ") < out.index("weights (head 1): ")
    assert "weights in head 0 of it" in out
    out = learn("layers-together").out
    assert out.index("weights (layer 0): ") < out.index("weights (layer 1): ")
    assert "(layer 2)" not in out


def test_the_glossary(learn):
    out = learn("--glossary").out
    assert [re.split(r"  +", line)[0] for line in out.splitlines()] == list(GLOSSARY)
    assert json.loads(learn("--glossary", "--json").out) == GLOSSARY


QUICK = {1, 5, 7, 14}


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=() if number in QUICK else pytest.mark.slow)
        for number in range(1, len(shipped_paths()) + 1)
    ],
)
def test_every_lesson_has_its_picture(number, tmp_path, learn):
    file = tmp_path / "picture.html"
    out, err = learn(str(number), "--html", str(file))
    assert (out, err) == (f"{file}\n", "")
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page


def test_a_lesson_ends_with_its_picture(learn):
    out, err = learn("7")
    assert "\nPicture\nThe strongest arrows of the attention\n" in out
    assert "Je    0.89 ━" in out
    assert err == "\nWith --html FILE its picture is saved as a page.\n"


def test_a_lesson_from_a_file(tmp_path, learn):
    path = tmp_path / "mine.toml"
    path.write_text(new_text("mine.toml"))
    assert learn(str(path)).out.startswith("Mine\nWhat this lesson shows, in a sentence or two.\n")


def test_a_lesson_that_does_not_exist(learn):
    assert learn("99", code=2).err == (
        f"transom: there are lessons 1 to {len(shipped_paths())}, but 99 came; transom learn lists them\n"
    )
