"""Lesson files: whatever is in them, an error names the file and the line."""

import random

import pytest

from transom.lessons import check_lesson, load_lesson, parse_lesson
from transom.lessons.diagnosis import CAUSES
from transom.names import Misfit

GOOD = """title = "A lesson"
tokens = ["a", "b", "c"]
embeddings = [
  [1, 0],
  [0, 1],
  [1, 1],
]
[attention]
mask = "none"
[parameters]
W_Q = "identity"
W_K = "identity"
W_V = [[1, 2], [3, 4]]
[[case]]
name = "masked"
[case.attention]
mask = "causal"
[[claim]]
of = "weights"
row = "a"
value = [0.401, 0.198, 0.401]
"""


def complaint(text, name="mine.toml"):
    with pytest.raises(Misfit) as caught:
        check_lesson(parse_lesson(text, name))
    return str(caught.value)


def replace_once(old, new):
    assert GOOD.count(old) >= 1
    return GOOD.replace(old, new, 1)


def test_a_good_lesson_reads():
    lesson = parse_lesson(GOOD, "mine.toml")
    assert (lesson.name, lesson.title, lesson.picture, list(lesson.cases)) == (
        "mine",
        "A lesson",
        "steps",
        ["", "masked"],
    )
    assert lesson.steps("masked")["weights"].values[0].tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(Misfit) as caught:
        lesson.steps("maskd")
    assert str(caught.value) == "mine has no case 'maskd'; did you mean 'masked'?"


BAD = {
    "unknown key": (
        replace_once('mask = "none"', 'msak = "none"'),
        "mine.toml, line 9: there is no setting 'msak' here; did you mean 'mask'?",
    ),
    "unknown section": (
        replace_once("[attention]", "[atention]"),
        "mine.toml, line 8: there is no setting 'atention' here; did you mean 'attention'?",
    ),
    "unknown key of a case": (
        replace_once('name = "masked"', 'name = "masked"\nsay = "x"'),
        "mine.toml, line 16: there is no setting 'say' here; did you mean 'says'?",
    ),
    "unknown key of a claim": (
        replace_once('of = "weights"', 'off = "weights"'),
        "mine.toml, line 19: there is no setting 'off' here; did you mean 'of'?",
    ),
    "no title": (
        replace_once('title = "A lesson"\n', ""),
        'mine.toml, line 1: title must be given, but it is not; write title = "…"',
    ),
    "no tokens": (
        replace_once('tokens = ["a", "b", "c"]\n', ""),
        'mine.toml, line 1: tokens must be given, but they are not; write tokens = ["The", "cat"]',
    ),
    "no embeddings": (
        replace_once("embeddings = [\n  [1, 0],\n  [0, 1],\n  [1, 1],\n]\n", ""),
        "mine.toml, line 1: embeddings must be given, but they are not; give a row of numbers for each token",
    ),
    "wrong rows": (
        replace_once("  [1, 1],\n", ""),
        "mine.toml, line 3: embeddings must have 3 rows, but it has 2; it is 2 × 2",
    ),
    "ragged": (
        replace_once("[0, 1],", "[0, 1, 2],"),
        "mine.toml, line 3: embeddings has 2 numbers in row 1, but 3 in row 2",
    ),
    "wrong shape of a parameter": (
        replace_once("[[1, 2], [3, 4]]", "[[1, 2]]"),
        "mine.toml, line 13: W_V must have 2 rows, but it has 1; it is 1 × 2; transposed it would fit",
    ),
    "a parameter that is not there": (
        replace_once('W_K = "identity"\n', ""),
        'mine.toml, line 10: W_K must be given, but it is not; write W_K = "identity", or rows of numbers',
    ),
    "unknown matrix": (
        replace_once('W_K = "identity"', 'W_K = "identitty"'),
        "mine.toml, line 12: W_K has no matrix 'identitty'; did you mean 'identity'? or give rows of numbers,"
        ' "identity", { random = 1 } or { csv = "file.csv" }',
    ),
    "unknown mask": (
        replace_once('mask = "none"', 'mask = "casual"'),
        "mine.toml, line 9: mask must be one of none, causal, but got 'casual'; did you mean 'causal'?",
    ),
    "mask of other numbers": (
        replace_once('mask = "none"', "mask = [[1, 0, 0], [1, 2, 0], [1, 1, 1]]"),
        "mine.toml, line 9: mask must be 1 where a row may look and 0 elsewhere, but got"
        " [[1, 0, 0], [1, 2, 0], [1, 1, 1]]",
    ),
    "mask of another size": (
        replace_once('mask = "none"', "mask = [[1, 0]]"),
        "mine.toml, line 9: mask must have 3 rows, but it has 1; it is 1 × 2",
    ),
    "mask of a case": (
        replace_once('mask = "causal"', "mask = 1"),
        'mine.toml, line 17: mask must be a matrix, but got 1; give rows of numbers, "identity", { random = 1 } or'
        ' { csv = "file.csv" }',
    ),
    "NaN": (
        replace_once("[1, 0],", "[nan, 0],"),
        "mine.toml, line 3: embeddings must hold finite numbers up to 1e+12, but row 1 holds NaN",
    ),
    "infinity": (
        replace_once("[1, 0],", "[-inf, 0],"),
        "mine.toml, line 3: embeddings must hold finite numbers up to 1e+12, but row 1 holds -Infinity",
    ),
    "huge": (
        replace_once("[1, 0],", "[1e400, 0],"),
        "mine.toml, line 3: embeddings must hold finite numbers up to 1e+12, but row 1 holds 1E+400",
    ),
    "huger": (
        replace_once("[1, 0],", "[1e999999999, 0],"),
        "mine.toml, line 3: embeddings must hold finite numbers up to 1e+12, but row 1 holds 1E+999999999",
    ),
    "true is no number": (
        replace_once("[1, 0],", "[true, 0],"),
        "mine.toml, line 3: embeddings must hold finite numbers up to 1e+12, but row 1 holds True",
    ),
    "claim of nothing": (
        replace_once('of = "weights"', 'of = "wieghts"'),
        "mine.toml, line 18: there is no step 'wieghts'; did you mean 'weights'?",
    ),
    "claim of a row that is not there": (
        replace_once('row = "a"', 'row = "d"'),
        "mine.toml, line 18: weights has no row 'd'; there are a, b, c",
    ),
    "claim of a head that is not there": (
        replace_once('row = "a"', 'row = "a"\nhead = 2'),
        "mine.toml, line 18: there are heads 0, but head 2 was asked for; count from 0",
    ),
    "claim of a head below the first": (
        replace_once('row = "a"', 'row = "a"\nhead = -1'),
        "mine.toml, line 21: head must be a whole number from 0 to 63, but got -1",
    ),
    "claim of a layer that is not there": (
        replace_once('row = "a"', 'row = "a"\nlayer = 3'),
        "mine.toml, line 18: there are layers 0, but layer 3 was asked for; count from 0",
    ),
    "claim of a row by a number that is not there": (
        replace_once('row = "a"', "row = 5"),
        "mine.toml, line 18: weights has 3 rows, so 5 is none of them; count from 1",
    ),
    "claim of a wrong size": (
        replace_once("[0.401, 0.198, 0.401]", "[0.401, 0.198]"),
        "mine.toml, line 21: value must be 3 numbers, but it is 2 numbers; claim all of it, or a part",
    ),
    "claim of a scalar": (
        replace_once("[0.401, 0.198, 0.401]", "0.4"),
        "mine.toml, line 21: value must be 3 numbers, but it is one number; claim all of it, or a part",
    ),
    "ragged claim": (
        replace_once("[0.401, 0.198, 0.401]", "[0.401, [0.198], 0.401]"),
        "mine.toml, line 21: value must be a number, a row or a matrix, but its rows are not of one length;"
        " make them equal",
    ),
    "NaN claimed": (
        replace_once("[0.401, 0.198, 0.401]", "[nan, 0.198, 0.401]"),
        "mine.toml, line 21: value must hold finite numbers up to 1e+12 with 15 decimals, but got NaN",
    ),
    "nothing claimed": (
        replace_once("value = [0.401, 0.198, 0.401]\n", ""),
        "mine.toml, line 18: a claim has value, or above, or below, but none of them came; give one",
    ),
    "two things claimed": (
        replace_once("value =", "above = 1\nvalue ="),
        "mine.toml, line 18: a claim has value, or above, or below, but value and above came; give one",
    ),
    "a case that is not there": (
        replace_once('of = "weights"', 'of = "weights"\ncase = "maskd"'),
        "mine.toml, line 20: case must be one of masked, but got 'maskd'; did you mean 'masked'?",
    ),
    "unknown measure": (
        replace_once('row = "a"', 'measure = "entrpy"'),
        "mine.toml, line 20: measure must be one of value, total, entropy, length, largest, smallest, rank, cosine,"
        " distance, difference, but got 'entrpy'; did you mean 'entropy'?",
    ),
    "a measure between nothing": (
        replace_once('row = "a"', 'row = "a"\nmeasure = "cosine"'),
        "mine.toml, line 18: cosine is between two rows or two cases; give other (a row), or against (a case)",
    ),
    "two cases of a name": (
        replace_once("[[claim]]", '[[case]]\nname = "masked"\n[[claim]]'),
        "mine.toml, line 19: there is a case 'masked' already; choose another name",
    ),
    "unknown picture": (
        replace_once('title = "A lesson"', 'title = "A lesson"\npicture = "step"'),
        "mine.toml, line 2: picture must be one of steps, sequence, arrows, matrix, heads, rows, context, histogram,"
        " entropy, curves, vectors, fold, architecture, but got 'step'; did you mean 'steps'?",
    ),
    "unknown slip": (
        replace_once('row = "a"', 'row = "a"\nslip = "unscald"'),
        f"mine.toml, line 21: slip must be one of {', '.join(CAUSES)}, but got 'unscald'; did you mean 'unscaled'?",
    ),
    "heads that do not divide": (
        replace_once('mask = "none"', "heads = 3"),
        "mine.toml, line 9: d_model=2 does not divide into heads=3; give d_head",
    ),
    "too many heads": (
        replace_once('mask = "none"', "heads = 1000"),
        "mine.toml, line 9: heads must be a whole number from 1 to 64, but got 1000",
    ),
    "a residual of another width": (
        replace_once("[[1, 2], [3, 4]]", "[[1, 2, 3], [3, 4, 5]]\n[block]\nresidual = true"),
        "mine.toml, line 15: a residual adds vectors of one width, but 2 come in and 3 come out; give W_O",
    ),
    "half a feed-forward": (
        replace_once("[[1, 2], [3, 4]]", '[[1, 2], [3, 4]]\nW_1 = "identity"'),
        "mine.toml, line 14: a feed-forward has W_1 and W_2; give both or none",
    ),
    "a text for a table": (
        replace_once('[attention]\nmask = "none"\n', "attention = 3\n"),
        "mine.toml, line 8: attention must be a table, but got 3; write [attention]",
    ),
    "a table for a list": (
        replace_once("[[claim]]", "[claim]"),
        "mine.toml, line 18: claim must be a list of tables, but got"
        " {'of': 'weights', 'row': 'a', 'value': […; write [[claim]]",
    ),
    "an unknown experiment": (
        replace_once('title = "A lesson"', 'title = "A lesson"\nexperiment = { name = "retreival" }'),
        "mine.toml, line 2: name must be one of score_gradient, random_keys, retrieval, parameter_counts,"
        " what_is_learned, tied_projections, look_ahead, but got 'retreival'; did you mean 'retrieval'?",
    ),
    "both values": (
        replace_once("[[1, 2], [3, 4]]", "[[1, 2], [3, 4]]\nV_down = [[1], [1]]"),
        "mine.toml, line 14: values are made by W_V, or by V_down and V_up, but both came; leave one out",
    ),
    "given and more": (
        replace_once("[attention]", "[given]\nQ = [[1], [1], [1]]\nK = [[1], [1], [1]]\n[attention]"),
        "mine.toml, line 8: what is given is for one head without parameters; leave heads and parameters out",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_lesson_is_an_error_with_its_line(name):
    text, message = BAD[name]
    assert complaint(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "mine.toml should be TOML, but Invalid value (at end of document); mend that place"),
        ("title = 'a'\ntitle = 'b'", "mine.toml should be TOML, but Cannot overwrite a value (at end of document)"),
        (
            "a = " + "[" * 100_000,
            "mine.toml should be TOML, but it nests more than 64 deep; mend that place",
        ),
        ("x = 0." + "1" * 51, "mine.toml should be TOML, but a number has 51 digits; 50 are enough"),
        ("a." * 20_000 + "b = 1", "mine.toml should be TOML, but a key in it has more than 16 parts; mend that place"),
    ],
    ids=["broken", "twice", "deep", "digits", "dots"],
)
def test_text_that_is_not_toml_is_an_error(text, message):
    assert complaint(text).startswith(message)


def test_a_million_tokens_are_too_many(tmp_path):
    path = tmp_path / "long.toml"
    path.write_text('title = "x"\ntokens = [' + '"a",' * 10**6 + "]\n")
    with pytest.raises(Misfit) as caught:
        load_lesson(path)
    assert str(caught.value) == (
        f"{path} may have at most 1048576 bytes, but it has more; a lesson is to be read: split it"
    )
    path.write_text('title = "x"\ntokens = [' + '"a",' * 10**5 + "]\n")
    with pytest.raises(Misfit) as caught:
        load_lesson(path)
    assert str(caught.value) == (
        f"{path}, line 2: tokens may have 256 tokens of 200 characters, but 100000 came; take fewer, shorter ones"
    )


def test_bytes_that_are_no_text_are_an_error_with_their_line(tmp_path):
    path = tmp_path / "odd.toml"
    path.write_bytes(b'title = "x"\n\xff\n')
    with pytest.raises(Misfit) as caught:
        load_lesson(path)
    assert str(caught.value) == (f"{path}, line 2: text must be UTF-8, but byte 0xff is not; save the file as UTF-8")


def test_windows_line_ends_are_lines(tmp_path):
    path = tmp_path / "dos.toml"
    path.write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert load_lesson(path).title == "A lesson"


def with_csv(tmp_path, content, name="numbers.csv"):
    (tmp_path / "numbers.csv").write_text(content)
    path = tmp_path / "mine.toml"
    path.write_text(replace_once("[[1, 2], [3, 4]]", f'{{ csv = "{name}" }}'))
    return path


def test_a_matrix_may_be_csv_beside_the_lesson(tmp_path):
    lesson = load_lesson(with_csv(tmp_path, "1, 2\n\n3,4\n"))
    assert lesson.steps()["V"].values.tolist() == [[1.0, 2.0], [3.0, 4.0], [4.0, 6.0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2\n3,x\n", "numbers.csv, line 2: a cell must be a finite number up to 1e+12, but it is 'x'"),
        ("1,2\n3,nan\n", "numbers.csv, line 2: a cell must be a finite number up to 1e+12, but it is 'nan'"),
        ("1,2\n3\n", "numbers.csv, line 2: a row must have 2 numbers, but this has 1"),
        ("", "numbers.csv should hold a matrix, but it is empty; write numbers with commas between"),
    ],
)
def test_bad_csv_is_an_error_with_its_line(tmp_path, content, message):
    with pytest.raises(Misfit) as caught:
        load_lesson(with_csv(tmp_path, content))
    assert str(caught.value) == f"{tmp_path}/{message}"


@pytest.mark.parametrize("name", ["../numbers.csv", "/etc/passwd", "a/../../x.csv", ".", "link.csv"])
def test_a_path_may_not_leave_the_folder_of_the_lesson(tmp_path, name):
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "link.csv").symlink_to(tmp_path / "elsewhere.csv")
    path = with_csv(folder, "1,2\n3,4\n", name)
    with pytest.raises(Misfit) as caught:
        load_lesson(path)
    assert str(caught.value) == (
        f"{path}, line 13: csv must stay in the folder of the lesson, but {name!r} leaves it; copy it there"
    )


def test_random_numbers_come_from_their_seed():
    text = replace_once("[[1, 2], [3, 4]]", "{ random = 7, spread = 0.5 }")
    first, second = (parse_lesson(text, "mine.toml").steps()["V"].values for _ in range(2))
    other = parse_lesson(text.replace("random = 7", "random = 8"), "mine.toml").steps()["V"].values
    assert (first == second).all()
    assert (first != other).all()


def test_a_token_of_any_text_is_just_a_token():
    text = replace_once('"a"', '"<script>\\u001b[31m]]\\"# = ["').replace('row = "a"', "row = 1")
    assert parse_lesson(text, "mine.toml").steps().tokens[0] == '<script>\x1b[31m]]"# = ['


def test_numbers_that_grow_too_large_are_an_error():
    layers = "[[layer]]\n" * 9
    text = replace_once("[1, 0],", "[1e12, 1e12],").replace(
        "[[case]]", f"W_O = [[1e12, 1e12], [1e12, 1e12]]\n{layers}[[case]]"
    )
    text = text.replace('row = "a"', 'row = "a"\nlayer = 9').replace("[[1, 2], [3, 4]]", "[[1e12, 0], [0, 1e12]]")
    assert complaint(text).endswith("is too large to be computed; take smaller numbers")
    assert complaint(text).startswith("mine.toml, line ")


def test_a_matrix_that_is_too_large_is_an_error_before_it_is_built():
    text = replace_once('mask = "none"', "heads = 64\nd_head = 1024").replace(
        'W_Q = "identity"', "W_Q = { random = 1 }"
    )
    text = text.replace("tokens =", "d_model = 1024\ntokens =")
    text = text.replace("embeddings = [\n  [1, 0],\n  [0, 1],\n  [1, 1],\n]", "embeddings = { random = 1 }")
    assert complaint(text) == (
        "mine.toml, line 9: W_Q may have 4194304 numbers, but 1024 × 65536 are more; take a smaller one"
    )


def test_a_damaged_lesson_is_read_or_raises_misfit_and_nothing_else():
    """Pieces cut out, doubled or inserted raise no other error than Misfit."""
    rng = random.Random(7)
    pieces = ['"', "'", '"""', "[", "]", "{", "}", "=", "#", "\n", "nan", "1e9", "[[", "true", '""""', "\\"]
    errors = 0
    for _ in range(150):
        start, length = rng.randrange(len(GOOD)), rng.choice([1, 2, 5, 20])
        middle = rng.choice(["", GOOD[start : start + length] * 2, rng.choice(pieces)])
        try:
            check_lesson(parse_lesson(GOOD[:start] + middle + GOOD[start + length :], "mine.toml"))
        except Misfit:
            errors += 1
    assert 50 < errors < 150
