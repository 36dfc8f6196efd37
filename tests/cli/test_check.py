"""`transom check`: each claim with its line, the likely cause, a corrected copy, and the exit code."""

import json

import pytest

from transom.cli import main
from transom.lessons.fixing import new_text
from transom.lessons.shelf import paths

SLIP = """title = "A slip"
tokens = ["The", "cat", "sat"]
embeddings = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
[parameters]
all = "identity"
[[claim]]
of = "weights"
row = "The"
value = [0.4223, 0.1554, 0.4223]
[[claim]]
of = "sum"
row = "The"
value = [1.2669, 0.9999, 1.2669, 0.9999]
"""


@pytest.fixture
def slip(tmp_path):
    path = tmp_path / "slip.toml"
    path.write_text(SLIP)
    return path


def test_each_claim_is_told_with_its_line(slip, capsys):
    assert main(["check", str(slip)]) == 1
    assert capsys.readouterr().out == (
        f"{slip}:9: right: weights of The\n"
        f"{slip}:13: wrong: sum of The: column 1: printed 1.2669, right 0.8446\n"
        "    likely: the value of The was taken as [2 1 2 1] instead of [1 0 1 0], with weights cut to 4 decimals"
        " or the value of sat was taken as [2 2 2 2] instead of [1 1 1 1], with weights cut to 4 decimals\n"
        f"{slip}: 2 claims: 1 right, 1 wrong\n"
    )


def test_the_json_says_the_same(slip, capsys):
    assert main(["check", str(slip), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["file"], found["title"], found["right"], found["corrected"]) == (str(slip), "A slip", False, None)
    right, wrong = found["claims"]
    assert (right["verdict"], wrong["verdict"], wrong["place"]) == ("right", "wrong", "column 1")
    assert (wrong["claimed"], wrong["right"], list(wrong["causes"])) == ("1.2669", "0.8446", ["value vector"])
    assert wrong["computed"] == pytest.approx([0.84464, 0.57768, 0.84464, 0.57768], abs=1e-5)


def test_a_corrected_copy_is_written_beside(slip, capsys):
    assert main(["check", str(slip), "--fix"]) == 1
    copy = slip.with_suffix(".fixed.toml")
    assert capsys.readouterr().err == f"{copy}: the corrected copy\n"
    assert slip.read_text() == SLIP
    assert copy.read_text() == SLIP.replace("[1.2669, 0.9999, 1.2669, 0.9999]", "[0.8446, 0.5777, 0.8446, 0.5777]")
    assert main(["check", str(copy)]) == 0
    assert main(["check", str(slip), "--fix"]) == 2
    assert capsys.readouterr().err == (
        f"transom: {copy} should be the corrected copy, but it is there already; move it, or use --in-place\n"
    )


def test_the_lesson_itself_is_corrected_only_when_asked(slip):
    assert main(["check", str(slip), "--in-place"]) == 1
    assert main(["check", str(slip)]) == 0
    assert not slip.with_suffix(".fixed.toml").exists()


def test_a_bound_that_does_not_hold(slip, capsys):
    slip.write_text(SLIP[: SLIP.index("value =")] + 'measure = "largest"\nbelow = 0.4\n')
    assert main(["check", str(slip)]) == 1
    assert capsys.readouterr().out == (
        f"{slip}:10: wrong: largest of weights of The: should be below 0.4, is 0.422319\n{slip}: 1 claim: 1 wrong\n"
    )


def test_nothing_is_written_where_nothing_is_wrong(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(new_text("mine.toml"))
    assert main(["check", str(path), "--fix"]) == 0
    assert [one.name for one in tmp_path.iterdir()] == ["mine.toml"]


def test_a_lesson_to_start_from(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    assert main(["check", "--new", str(path)]) == 0
    assert capsys.readouterr() == ("", f"{path}: a lesson to start from; transom check {path} proves it\n")
    assert main(["check", str(path)]) == 0
    assert main(["check", "--new", str(path)]) == 2
    assert (
        capsys.readouterr().err
        == f"transom: {path} should be a new lesson, but it is there already; choose another name\n"
    )


def test_a_slip_on_purpose_is_no_finding_and_a_false_one_is(slip, capsys):
    slip.write_text(SLIP + 'slip = "value vector"\n')
    assert main(["check", str(slip)]) == 0
    assert f"{slip}: 2 claims: 1 right, 1 slip\n" in capsys.readouterr().out
    slip.write_text(SLIP + 'slip = "unscaled"\n')
    assert main(["check", str(slip)]) == 1
    assert "marked as the slip 'unscaled', but it is wrong for another reason" in capsys.readouterr().out


def test_many_files_and_all_that_come_along(capsys):
    assert main(["check", *map(str, paths()[:5])]) == 0
    assert capsys.readouterr().out.count(" claims: ") == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "there should be a lesson to check, but none came; name a file, or --new FILE to start one"),
        (
            ["/nowhere/x.toml"],
            "/nowhere/x.toml should be a file, but it cannot be opened: No such file or directory; check the path",
        ),
    ],
)
def test_bad_use_is_told(words, message, capsys):
    assert main(["check", *words]) == 2
    assert capsys.readouterr() == ("", f"transom: {message}\n")


def test_a_hostile_token_does_not_steer_the_terminal(tmp_path, capsys, monkeypatch):
    path = tmp_path / "odd.toml"
    path.write_text(SLIP.replace('"The"', '"\\u001b[31mThe[/]"'))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main(["check", str(path)]) == 1
    assert "\x1b[31m" not in capsys.readouterr().out
