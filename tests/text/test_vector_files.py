"""Files of word vectors that lie, break off or hold something else: an error with the line, and no memory for lies."""

import struct
import tracemalloc

import numpy as np
import pytest
from text.outside_files import complains, packed, written
from text.vector_samples import KNOWN, NUMBERS, binary, fasttext_vec, glove, text_row, word2vec

from transom import Misfit
from transom.text import word_vectors

pytestmark = pytest.mark.usefixtures("own_errors")

COPY = "take another copy of the file"
SKIP = "mend the file, or leave such rows out with skip_broken=True"
GOOD = b"the 1 2 3\n"


def test_a_lying_header_is_held_against_the_file(tmp_path):
    path = written(tmp_path, b"999999999 300\nthe 0.5 0.5\n")
    complains(
        f"{path}, line 1: it promises 999999999 rows of 300 numbers, at least 600999999399 bytes,"
        f" but the file can hold 26; {COPY}",
        word_vectors,
        path,
        ["the"],
    )


@pytest.mark.parametrize("rows", [1, 999999999])
@pytest.mark.parametrize("width", [3, 999999999, 10**17])
@pytest.mark.parametrize("rest", [b"the 0.5 1.5 2.5\n" * 5, b"the " + bytes(range(1, 255)) * 3, b""])
@pytest.mark.parametrize("format", [None, "text", "binary"])
@pytest.mark.parametrize("make", [written, packed])
def test_a_lie_costs_no_memory(tmp_path, rows, width, rest, format, make):
    path = make(tmp_path, f"{rows} {width}\n".encode() + rest)
    tracemalloc.start()
    with pytest.raises(Misfit):
        word_vectors(path, ["the"], format=format)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_a_packed_lie_that_could_be_true_costs_no_memory(tmp_path):
    path = packed(tmp_path, b"1 4000000\nthe " + bytes(range(256)) * 7)
    tracemalloc.start()
    complains(f"{path}, byte 10: row 1 of 1 begins here, but the file ends in it; {COPY}", word_vectors, path, ["the"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize(
    ("content", "words"),
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
        (b"0 3\n", f", line 1: expected rows and numbers, but it promises 0 × 3; {COPY}"),
        (b"3 0\n", f", line 1: expected rows and numbers, but it promises 3 × 0; {COPY}"),
        (b"", f" should hold word vectors, but it is empty; {COPY}"),
        (
            b"just text\n",
            ", line 1: expected a word and its numbers, divided by spaces, but there is something else;"
            " name a file of word vectors",
        ),
        (
            b"\x89PNG\r\n",
            ", line 1: expected a word and its numbers, divided by spaces, but there is something else;"
            " name a file of word vectors",
        ),
        (
            b"the 1 NaN 3\n",
            ", line 1: expected a word and its numbers, divided by spaces, but there is something else;"
            " name a file of word vectors",
        ),
        (
            b"x" * (2**20 + 1),
            ", line 1: a line may have 1048576 bytes, but this one goes on;"
            " break it up, or check that the file is text",
        ),
    ],
    ids=lambda value: repr(value[:23]) if isinstance(value, bytes) else "",
)
def test_a_file_that_is_wrong_as_a_whole(tmp_path, content, words):
    path = written(tmp_path, content)
    complains(f"{path}{words}", word_vectors, path, ["the"], skip_broken=True)


BROKEN = {
    "short": (b"of 1 2\n", "expected a word and 3 numbers, but there are 3 columns"),
    "blank": (b"\n", "expected a word and 3 numbers, but there are 1 columns"),
    "long": (b"of 1 2 3 4\n", "expected a word and 3 numbers, but there are 5 columns (a word with a space in it?)"),
    "spaced": (
        b". . of 1 2 3\n",
        "expected a word and 3 numbers, but there are 6 columns (a word with a space in it?)",
    ),
    "no word": (b" 1 2 3\n", "expected a word, but there is none"),
    "latin-1": (b"d\xe9j\xe0 1 2 3\n", "a word must be UTF-8, but byte 0xe9 fits nowhere"),
    "words": (b"of one two three\n", "expected numbers, but one of them is none"),
    "two spaces": (b"of 1  3\n", "expected numbers, but one of them is none"),
    "under_score": (b"of 1_0 2 3\n", "expected numbers, but one of them is none"),
    "NaN": (b"of 1 nan 3\n", "expected finite numbers, but one is NaN, infinite or too large"),
    "infinity": (b"of 1 -inf 3\n", "expected finite numbers, but one is NaN, infinite or too large"),
    "overflow": (b"of 1 1e39 3\n", "expected finite numbers, but one is NaN, infinite or too large"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("header", [b"", b"4 3\n"])
def test_a_broken_row_is_told_with_its_line_or_left_out_and_counted(tmp_path, name, header):
    row, words = BROKEN[name]
    path = written(tmp_path, header + GOOD + b"a 3 4 5\n" + row + b"chat 5 6 7\n")
    line = 3 + bool(header)
    complains(f"{path}, line {line}: {words}; {SKIP}", word_vectors, path, ["the", "of", "chat"])
    found = word_vectors(path, ["the", "of", "chat"], skip_broken=True)
    assert found.found.tolist() == [True, False, True]
    assert (found.coverage.broken, found.coverage.first_broken) == (1, f"{path}, line {line}: {words}")
    assert str(found.coverage).endswith(f", 1 broken rows left out, the first: {path}, line {line}: {words}")


def test_numbers_of_other_words_are_not_looked_at(tmp_path):
    path = written(tmp_path, GOOD + b"other nan x y\n")
    assert word_vectors(path, ["the"]).coverage.broken == 0


def test_a_sample_that_is_latin_1():
    utils = pytest.importorskip("gensim.test.utils", reason="gensim comes with the extra `vectors`")
    path = utils.datapath("pang_lee_polarity_fasttext.vec")
    complains(
        f"{path}, line 150: a word must be UTF-8, but byte 0x97 fits nowhere; {SKIP}", word_vectors, path, ["the"]
    )
    assert word_vectors(path, ["the"], skip_broken=True).coverage.broken > 0


def test_a_sample_whose_header_lies():
    utils = pytest.importorskip("gensim.test.utils", reason="gensim comes with the extra `vectors`")
    path = utils.datapath("pretrained.vec")
    complains(f"{path}, line 1: it promises 3 rows, but there are 1; {COPY}", word_vectors, path, ["dummy"])


def test_a_last_number_may_be_cut_off(tmp_path):
    path = written(tmp_path, GOOD + b"of 1.5 2.5 3.")
    complains(
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
            word_vectors(written(tmp_path, content[:cut]), list(KNOWN))


def test_a_binary_file_cut_off(tmp_path):
    content = binary(end=b"")
    path = written(tmp_path, content[:-1])
    begins = len(content) - len(b"of ") - 28
    complains(
        f"{path}, byte {begins}: row 11 of 11 begins here, but the file ends in it; {COPY}",
        word_vectors,
        path,
        ["the"],
        format="binary",
    )
    path = written(tmp_path, content[:begins])
    complains(f"{path}, byte {begins}: expected row 11 of 11, but the file ends; {COPY}", word_vectors, path, ["the"])
    path = written(tmp_path, content + b"more")
    complains(
        f"{path}, byte {len(content)}: the 11 rows end here, but the file goes on; {COPY}", word_vectors, path, ["the"]
    )


def row(word: bytes, *numbers: float) -> bytes:
    return word + b" " + struct.pack("<3f", *numbers)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (row(b"of", 1, float("nan"), 3), "expected finite numbers, but one is NaN, infinite or too large"),
        (row(b"of", 1, 2, float("-inf")), "expected finite numbers, but one is NaN, infinite or too large"),
        (row(b"d\xe9j\xe0", 1, 2, 3), "a word must be UTF-8, but byte 0xe9 fits nowhere"),
        (row(b"", 1, 2, 3), "expected a word, but there is none"),
    ],
)
def test_a_broken_row_of_a_binary_file(tmp_path, bad, words):
    path = written(tmp_path, b"3 3\n" + row(b"the", 0.1, 0.2, 0.3) + bad + row(b"chat", 1, 2, 3))
    complains(f"{path}, byte 20: {words}; {SKIP}", word_vectors, path, ["the", "of", "chat"])
    found = word_vectors(path, ["the", "of", "chat"], skip_broken=True)
    assert (found.found.tolist(), found.coverage.broken) == ([True, False, True], 1)


def test_a_binary_file_that_is_none(tmp_path):
    path = written(tmp_path, glove())
    complains(
        f"{path}, line 1: expected the number of rows and their width, but it is not there; {COPY}",
        word_vectors,
        path,
        ["the"],
        format="binary",
    )
    path = written(tmp_path, b"2 2\n" + b"x" * 5_003 + b" ")
    complains(
        f"{path}, byte 4: a word may have 4096 bytes, but this one goes on; {COPY}",
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
    path = written(tmp_path, b"1 7\nthe " + numbers.tobytes())
    assert np.array_equal(word_vectors(path, ["the"]).vectors[0].numpy(), numbers)


def test_a_text_file_with_a_broken_first_row_is_still_text(tmp_path):
    path = written(tmp_path, b"2 7\n" + text_row("the", NUMBERS[0][:5]) + text_row("of", NUMBERS[1]))
    complains(
        f"{path}, line 2: expected a word and 7 numbers, as line 1 promises, but there are 6 columns; {COPY}",
        word_vectors,
        path,
        ["the"],
    )


def fasttext_bin(words=(b"the", b"of"), bucket=3, width=2, **changes):
    """A small .bin: header, dictionary, matrix; `changes` are lies."""
    told = {"magic": 793712314, "version": 12, "longest": 6, "entries": len(words), "labels": 0, "pruned": -1}
    told |= {"rows": len(words) + bucket, "columns": width, "quantised": False} | changes
    content = struct.pack("<2i", told["magic"], told["version"])
    content += struct.pack("<12id", width, 5, 5, 1, 5, 1, 2, 1, bucket, 3, told["longest"], 100, 1e-4)
    content += struct.pack("<3iqq", told["entries"], told["entries"], told["labels"], 101, told["pruned"])
    content += b"".join(word + b"\0" + struct.pack("<qb", 7, 0) for word in words)
    content += struct.pack("<?qq", told["quantised"], told["rows"], told["columns"])
    numbers = np.arange((len(words) + bucket) * width, dtype="<f4")
    return content + numbers.tobytes() + struct.pack("<?qq", False, len(words), width) + numbers[: 2 * width].tobytes()


def test_fasttext_bin_made_here(tmp_path):
    pytest.importorskip("gensim.models.fasttext", reason="gensim comes with the extra `vectors`")
    found = word_vectors(written(tmp_path, fasttext_bin()), ["of", "Of", "nowhere"])
    assert found.found.tolist() == [True, True, False]
    assert found.vectors.shape == (3, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"version": 13},
            " should be fastText's .bin of version 11 or 12, but it is not; unpack it if it is a .gz, or use the .vec",
        ),
        ({"longest": 999}, " may use pieces of words of 16 letters, but it has 999; use the .vec"),
        ({"labels": 1}, " should hold word vectors, but it is a classifier or pruned; use the .vec"),
        ({"pruned": 2**40}, " should hold word vectors, but it is a classifier or pruned; use the .vec"),
        ({"entries": -1}, " should hold word vectors, but it is a classifier or pruned; use the .vec"),
        (
            {"entries": 2**31 - 1},
            f", byte 200: expected 9 bytes, but the file ends; {COPY}",
        ),
        (
            {"words": [b"x" * 5_003]},
            f", byte 92: expected a word of at most 4096 bytes, but it does not end; {COPY}",
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
def test_fasttext_bin_that_lies(tmp_path, changes, words):
    path = written(tmp_path, fasttext_bin(**changes))
    complains(f"{path}{words}", word_vectors, path, ["of"])


def test_fasttext_bin_cut_off_or_packed(tmp_path):
    content = fasttext_bin()
    for cut in range(4, 134 + 40, 3):
        with pytest.raises(Misfit):
            word_vectors(written(tmp_path, content[:cut]), ["of"])
    path = written(tmp_path, content[:90])
    complains(f"{path}, byte 64: expected 28 bytes, but the file ends; {COPY}", word_vectors, path, ["of"])
    path = packed(tmp_path, content)
    complains(
        f"{path} should be fastText's .bin of version 11 or 12, but it is not; unpack it if it is a .gz,"
        " or use the .vec",
        word_vectors,
        path,
        ["of"],
    )


def test_fasttext_bin_with_nan(tmp_path):
    pytest.importorskip("gensim.models.fasttext", reason="gensim comes with the extra `vectors`")
    content = bytearray(fasttext_bin())
    content[134:138] = struct.pack("<f", float("nan"))
    path = written(tmp_path, bytes(content))
    complains(
        f"{path}: expected finite numbers for 'the', but one is NaN or infinite; {SKIP}", word_vectors, path, ["the"]
    )
