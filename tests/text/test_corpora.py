"""Corpora: what each format gives, what it leaves out, and every error with its line."""

import json

import pytest
from text.outside_files import raises_misfit, require_data, write_file, write_gzip

from transom.text import (
    FORMATS,
    Labelled,
    Limits,
    Line,
    Pair,
    read_csv,
    read_document,
    read_jsonl,
    read_labelled,
    read_lines,
    read_parallel,
    read_tsv,
)

pytestmark = pytest.mark.usefixtures("own_errors")


def read_twice(path, **settings):
    return read_parallel(path, path, **settings)


def pairs_tsv(path, **settings):
    return read_tsv(path, [2, 0], Pair, **settings)


def pairs_csv(path, **settings):
    return read_csv(path, [2, 0], Pair, **settings)


def pairs_jsonl(path, **settings):
    return read_jsonl(path, ["en", "fr"], Pair, **settings)


# Each format: how to read it from one path, a file, and the examples in it.
CASES = {
    "lines": (read_lines, "Hi.\n \nGo «😀»!\n", [Line("Hi."), Line("Go «😀»!")]),
    "document": (read_document, "Hi.\r\n\nGo «😀»!\n", [Line("Hi.\r\n\nGo «😀»!\n")]),
    "labelled": (read_labelled, "1 Hi you.\n\n__no\tGo !\n", [Labelled("Hi you.", "1"), Labelled("Go !", "__no")]),
    "tsv": (pairs_tsv, 'Va\tx\tGo\n\nOui "\t\tYes\n', [Pair("Go", "Va"), Pair("Yes", 'Oui "')]),
    "csv": (
        pairs_csv,
        'Va,x,Go\r\n\n"Oui, ""\noui""",,Yes\n',
        [Pair("Go", "Va"), Pair("Yes", 'Oui, "\noui"')],
    ),
    "jsonl": (
        pairs_jsonl,
        '{"en": "Go", "fr": "Va\\t!"}\n\n{"fr": "Déjà", "more": [{}], "en": "7"}\n',
        [Pair("Go", "Va\t!"), Pair("7", "Déjà")],
    ),
    "parallel": (read_twice, "Hi.\n \n Go\n", [Pair("Hi.", "Hi."), Pair(" Go", " Go")]),
}


def test_every_format_has_a_case():
    assert list(CASES) == [name for name in FORMATS if name != "parquet"]  # see test_table_files.py


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("make", [write_file, write_gzip])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_each_format_gives_its_examples(tmp_path, name, make, mark):
    read, content, expected = CASES[name]
    assert list(read(make(tmp_path, mark + content))) == expected


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("content", ["", "\n", " \n\n"])
def test_nothing_in_a_file_is_an_error(tmp_path, name, content):
    path = write_file(tmp_path, content)
    where = f"{path} and {path}" if name == "parallel" else path
    tables = {"tsv": lambda path: read_tsv(path, [0], Line), "csv": lambda path: read_csv(path, [0], Line)}
    read = tables.get(name, CASES[name][0])
    raises_misfit(f"{where} should hold text, but there is none; check that it is the right file", read, path)


@pytest.mark.parametrize("name", CASES)
def test_bad_utf_8_is_an_error_with_its_line(tmp_path, name):
    read, content, _ = CASES[name]
    path = write_file(tmp_path, content.encode() + b"\xff\xfe")
    line = content.count("\n") + 1
    raises_misfit(f"{path}, line {line}: text must be UTF-8, but byte 0xff is not; save the file as UTF-8", read, path)


@pytest.mark.parametrize("name", CASES)
def test_a_missing_file_is_an_error_before_anything_is_read(tmp_path, name):
    path = tmp_path / "nowhere"
    message = f"{path} should be a file, but it cannot be opened: No such file or directory; check the path"
    raises_misfit(message, lambda: CASES[name][0](path) and None)


@pytest.mark.parametrize("name", [name for name in CASES if name != "document"])
def test_files_are_streamed(tmp_path, name):
    """The first example is read although the end of the file is broken."""
    read, content, expected = CASES[name]
    assert next(read(write_file(tmp_path, content.encode() + b"\n" * 70_001 + b"\xff"))) == expected[0]


def test_limits_may_be_set(tmp_path):
    path = write_file(tmp_path, "a long line\n")
    raises_misfit(
        f"{path}, line 1: a line may have 5 bytes, but this one has more; break it up, or check that the file is text",
        read_lines,
        path,
        Limits(line=5),
    )


BLANK = {
    "labelled": ("1 Hi\n2 \n", "text"),
    "tsv": ("a\tb\tc\nd\te\t \n", "source"),
    "jsonl": ('{"en": "Go", "fr": "Va"}\n{"en": "Go", "fr": " \\n"}\n', "target"),
}


@pytest.mark.parametrize("name", BLANK)
def test_a_blank_part_is_an_error_unless_it_is_skipped(tmp_path, name):
    content, part = BLANK[name]
    read, path = CASES[name][0], write_file(tmp_path, content)
    kind = "Labelled" if name == "labelled" else "Pair"
    raises_misfit(
        f"{path}, line 2: every {kind} needs its {part}, but it is blank;"
        " correct the line, or leave such lines out with skip_blank=True",
        read,
        path,
    )
    assert len(list(read(path, skip_blank=True))) == 1


def test_a_blank_side_of_parallel_files(tmp_path):
    source, target = write_file(tmp_path, "a\n\nc\nd\n", "en"), write_file(tmp_path, "A\n\nC\n\n", "fr")
    raises_misfit(
        f"{source} and {target}, line 4: every Pair needs its target, but it is blank;"
        " correct the line, or leave such lines out with skip_blank=True",
        read_parallel,
        source,
        target,
    )
    assert list(read_parallel(source, target, skip_blank=True)) == [Pair("a", "A"), Pair("c", "C")]


@pytest.mark.parametrize("longer", ["en", "fr"])
def test_parallel_files_end_together(tmp_path, longer):
    paths = {name: write_file(tmp_path, "x\n" * (7 if name == longer else 5), name) for name in ("en", "fr")}
    shorter = paths["fr" if longer == "en" else "en"]
    raises_misfit(
        f"{paths[longer]}, line 6: expected the same number of lines in {shorter}, but it is shorter;"
        " use two files that belong together",
        read_parallel,
        paths["en"],
        paths["fr"],
    )


def test_columns_by_name(tmp_path):
    path = write_file(tmp_path, "id\tfrench\tenglish\n1\tVa\tGo\n")
    assert list(read_tsv(path, ["english", "french"], Pair)) == [Pair("Go", "Va")]
    assert list(read_tsv(path, ["french"], Line)) == [Line("Va")]
    assert list(read_tsv(path, (2, 0), Labelled)) == [Labelled("english", "id"), Labelled("Go", "1")]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("a\tb\nc\n", [0, 1], ", line 2: expected 2 columns as in line 1, but there are 1; correct the line"),
        ("a\tb\nc\td\te\n", [0, 1], ", line 2: expected 2 columns as in line 1, but there are 3; correct the line"),
        (
            "a b\n",
            [0, 1],
            ", line 1: there is no column 1 of 1; count from 0, and check the tabs",
        ),
        (
            "a\tb\n",
            [-1, 0],
            ", line 1: there is no column -1 of 2; count from 0, and check the tabs",
        ),
        ("en\tfr\n", ["en", "fra"], ", line 1: there is no column 'fra'; did you mean 'fr'?"),
        ("en\tfr\n", ["en", "ABC"], ", line 1: there is no column 'ABC'; there are en, fr"),
    ],
)
def test_rows_that_do_not_fit(tmp_path, content, columns, message):
    path = write_file(tmp_path, content)
    raises_misfit(f"{path}{message}", read_tsv, path, columns, Pair)


@pytest.mark.parametrize("columns", [[0], [0, 1, 2], "en", [0, "fr"], []])
def test_one_column_is_chosen_for_each_part(tmp_path, columns):
    path = write_file(tmp_path, "a\tb\tc")
    raises_misfit(
        f"a Pair is made of source and target, but got columns={columns!r}; choose 2, all by number or all by name",
        read_tsv,
        path,
        columns,
        Pair,
    )


def test_fields_may_be_nested_or_whole_numbers(tmp_path):
    rows = [
        {"translation": {"en": "Go", "fr": "Va"}, "label": 0},
        {"translation": {"en": "Hi", "fr": "Salut"}, "label": -12345678901234567},
    ]
    path = write_file(tmp_path, "\n".join(map(json.dumps, rows)))
    assert list(read_jsonl(path, ["translation.en", "translation.fr"], Pair))[1] == Pair("Hi", "Salut")
    labels = [example.label for example in read_jsonl(path, ["translation.en", "label"], Labelled)]
    assert labels == ["0", "-12345678901234567"]
    dotted = write_file(tmp_path, '{"a.b": "x", "a": {"b": "y"}}')
    assert list(read_jsonl(dotted, ["a.b"], Line)) == [Line("x")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", " should be JSON, but it cannot be read (Input data was truncated); write it again"),
        (
            "{} x",
            " should be JSON, but it cannot be read (JSON is malformed: trailing characters (byte 4)); write it again",
        ),
        (
            "[" * 100_000,
            " should be JSON, but it cannot be read (it nests more than 64 deep); write it again",
        ),
        ("[]", " should hold one JSON object, but it holds a list; write {…}"),
        ("3", " should hold one JSON object, but it holds a number; write {…}"),
        ("{}", ": there is no field 'text'; there are "),
        ('{"txt": "x"}', ": there is no field 'text'; did you mean 'txt'?"),
        ('{"text": null}', ": field 'text' must be a string, but it is null; correct the line"),
        ('{"text": true}', ": field 'text' must be a string, but it is true or false; correct the line"),
        ('{"text": 0.5}', ": field 'text' must be a string, but it is a fraction; correct the line"),
        ('{"text": ["x"]}', ": field 'text' must be a string, but it is a list; correct the line"),
    ],
    ids=str,
)
def test_json_that_does_not_fit(tmp_path, line, message):
    path = write_file(tmp_path, f'{{"text": "good"}}\n{line}\n')
    raises_misfit(f"{path}, line 2{message}", read_jsonl, path, ["text"], Line)


@pytest.mark.parametrize("half", ["\\ud800", "\\ud800 x", "\\udc00", "\\ud800\\ud800"])
def test_half_a_surrogate_pair_is_no_text(tmp_path, half):
    path = write_file(tmp_path, f'{{"text": "{half}........"}}\n')
    with pytest.raises(ValueError, match="line 1 should be JSON, but"):
        list(read_jsonl(path, ["text"], Line))


def test_tatoeba_and_multi30k():
    pairs = list(read_tsv(require_data("tatoeba-en-fr", "en-fr.tsv.gz"), [0, 1], Pair))
    assert len(pairs) == 175_228
    assert pairs[0] == Pair("Go.", "Va !")
    sides = (require_data("multi30k", f"train.{language}.gz") for language in ("en", "de"))
    assert sum(1 for _ in read_parallel(*sides)) == 29_000


def test_sst_2_and_shakespeare():
    labels = [example.label for example in read_labelled(require_data("sst2", "train.txt"))]
    assert (len(labels), set(labels)) == (6_920, {"0", "1"})
    (play,) = read_document(require_data("tinyshakespeare", "input.txt"))
    assert len(play.text) == 1_115_394
