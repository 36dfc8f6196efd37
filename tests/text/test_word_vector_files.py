"""Files of word vectors with false sizes, cut off or of another kind: an error with the line, and no memory spent."""

import struct
import tracemalloc

import numpy as np
import pytest
from text.outside_files import raises_misfit, write_file, write_gzip
from text.vector_samples import KNOWN, NUMBERS, binary, fasttext_vec, glove, text_row, word2vec

from transom import Misfit
from transom.text import word_vectors

pytestmark = pytest.mark.usefixtures("own_errors")

COPY = "take another copy of the file"
SKIP = "correct the file, or leave such rows out with skip_broken=True"
GOOD = b"the 1 2 3\n"


def test_a_false_header_is_checked_against_the_file(tmp_path):
    path = write_file(tmp_path, b"999999999 300\nthe 0.5 0.5\n")
    raises_misfit(
        f"{path}, line 1: it promises 999999999 rows of 300 numbers, at least 600999999399 bytes,"
        f" but the file can hold 26; {COPY}",
        word_vectors,
        path,
        ["the"],
    )


@pytest.mark.parametrize("rows", [1, 999999999])
@pytest.mark.parametrize("width", [3, 999999999, 10**17])
@pytest.mark.parametrize("content", [b"the 0.5 1.5 2.5\n" * 5, b"the " + bytes(range(1, 255)) * 3, b""])
@pytest.mark.parametrize("format", [None, "text", "binary"])
@pytest.mark.parametrize("make", [write_file, write_gzip])
def test_a_false_size_costs_no_memory(tmp_path, rows, width, content, format, make):
    path = make(tmp_path, f"{rows} {width}\n".encode() + content)
    tracemalloc.start()
    with pytest.raises(Misfit):
        word_vectors(path, ["the"], format=format)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_a_false_size_that_a_gz_could_hold_costs_no_memory(tmp_path):
    path = write_gzip(tmp_path, b"1 4000000\nthe " + bytes(range(256)) * 7)
    tracemalloc.start()
    raises_misfit(
        f"{path}, byte 10: row 1 of 1 starts here, but the file ends in it; {COPY}", word_vectors, path, ["the"]
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"3 3\n" + GOOD * 2,
            f", line 1: it promises 3 rows, but there are 2; {COPY}",
        ),
        (b"1 3\n" + GOOD * 2, f", line 1: it promises 1 rows, but there are 2; {COPY}"),
        (
            b"2 2\n" + GOOD * 2,
            f", line 2: expected a word and 2 numbers, as line 1 promises, but there are 4 columns; {COPY}",
        ),
        (b"0 3\n", f", line 1: expected sizes above 0, but it promises 0 × 3; {COPY}"),
        (b"3 0\n", f", line 1: expected sizes above 0, but it promises 3 × 0; {COPY}"),
        (b"", f" should hold word vectors, but it is empty; {COPY}"),
        (
            b"just text\n",
            ", line 1: expected a word and its numbers, separated by spaces, but there is something else;"
            " name a file of word vectors",
        ),
        (
            b"\x89PNG\r\n",
            ", line 1: expected a word and its numbers, separated by spaces, but there is something else;"
            " name a file of word vectors",
        ),
        (
            b"the 1 NaN 3\n",
            ", line 1: expected a word and its numbers, separated by spaces, but there is something else;"
            " name a file of word vectors",
        ),
        (
            b"x" * (2**20 + 1),
            ", line 1: a line may have 1048576 bytes, but this one has more;"
            " break it up, or check that the file is text",
        ),
    ],
    ids=lambda value: repr(value[:23]) if isinstance(value, bytes) else "",
)
def test_a_file_that_is_wrong_as_a_whole(tmp_path, content, message):
    path = write_file(tmp_path, content)
    raises_misfit(f"{path}{message}", word_vectors, path, ["the"], skip_broken=True)


BROKEN = {
    "short": (b"of 1 2\n", "expected a word and 3 numbers, but there are 3 columns"),
    "blank": (b"\n", "expected a word and 3 numbers, but there are 1 columns"),
    "long": (b"of 1 2 3 4\n", "expected a word and 3 numbers, but there are 5 columns (a word with a space in it?)"),
    "spaced": (
        b". . of 1 2 3\n",
        "expected a word and 3 numbers, but there are 6 columns (a word with a space in it?)",
    ),
    "no word": (b" 1 2 3\n", "expected a word, but there is none"),
    "latin-1": (b"d\xe9j\xe0 1 2 3\n", "a word must be UTF-8, but it has the byte 0xe9"),
    "words": (b"of one two three\n", "expected numbers, but one of them is not a number"),
    "two spaces": (b"of 1  3\n", "expected numbers, but one of them is not a number"),
    "under_score": (b"of 1_0 2 3\n", "expected numbers, but one of them is not a number"),
    "NaN": (b"of 1 nan 3\n", "expected finite numbers, but one is NaN, infinite or too large"),
    "infinity": (b"of 1 -inf 3\n", "expected finite numbers, but one is NaN, infinite or too large"),
    "overflow": (b"of 1 1e39 3\n", "expected finite numbers, but one is NaN, infinite or too large"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("header", [b"", b"4 3\n"])
def test_a_broken_row_is_an_error_with_its_line_or_left_out_and_counted(tmp_path, name, header):
    row, message = BROKEN[name]
    path = write_file(tmp_path, header + GOOD + b"a 3 4 5\n" + row + b"chat 5 6 7\n")
    line = 3 + bool(header)
    raises_misfit(f"{path}, line {line}: {message}; {SKIP}", word_vectors, path, ["the", "of", "chat"])
    result = word_vectors(path, ["the", "of", "chat"], skip_broken=True)
    assert result.found.tolist() == [True, False, True]
    assert (result.coverage.broken, result.coverage.first_broken) == (1, f"{path}, line {line}: {message}")
    assert str(result.coverage).endswith(f", 1 broken rows left out, the first: {path}, line {line}: {message}")


def test_numbers_of_other_words_are_not_parsed(tmp_path):
    path = write_file(tmp_path, GOOD + b"other nan x y\n")
    assert word_vectors(path, ["the"]).coverage.broken == 0


def test_a_sample_that_is_latin_1():
    utils = pytest.importorskip("gensim.test.utils", reason="gensim comes with the extra `vectors`")
    path = utils.datapath("pang_lee_polarity_fasttext.vec")
    raises_misfit(
        f"{path}, line 150: a word must be UTF-8, but it has the byte 0x97; {SKIP}", word_vectors, path, ["the"]
    )
    assert word_vectors(path, ["the"], skip_broken=True).coverage.broken > 0


def test_a_sample_whose_header_is_false():
    utils = pytest.importorskip("gensim.test.utils", reason="gensim comes with the extra `vectors`")
    path = utils.datapath("pretrained.vec")
    raises_misfit(f"{path}, line 1: it promises 3 rows, but there are 1; {COPY}", word_vectors, path, ["dummy"])


def test_a_last_number_may_be_cut_off(tmp_path):
    path = write_file(tmp_path, GOOD + b"of 1.5 2.5 3.")
    raises_misfit(
        f"{path}, line 2: expected a line end after the numbers, but the file ends (is it cut off?); {SKIP}",
        word_vectors,
        path,
        ["the", "of"],
    )


@pytest.mark.parametrize("make", [word2vec, fasttext_vec, binary], ids=lambda make: make.__name__)
def test_a_file_cut_off_anywhere_is_never_taken_for_whole(tmp_path, make):
    content = make()
    for cut in (*range(1, len(content) - 1, 17), len(content) - 2):
        with pytest.raises(Misfit):
            word_vectors(write_file(tmp_path, content[:cut]), list(KNOWN))


def test_a_binary_file_cut_off(tmp_path):
    content = binary(end=b"")
    path = write_file(tmp_path, content[:-1])
    begins = len(content) - len(b"of ") - 28
    raises_misfit(
        f"{path}, byte {begins}: row 11 of 11 starts here, but the file ends in it; {COPY}",
        word_vectors,
        path,
        ["the"],
        format="binary",
    )
    path = write_file(tmp_path, content[:begins])
    raises_misfit(
        f"{path}, byte {begins}: expected row 11 of 11, but the file ends; {COPY}", word_vectors, path, ["the"]
    )
    path = write_file(tmp_path, content + b"more")
    raises_misfit(
        f"{path}, byte {len(content)}: the 11 rows end here, but the file does not; {COPY}", word_vectors, path, ["the"]
    )


def row(word: bytes, *numbers: float) -> bytes:
    return word + b" " + struct.pack("<3f", *numbers)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(b"of", 1, float("nan"), 3), "expected finite numbers, but one is NaN, infinite or too large"),
        (row(b"of", 1, 2, float("-inf")), "expected finite numbers, but one is NaN, infinite or too large"),
        (row(b"d\xe9j\xe0", 1, 2, 3), "a word must be UTF-8, but it has the byte 0xe9"),
        (row(b"", 1, 2, 3), "expected a word, but there is none"),
    ],
)
def test_a_broken_row_of_a_binary_file(tmp_path, bad, message):
    path = write_file(tmp_path, b"3 3\n" + row(b"the", 0.1, 0.2, 0.3) + bad + row(b"chat", 1, 2, 3))
    raises_misfit(f"{path}, byte 20: {message}; {SKIP}", word_vectors, path, ["the", "of", "chat"])
    result = word_vectors(path, ["the", "of", "chat"], skip_broken=True)
    assert (result.found.tolist(), result.coverage.broken) == ([True, False, True], 1)


def test_a_binary_file_that_is_none(tmp_path):
    path = write_file(tmp_path, glove())
    raises_misfit(
        f"{path}, line 1: expected the number of rows and their width; {COPY}",
        word_vectors,
        path,
        ["the"],
        format="binary",
    )
    path = write_file(tmp_path, b"2 2\n" + b"x" * 5_003 + b" ")
    raises_misfit(
        f"{path}, byte 4: a word may have 4096 bytes, but this one is longer; {COPY}",
        word_vectors,
        path,
        ["the"],
        format="binary",
    )


@pytest.mark.parametrize("first", [b"\n", b"1\n", b"\r", b" ", b"0.5 "])
def test_bytes_that_look_like_text_are_told_from_it(tmp_path, first):
    """The first bytes of a number may be anything, a line end too."""
    content = first + bytes(range(200, 240))
    numbers = np.frombuffer(content[:28], "<f4")
    path = write_file(tmp_path, b"1 7\nthe " + numbers.tobytes())
    assert np.array_equal(word_vectors(path, ["the"]).vectors[0].numpy(), numbers)


def test_a_text_file_with_a_broken_first_row_is_still_text(tmp_path):
    path = write_file(tmp_path, b"2 7\n" + text_row("the", NUMBERS[0][:5]) + text_row("of", NUMBERS[1]))
    raises_misfit(
        f"{path}, line 2: expected a word and 7 numbers, as line 1 promises, but there are 6 columns; {COPY}",
        word_vectors,
        path,
        ["the"],
    )


def fasttext_bin(words=(b"the", b"of"), bucket=3, width=2, **changes):
    """A small .bin: header, dictionary, matrix; `changes` are false sizes."""
    sizes = {"magic": 793712314, "version": 12, "longest": 6, "entries": len(words), "labels": 0, "pruned": -1}
    sizes |= {"rows": len(words) + bucket, "columns": width, "quantised": False} | changes
    content = struct.pack("<2i", sizes["magic"], sizes["version"])
    content += struct.pack("<12id", width, 5, 5, 1, 5, 1, 2, 1, bucket, 3, sizes["longest"], 100, 1e-4)
    content += struct.pack("<3iqq", sizes["entries"], sizes["entries"], sizes["labels"], 101, sizes["pruned"])
    content += b"".join(word + b"\0" + struct.pack("<qb", 7, 0) for word in words)
    content += struct.pack("<?qq", sizes["quantised"], sizes["rows"], sizes["columns"])
    numbers = np.arange((len(words) + bucket) * width, dtype="<f4")
    return content + numbers.tobytes() + struct.pack("<?qq", False, len(words), width) + numbers[: 2 * width].tobytes()


def test_fasttext_bin_made_here(tmp_path):
    pytest.importorskip("gensim.models.fasttext", reason="gensim comes with the extra `vectors`")
    result = word_vectors(write_file(tmp_path, fasttext_bin()), ["of", "Of", "nowhere"])
    assert result.found.tolist() == [True, True, False]
    assert result.vectors.shape == (3, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"version": 13},
            " should be fastText's .bin, version 11 or 12, but is not; unpack it, or use the .vec",
        ),
        ({"longest": 999}, " may have pieces of 16 letters, but it has 999; use the .vec"),
        ({"labels": 1}, " should hold word vectors, but it is a classifier or pruned; use the .vec"),
        ({"pruned": 2**40}, " should hold word vectors, but it is a classifier or pruned; use the .vec"),
        ({"entries": -1}, " should hold word vectors, but it is a classifier or pruned; use the .vec"),
        (
            {"entries": 2**31 - 1},
            f", byte 200: expected 9 bytes, but the file ends; {COPY}",
        ),
        (
            {"words": [b"x" * 5_003]},
            f", byte 92: a word must end within 4096 bytes, but it does not; {COPY}",
        ),
        (
            {"rows": 2**40},
            f", byte 134: expected 5 rows of 2 numbers, but it promises 1099511627776 × 2 with 73 bytes left; {COPY}",
        ),
        (
            {"columns": 7},
            f", byte 134: expected 5 rows of 2 numbers, but it promises 5 × 7 with 73 bytes left; {COPY}",
        ),
        (
            {"quantised": True},
            f", byte 134: expected 5 rows of 2 numbers, but it promises 5 × 2 with 73 bytes left; {COPY}",
        ),
    ],
    ids=str,
)
def test_fasttext_bin_with_false_sizes(tmp_path, changes, message):
    path = write_file(tmp_path, fasttext_bin(**changes))
    raises_misfit(f"{path}{message}", word_vectors, path, ["of"])


def test_fasttext_bin_cut_off_or_packed(tmp_path):
    content = fasttext_bin()
    for cut in range(4, 134 + 40, 3):
        with pytest.raises(Misfit):
            word_vectors(write_file(tmp_path, content[:cut]), ["of"])
    path = write_file(tmp_path, content[:90])
    raises_misfit(f"{path}, byte 64: expected 28 bytes, but the file ends; {COPY}", word_vectors, path, ["of"])
    path = write_gzip(tmp_path, content)
    raises_misfit(
        f"{path} should be fastText's .bin, version 11 or 12, but is not; unpack it, or use the .vec",
        word_vectors,
        path,
        ["of"],
    )


def test_fasttext_bin_with_nan(tmp_path):
    pytest.importorskip("gensim.models.fasttext", reason="gensim comes with the extra `vectors`")
    content = bytearray(fasttext_bin())
    content[134:138] = struct.pack("<f", float("nan"))
    path = write_file(tmp_path, bytes(content))
    raises_misfit(
        f"{path}, word 'the': expected finite numbers, but one is NaN, infinite or too large; {SKIP}",
        word_vectors,
        path,
        ["the"],
    )
