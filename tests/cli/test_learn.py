"""`transom learn`: the list, a lesson at once or page by page, and its JSON."""

import json
import re
import sys
from functools import partial
from xml.etree import ElementTree

import pytest

from transom.lessons.glossary import GLOSSARY
from transom.lessons.lesson_file import load_shipped, new_text, shipped_paths
from transom.lessons.lesson_screens import screens


@pytest.fixture
def learn(run_command, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
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
    titles = [screen.title for screen in screens(load_shipped(1))]
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
    assert len(out.splitlines()) == 1 + len(next(screens(load_shipped(1))).wrap(72))
    assert err == f"Enter for the next step, b to go back, a number to go there, q to stop {end}"


def test_ctrl_c_anywhere_is_no_error(monkeypatch, learn):
    monkeypatch.setattr("transom.cli.learn.print_lessons", lambda as_json: raising(KeyboardInterrupt))
    assert learn(code=130).err.strip() == ""


def test_a_bound_is_printed(tmp_path, learn):
    path = tmp_path / "mine.toml"
    claim = '\n[[claim]]\nof = "weights"\nmeasure = "largest"\nrow = 1\n'
    path.write_text(f"{new_text('mine.toml')}{claim}above = 0.10\n{claim}below = 1.5\n")
    found = re.findall(r"largest of weights of row 1 = 0\.\d+ (.*)\n", learn(str(path)).out)
    assert found == ["(> 0.10)", "(< 1.5)"]


def typing(*lines):
    """What a learner types, line by line; then only Enter."""
    waiting = iter(lines)
    return lambda: next(waiting, "")


def test_on_a_terminal_enter_turns_the_page_and_the_end_is_kept(monkeypatch, learn):
    use_terminal(monkeypatch, typing())
    out = learn("4").out
    titles = [screen.title for screen in screens(load_shipped(4))]
    assert [title for title in titles if title in out] == titles
    assert "4  A hash table that matches softly  (done)" in learn().out
    assert "transom learn 1 goes on" in learn().err


def test_a_wrong_answer_gets_the_diagnosis_of_the_checker(monkeypatch, learn):
    use_terminal(monkeypatch, typing("3", "5.5", "q"))
    out = learn("1").out
    assert "Not quite: you said 5.5." in out
    assert "Answer: 2. 1·1 + 0·1 + 1·1 + 0·1." in out
    use_terminal(monkeypatch, typing("5", "2", "q"))
    out = learn("1").out
    assert "Right." in out
    use_terminal(monkeypatch, typing("3", "1.21", "q"))
    out = learn("encoder-block").out
    assert "Not quite: you said 1.21." in out
    assert re.search(r"Likely: .*(residual|output)", out)


def test_an_answer_that_is_no_answer_is_asked_for_again(monkeypatch, learn):
    use_terminal(monkeypatch, typing("3", "many", "2", "q"))
    out = learn("1").out
    assert "an answer must be a number, but got 'many'; type digits, like 0.25" in out
    assert "Right." in out
    use_terminal(monkeypatch, typing("5", "maybe", "q"))
    assert "an answer must be one of 0.00, 0.16, 0.33, but got 'maybe'; type it, or its number" in learn("1").out


def test_another_number_can_be_tried_and_followed_through(monkeypatch, learn):
    use_terminal(monkeypatch, typing("2", "7", "x", "q"))
    out = learn("1").out
    assert "  The 3 0 1 0" in out
    assert "  The 7 0 1 0" in out
    assert "an answer must be a number, but got 'x'; type digits, like 0.25" in out


def test_a_film_goes_token_by_token(monkeypatch, learn):
    use_terminal(monkeypatch, typing("8", "", "", "q"))
    out, err = learn("1")
    assert [out.index(line) for line in ("The   0.42", "cat   0.42", "sat   0.58")] == sorted(
        out.index(line) for line in ("The   0.42", "cat   0.42", "sat   0.58")
    )
    assert "Picture 1 of 3; Enter for the next: " in err
    use_terminal(monkeypatch, typing("8", "q"))
    assert "cat   0.42" not in learn("1").out


def test_one_can_go_back_and_elsewhere(monkeypatch, learn):
    use_terminal(monkeypatch, typing("10", "99", "b", "q"))
    out = learn("1").out
    assert out.index("To remember  (10/10)") > out.index("(1/10)")
    assert "(9/10)" not in out  # the last step ends the lesson
    use_terminal(monkeypatch, typing("4", "99", "b", "", "q"))
    out = learn("1").out
    assert "there are steps 1 to 10, but '99' came" in out
    assert out.index("(4/10)") < out.index("(3/10)")


def test_progress_is_kept_and_a_damaged_file_counts_as_none(monkeypatch, learn, tmp_path):
    use_terminal(monkeypatch, typing("3", "2", "q"))
    learn("1")
    file = tmp_path / "state" / "transom" / "lessons.json"
    assert json.loads(file.read_text()) == {"three-tokens": {"screen": 3, "screens": 10, "right": 1, "asked": 1}}
    assert "1  Three tokens, every number  (step 3 of 10, 1 of 1 answers right)" in learn().out
    assert "So far: step 3 of 10, 1 of 1 answers right." in learn("1").err
    file.write_text('{"three-tokens": {"screen": "many"}}')
    assert "(step" not in learn().out


def test_progress_that_cannot_be_kept_is_said(monkeypatch, learn, tmp_path):
    (tmp_path / "state").write_text("no folder")
    use_terminal(monkeypatch, typing("q"))
    assert "transom: your progress is not kept: " in learn("1").err


def test_a_lesson_as_json(learn):
    found = json.loads(learn("14", "--json").out)
    steps = {step["name"]: step for step in found["cases"][0]["steps"]}
    assert steps["masked"]["values"][0][1:] == [None, None, None]
    assert {claim["verdict"] for claim in found["claims"]} == {"right"}
    assert [case["name"] for case in found["cases"]] == ["", "the second layer alone", "without residuals"]
    asked = [screen["predict"] for screen in found["screens"] if screen["predict"]]
    assert asked[0]["right"] == "B"
    changes = [screen["change"] for screen in found["screens"] if screen["change"]]
    assert changes[0]["set"] == "layer.1.parameters.W_Q"


def test_heads_and_layers_are_counted_from_0(learn):
    out = learn("many-heads").out
    assert out.index("weights (head 0)") < out.index("weights (head 1)")
    out = learn("layers-together").out
    assert out.index("weights (layer 0)") < out.index("weights (layer 1)")
    assert "(layer 2)" not in out


def test_the_glossary(learn):
    out = learn("--glossary").out
    assert [re.split(r"  +", line)[0] for line in out.splitlines()] == list(GLOSSARY)
    assert json.loads(learn("--glossary", "--json").out) == GLOSSARY


QUICK = {1, 13}


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=() if number in QUICK else pytest.mark.slow)
        for number in range(1, len(shipped_paths()) + 1)
    ],
)
def test_every_lesson_is_one_page(number, tmp_path, learn):
    file = tmp_path / "lesson.html"
    out, err = learn(str(number), "--html", str(file))
    assert (out, err) == (f"{file}\n", "")
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page
    assert "<script" not in page
    assert "Content-Security-Policy" in page
    body = ElementTree.fromstring(page[page.index("<main") : page.index("</body>")])
    headings = ["".join(one.itertext()) for one in body.iter() if one.tag in ("h1", "h2")]
    assert headings == [screen.title for screen in screens(load_shipped(number))]
    drawn = [step for step in load_shipped(number).script if step.picture]
    frames = [len(load_shipped(number).steps(step.case).tokens) if step.frames else 1 for step in drawn]
    assert page.count("<svg ") == sum(frames)
    assert page.count("<summary>Answer") == sum(step.predict is not None for step in load_shipped(number).script)
    assert "✓" in page


@pytest.mark.parametrize(("kind", "first"), [("pdf", b"%PDF-"), ("png", b"\x89PNG"), ("svg", b"<svg")])
def test_a_lesson_on_paper_and_its_picture(kind, first, tmp_path, learn):
    pytest.importorskip("typst", reason="the extra `export` is not installed")
    file = tmp_path / f"lesson.{kind}"
    assert learn("13", f"--{kind}", str(file)).out == f"{file}\n"
    assert file.read_bytes().startswith(first)


def test_a_file_must_have_its_ending_and_its_lesson(tmp_path, learn):
    file = tmp_path / "lesson.txt"
    assert learn("1", "--pdf", str(file), code=2).err == (
        f"transom: --pdf writes a file that ends in .pdf, but got {file}; try lesson.pdf\n"
    )
    assert learn("--svg", "x.svg", code=2).err == (
        "transom: --svg saves a lesson, but none is named; write transom learn 1 and then it\n"
    )


def test_a_lesson_has_its_picture_where_it_belongs(learn):
    out, err = learn("cross-attention")
    assert "\nAs arrows\nThe strongest arrows of the attention\n" in out
    assert "Je    0.89 ━" in out
    assert err == "\nWith --html FILE or --pdf FILE the whole lesson is saved.\n"


def test_a_lesson_from_a_file(tmp_path, learn):
    path = tmp_path / "mine.toml"
    path.write_text(new_text("mine.toml"))
    assert learn(str(path)).out.startswith("Mine\nWhat this lesson shows, in a sentence or two.\n")


def test_a_lesson_that_does_not_exist(learn):
    assert learn("99", code=2).err == (
        f"transom: there are lessons 1 to {len(shipped_paths())}, but 99 came; transom learn lists them\n"
    )
