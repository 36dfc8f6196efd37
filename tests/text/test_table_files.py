"""Tables: quotes of CSV as Python's csv module has them, Parquet through pyarrow, and all bad lines in one message."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text.outside_files import raises_misfit, write_file, write_gzip

from transom.names import Misfit
from transom.text import Labelled, Line, Pair, read_csv, read_jsonl, read_labelled, read_parquet, read_tsv
from transom.text.examples import MOST_BAD

pytestmark = pytest.mark.usefixtures("own_errors")
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9).filter(str.strip)


@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=7))
def test_csv_reads_what_pythons_csv_writes(tmp_path_factory, rows):
    file = io.StringIO()
    csv.writer(file).writerows([("english", "french"), *rows])
    path = write_file(tmp_path_factory.mktemp("csv"), file.getvalue())
    assert list(read_csv(path, ["english", "french"], Pair)) == [Pair(*row) for row in rows]
    assert list(read_csv(path, [1, 0], Labelled))[1:] == [Labelled(b, a) for a, b in rows]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('a,b\n"c"d,e\n', ", line 2: expected comma-separated values, but ',' expected after '\"'; correct the quotes"),
        ('a,b\nc,"d\n', ", line 2: expected comma-separated values, but unexpected end of data; correct the quotes"),
        ("a,b\nc\n", ", line 2: expected 2 columns as in line 1, but there are 1; correct the line"),
        (b"a,b\nc,\xffd\n", ", line 2: text must be UTF-8, but byte 0xff is not; save the file as UTF-8"),
        ("a,b\n", ", line 1: there is no column 'en'; there are a, b"),
    ],
)
def test_bad_csv(tmp_path, content, message):
    path = write_file(tmp_path, content)
    columns = ["en", "fr"] if "column 'en'" in message else [0, 1]
    raises_misfit(f"{path}{message}", read_csv, path, columns, Pair)


def test_a_long_unclosed_quote_is_bounded(tmp_path):
    path = write_file(tmp_path, 'a,b\nc,"' + "d\n" * 200_000)
    with pytest.raises(Misfit, match=r"line 2: expected comma-separated values, but field larger than field limit"):
        list(read_csv(path, [0, 1], Pair))


def test_all_bad_lines_are_listed_together(tmp_path):
    path = write_gzip(tmp_path, b"a\tb\nc\nd\te\n\xff\tf\ng\t \nh\ti\n")
    message = (
        f"{path}, line 2: expected 2 columns as in line 1, but there are 1; correct the line"
        " · line 4: text must be UTF-8, but byte 0xff is not; save the file as UTF-8"
        " · line 5: every Pair needs its target, but it is blank; correct the line, or leave such lines out with"
        " skip_blank=True · 3 bad lines"
    )
    raises_misfit(message, read_tsv, path, [0, 1], Pair)
    examples = read_tsv(path, [0, 1], Pair)
    assert [next(examples) for _ in range(3)] == [Pair("a", "b"), Pair("d", "e"), Pair("h", "i")]


def test_bad_lines_of_other_formats_are_listed_too(tmp_path):
    path = write_file(tmp_path, '{"text": "good"}\n{\n{"text": 0.5}\n')
    raises_misfit(
        f"{path}, line 2 should be JSON, but it cannot be read (Input data was truncated); write it again · line 3:"
        " field 'text' must be a string, but it is a fraction; correct the line · 2 bad lines",
        read_jsonl,
        path,
        ["text"],
        Line,
    )
    path = write_file(tmp_path, b"1 good\n2\n3 \xff\n")
    with pytest.raises(Misfit, match=r"line 2: every Labelled needs its text.* · line 3: text must be UTF-8.* · 2 bad"):
        list(read_labelled(path))


def test_reading_stops_at_twenty_bad_lines(tmp_path):
    path = write_file(tmp_path, "a\tb\n" + "c\n" * 1000)
    with pytest.raises(Misfit) as error:
        list(read_tsv(path, [0, 1], Pair))
    assert str(error.value).count("expected 2 columns") == MOST_BAD == 20
    assert str(error.value).endswith(" · 20 bad lines (reading stopped here; there may be more)")


def parquet_file(path, **columns):
    pa = pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `parquet`")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table(columns), path, row_group_size=3)
    return path


def test_parquet(tmp_path):
    path = parquet_file(
        tmp_path / "p.parquet", en=["Go", "Yes", "No", "Hi"], fr=["Va", "Oui", "Non", ""], n=[1, 2, 3, 4]
    )
    assert list(read_parquet(path, ["n", "en"], Labelled))[3] == Labelled("4", "Hi")
    assert list(read_parquet(path, ["en", "fr"], Pair, skip_blank=True)) == [
        Pair("Go", "Va"),
        Pair("Yes", "Oui"),
        Pair("No", "Non"),
    ]
    raises_misfit(
        f"{path}, line 4: every Pair needs its target, but it is blank; correct the line, or leave such lines out with"
        " skip_blank=True",
        read_parquet,
        path,
        ["en", "fr"],
        Pair,
    )
    raises_misfit(f"{path}: there is no column 'eng'; did you mean 'en'?", read_parquet, path, ["eng"], Line)


def test_parquet_that_does_not_fit(tmp_path):
    path = parquet_file(tmp_path / "p.parquet", x=[0.5, 1.5])
    with pytest.raises(Misfit, match=r"line 1: column 'x' must hold strings, but there is a float; correct the row · "):
        list(read_parquet(path, ["x"], Line))
    path = parquet_file(tmp_path / "flags.parquet", x=[None, False])
    with pytest.raises(Misfit, match=r"line 2: column 'x' must hold strings, but there is a bool; correct the row"):
        list(read_parquet(path, ["x"], Line))
    content = bytearray(path.read_bytes())
    content[-12] ^= 255  # pyarrow's own message has two lines
    path.write_bytes(content)
    with pytest.raises(Misfit) as error:
        list(read_parquet(path, ["x"], Line))
    assert "\n" not in str(error.value)
    broken = write_file(tmp_path, b"PAR1 no table PAR1")
    with pytest.raises(Misfit, match=r"file should be a Parquet file, but it is not \(.*\); name another file"):
        list(read_parquet(broken, ["x"], Line))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    raises_misfit(
        "Parquet is read by pyarrow, which is not installed; pip install 'transom[parquet]'",
        read_parquet,
        write_file(tmp_path, "x"),
        ["x"],
        Line,
    )
