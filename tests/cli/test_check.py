"""`transom check`: each claim with its line, the likely cause, a corrected copy, and the exit code."""

import json

import pytest

from transom.cli import main
from transom.lessons.lesson_file import new_text, shipped_paths

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


def test_each_claim_is_printed_with_its_line(slip, capsys):
    assert main(["check", str(slip)]) == 1
    assert capsys.readouterr().out == (
        f"{slip}:9: right: weights of The\n"
        f"{slip}:13: wrong: sum of The: 4 of 4 entries, printed → right\n"
        "                  1                 2                 3                 4\n"
        "    1.2669 → 0.8446   0.9999 → 0.5777   1.2669 → 0.8446   0.9999 → 0.5777\n"
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
        f"transom: {copy} should be the corrected copy, but it exists already; move it, or use --in-place\n"
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
    assert [file.name for file in tmp_path.iterdir()] == ["mine.toml"]


def test_a_lesson_to_start_from(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    assert main(["check", "--new", str(path)]) == 0
    assert capsys.readouterr() == ("", f"{path}: a lesson to start from; transom check {path} checks it\n")
    assert main(["check", str(path)]) == 0
    assert main(["check", "--new", str(path)]) == 2
    assert (
        capsys.readouterr().err
        == f"transom: {path} should be a new lesson, but it exists already; choose another name\n"
    )


def test_a_slip_on_purpose_is_no_finding_and_a_false_one_is(slip, capsys):
    slip.write_text(SLIP + 'slip = "value vector"\n')
    assert main(["check", str(slip)]) == 0
    assert f"{slip}: 2 claims: 1 right, 1 slip\n" in capsys.readouterr().out
    slip.write_text(SLIP + 'slip = "unscaled"\n')
    assert main(["check", str(slip)]) == 1
    assert "marked as the slip 'unscaled', but it is wrong for another reason" in capsys.readouterr().out


def test_many_files(capsys):
    assert main(["check", *map(str, shipped_paths()[:5])]) == 0
    assert capsys.readouterr().out.count(" claims: ") == 5


def test_a_malformed_file_hides_no_other(slip, tmp_path, capsys):
    broken, fine = tmp_path / "broken.toml", tmp_path / "fine.toml"
    broken.write_text("title = ")
    fine.write_text(new_text("fine.toml"))
    missing = tmp_path / "missing.toml"
    files = [str(file) for file in (broken, slip, missing, tmp_path, fine)]
    assert main(["check", *files]) == 2
    out, err = capsys.readouterr()
    assert f"{slip}: 2 claims: 1 right, 1 wrong\n" in out
    assert f"{fine}: 3 claims: 3 right\n" in out
    assert err == (
        f"transom: {broken} should be TOML, but Invalid value (at end of document); mend that place\n"
        f"transom: {missing} should be a file, but it cannot be opened: No such file or directory; check the path\n"
        f"transom: {tmp_path} should be a regular file, but it is a folder; name the file\n"
    )
    assert main(["check", *files, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert [report["file"] for report in found] == files
    assert [(report["title"], report["right"], len(report["claims"])) for report in found] == [
        (None, False, 0),
        ("A slip", False, 2),
        (None, False, 0),
        (None, False, 0),
        ("Fine", True, 3),
    ]
    assert found[0]["error"] == f"{broken} should be TOML, but Invalid value (at end of document); mend that place"
    assert [report["error"] for report in found if report["title"]] == [None, None]
    assert main(["check", str(slip), str(fine)]) == 1


MALFORMED = (
    SLIP
    + """[[case]]
name = "ragged"
embeddings = [[1, 0, 1, 0], [0, 1], [1, 1, 1, 1]]
[[case]]
name = "from a file"
embeddings = { csv = "numbers.csv" }
[[claim]]
of = "wieghts"
value = 1
[[claim]]
of = "weights"
row = "cat"
value = [0.2, 0.4]
[[claim]]
of = "weights"
[[claim]]
of = "weights"
case = "ragged"
row = "cat"
value = [0.2, 0.4, 0.4]
[[claim]]
of = "weights"
row = "sat"
value = [0.2119, 0.2119, 0.5761]
"""
)


def test_a_malformed_claim_or_case_hides_no_other(slip, capsys):
    slip.write_text(MALFORMED)
    (slip.parent / "numbers.csv").write_text("1,0,1,0\n0,x,0,1\n")
    assert main(["check", str(slip)]) == 2
    out = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("    ")]
    assert out == [
        f"{slip}:9: right: weights of The",
        f"{slip}:13: wrong: sum of The: 4 of 4 entries, printed → right",
        f"{slip}:16: malformed: embeddings has 4 numbers in row 1, but 2 in row 2",
        f"{slip}:17: malformed: {slip.parent}/numbers.csv, line 2: a cell must be a finite number up to 1e+12, but it"
        " is 'x'",
        f"{slip}:20: malformed: there is no step 'wieghts'; did you mean 'weights'?",
        f"{slip}:26: malformed: value must be 3 numbers, but it is 2 numbers; claim all of it, or a part",
        f"{slip}:27: malformed: a claim has value, or above, or below, but none of them came; give one",
        f"{slip}:31: malformed: case must be one that can be computed, but 'ragged' is malformed; mend it",
        f"{slip}:37: right: weights of sat",
        f"{slip}: 7 claims: 2 right, 1 wrong, 4 malformed; 2 malformed cases",
    ]
    assert main(["check", str(slip), "--json"]) == 2
    (found,) = json.loads(capsys.readouterr().out)
    assert [claim["verdict"] for claim in found["claims"]] == ["right", "wrong", *["malformed"] * 4, "right"]
    assert len({frozenset(claim) for claim in found["claims"]}) == 1
    assert found["claims"][2]["complaint"] == "there is no step 'wieghts'; did you mean 'weights'?"
    assert found["claims"][2]["where"] == f"{slip}, line 20"
    assert found["malformed_cases"][0] == {
        "where": f"{slip}, line 16",
        "complaint": "embeddings has 4 numbers in row 1, but 2 in row 2",
    }


@pytest.mark.parametrize("option", ["--fix", "--in-place"])
def test_a_file_with_malformed_parts_is_never_corrected(slip, option, capsys):
    slip.write_text(MALFORMED)
    before = sorted(slip.parent.iterdir())
    assert main(["check", str(slip), option]) == 2
    assert sorted(slip.parent.iterdir()) == before
    assert slip.read_text() == MALFORMED
    assert capsys.readouterr().err == (
        f"transom: {slip} should be corrected, but parts of it are malformed; correct those first\n"
    )


def test_a_corrected_copy_that_is_in_the_way_hides_no_other(slip, tmp_path, capsys):
    other = tmp_path / "other.toml"
    other.write_text(SLIP)
    slip.with_suffix(".fixed.toml").write_text("mine")
    assert main(["check", str(slip), str(other), "--fix"]) == 2
    assert slip.with_suffix(".fixed.toml").read_text() == "mine"
    assert other.with_suffix(".fixed.toml").exists()
    assert capsys.readouterr().out.count("2 claims: 1 right, 1 wrong") == 2


def test_wrong_entries_are_counted_and_shown_as_a_matrix(tmp_path, capsys):
    path = tmp_path / "many.toml"
    path.write_text(
        SLIP[: SLIP.index("[[claim]]")]
        + '[[claim]]\nof = "embedding"\nvalue = [\n  [1, 0, 1, 0],\n  [2, 2, 2, 2],\n  [3, 3, 9, 3],\n]\n'
    )
    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().out == (
        f"{path}:8: wrong: embedding: 8 of 12 entries, printed → right\n"
        "              1       2       3       4\n"
        "    cat   2 → 0   2 → 1   2 → 0   2 → 1\n"
        "    sat   3 → 1   3 → 1   9 → 1   3 → 1\n"
        f"{path}: 1 claim: 1 wrong\n"
    )
    assert main(["check", str(path), "--json"]) == 1
    (claim,) = json.loads(capsys.readouterr().out)[0]["claims"]
    assert (claim["entries"], len(claim["wrong"])) == (12, 8)
    assert claim["wrong"][6] == {"place": "row sat, column 3", "claimed": "9", "right": "1"}


SCORES = """title = "Scores"
tokens = ["q"]
at = ["x", "y"]
[given]
scores = [[112, 56]]
[attention]
scale = true
d_head = 64
[[claim]]
of = "scaled"
value = [[14, 8]]
"""


def test_a_lesson_with_an_unused_setting_is_not_corrected(tmp_path, capsys):
    path = tmp_path / "scores.toml"
    path.write_text(SCORES)
    assert main(["check", str(path), "--fix"]) == 1
    assert path.with_suffix(".fixed.toml").read_text() == SCORES.replace("[[14, 8]]", "[[14, 7]]")
    for ignored in ("scale = true\n", "d_head = 64\n"):
        other = tmp_path / "other.toml"
        other.write_text(SCORES.replace(ignored, ""))
        capsys.readouterr()
        assert main(["check", str(other), "--fix"]) == 2
        assert not other.with_suffix(".fixed.toml").exists()
        out, err = capsys.readouterr()
        assert out.startswith(f"{other}:7: malformed: ")
        assert out.endswith(f"{other}: 1 claim: 1 malformed; 1 malformed setting\n") or "1 wrong" in out
        assert err.endswith(
            f"transom: {other} should be corrected, but parts of it are malformed; correct those first\n"
        )


def test_an_assumption_is_reported(tmp_path, capsys):
    path = tmp_path / "scores.toml"
    path.write_text(SCORES.replace("[attention]\nscale = true\nd_head = 64\n", "").replace("scaled", "scores"))
    note = (
        "scale is not set, so the given scores go into the softmax as they are; write scale = false if they should, or"
        " scale = true and d_head if they should be divided by √d_head"
    )
    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().err == f"{path}: {note}\n"
    assert main(["check", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["notes"] == [note]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "there should be a lesson to check, but there is none; name a file, or start one with --new"),
        (
            ["/nowhere/x.toml"],
            "/nowhere/x.toml should be a file, but it cannot be opened: No such file or directory; check the path",
        ),
    ],
)
def test_bad_use_is_an_error(args, message, capsys):
    assert main(["check", *args]) == 2
    assert capsys.readouterr() == ("", f"transom: {message}\n")


def test_a_hostile_token_does_not_control_the_terminal(tmp_path, capsys, monkeypatch):
    path = tmp_path / "odd.toml"
    path.write_text(SLIP.replace('"The"', '"\\u001b[31mThe[/]"'))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main(["check", str(path)]) == 1
    assert "\x1b[31m" not in capsys.readouterr().out


def test_a_malformed_lesson_hides_no_case_of_its_own(slip, capsys):
    slip.write_text(
        SLIP.replace("[0, 1, 0, 1]", "[0, 1]", 1).replace('title = "A slip"', "titel = 3")
        + """[[case]]
name = "whole"
embeddings = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
[[claim]]
of = "weights"
case = "whole"
row = "The"
value = [0.4223, 0.1554, 0.4223]
"""
    )
    assert main(["check", str(slip)]) == 2
    assert capsys.readouterr().out == (
        f"{slip}:1: malformed: there is no setting 'titel' here; did you mean 'title'?\n"
        f'{slip}:1: malformed: title must be given, but it is not; write title = "…"\n'
        f"{slip}:3: malformed: embeddings has 4 numbers in row 1, but 2 in row 2\n"
        f"{slip}:6: malformed: the lesson itself must be one that can be computed, but it is malformed; mend it\n"
        f"{slip}:10: malformed: the lesson itself must be one that can be computed, but it is malformed; mend it\n"
        f"{slip}:21: right: weights of The\n"
        f"{slip}: 3 claims: 1 right, 2 malformed; 3 malformed settings\n"
    )


def test_a_claim_that_is_no_toml_hides_no_other(slip, capsys):
    slip.write_text(
        SLIP + '[[claim]]\nof = "weights\nvalue = 1\n[[claim]]\nof = "scores"\nrow = "cat"\nvalue = [0, 2, 2]\n'
    )
    assert main(["check", str(slip)]) == 2
    out, complaint = capsys.readouterr().out, "Illegal character '\\n' (at line 15, column 14)"
    assert f"{slip}:14: malformed: this should be TOML, but {complaint}; mend that place\n" in out
    assert f"{slip}:20: right: scores of cat\n" in out
    assert out.endswith(f"{slip}: 4 claims: 2 right, 1 wrong, 1 malformed\n")


def test_the_first_wrong_step_is_named_and_later_ones_follow_from_it(tmp_path, capsys):
    path = tmp_path / "chain.toml"
    path.write_text(
        SLIP[: SLIP.index("[[claim]]")]
        + """[[claim]]
of = "scores"
row = "The"
value = [2, 1, 2]
[[claim]]
of = "weights"
row = "The"
value = [0.3837, 0.2327, 0.3837]
[[claim]]
of = "context"
row = "The"
value = [0.7673, 0.6163, 0.7673, 0.6163]
"""
    )
    assert main(["check", str(path)]) == 1
    out = capsys.readouterr().out
    follows = "    likely: it follows from scores of The in line 9, which is wrong; by that figure this is right\n"
    assert out.count(follows) == 2
    assert out.endswith(f"{path}: 3 claims: 3 wrong (2 of them by an earlier one)\n")


def test_many_wrong_entries_are_shown_in_blocks_of_columns(tmp_path, capsys):
    path = tmp_path / "wide.toml"
    wide = ", ".join(["1"] * 30)
    path.write_text(
        f'title = "x"\ntokens = ["a"]\nembeddings = [[{wide}]]\n[parameters]\nall = "identity"\n'
        f'[[claim]]\nof = "embedding"\nvalue = [[{wide.replace("1", "2")}]]\n'
    )
    assert main(["check", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path}:8: wrong: embedding: 30 of 30 entries, printed → right"
    assert sum(line.count("2 → 1") for line in lines) == 30
    assert max(len(line) for line in lines[1:-2]) <= 100


def test_a_step_to_show_that_does_not_exist_is_an_error(slip, capsys):
    slip.write_text('show = ["wieghts"]\n' + SLIP + '[[case]]\nname = "other"\nshow = ["context", "masked"]\n')
    assert main(["check", str(slip)]) == 2
    out = capsys.readouterr().out
    assert f"{slip}:1: malformed: show names 'wieghts', which is no step here; did you mean 'weights'?\n" in out
    assert f"{slip}:17: malformed: show names 'masked', which is no step here; did you mean 'masked" not in out
    assert f"{slip}:17: malformed: show names 'masked', which is no step here; " in out
    assert out.endswith(f"{slip}: 2 claims: 1 right, 1 wrong; 1 malformed setting; 1 malformed case\n")
