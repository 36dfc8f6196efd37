"""Files from outside: .gz told by its first bytes, limits held, lines and complaints numbered."""

import gzip
import os
import tracemalloc

import pytest
from text.outside_files import raises_misfit, write_file, write_gzip

from transom import Misfit
from transom.files.untrusted_files import (
    Limits,
    open_bounded,
    read_bytes,
    read_numbered_lines,
    read_raw_lines,
    require_file,
)

pytestmark = pytest.mark.usefixtures("own_errors")


@pytest.mark.parametrize("make", [write_file, write_gzip])
@pytest.mark.parametrize("name", ["plain.txt", "odd.gz"])
def test_a_gz_is_told_by_its_first_bytes_and_not_by_its_name(tmp_path, make, name):
    assert list(read_numbered_lines(make(tmp_path, "eins\nzwei", name))) == [(1, "eins"), (2, "zwei")]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"a\n\nb\n\n", ["a", "", "b", ""]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        ("a\u2028b\x85c\x0bd\re".encode(), ["a\u2028b\x85c\x0bd\re"]),
        (b"\x00\n", ["\x00"]),
        (b"", []),
    ],
    ids=["ends", "crlf", "blank", "mark", "other separators", "zero byte", "empty"],
)
def test_a_line_ends_at_a_line_end_and_nowhere_else(tmp_path, content, found):
    assert [line for _, line in read_numbered_lines(write_file(tmp_path, content))] == found


def test_several_packed_parts_are_one_file(tmp_path):
    path = write_file(tmp_path, gzip.compress(b"a\nb") + gzip.compress(b"c\nd"))
    assert [line for _, line in read_numbered_lines(path)] == ["a", "bc", "d"]


def test_bad_utf_8_is_told_with_its_line_and_byte(tmp_path):
    path = write_file(tmp_path, "café\ncafé\n".encode("latin-1"))
    raises_misfit(
        f"{path}, line 1: text must be UTF-8, but byte 0xe9 is not; save the file as UTF-8",
        list,
        read_numbered_lines(path),
    )


def test_a_line_has_a_limit(tmp_path):
    path = write_file(tmp_path, b"abc\nabcdefgh\n")
    assert len(list(read_raw_lines(path, Limits(line=9)))) == 2
    raises_misfit(
        f"{path}, line 2: a line may have 7 bytes, but this one has more; break it up, or check that the file is text",
        list,
        read_raw_lines(path, Limits(line=7)),
    )


def test_a_file_read_whole_has_a_limit(tmp_path):
    path = write_gzip(tmp_path, b"x" * 101)
    assert read_bytes(path, Limits(document=101)) == b"x" * 101
    raises_misfit(
        f"{path} may have at most 97 bytes, but it has more; split it into parts",
        read_bytes,
        path,
        Limits(document=97),
    )


def test_a_bomb_is_stopped_before_it_goes_off(tmp_path):
    path = write_gzip(tmp_path, (b"x" * 65_535 + b"\n") * 800)
    size = path.stat().st_size
    tracemalloc.start()
    with pytest.raises(Misfit) as caught:
        for _ in read_raw_lines(path):
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    came = 2**24 + 2**16
    assert str(caught.value) == (
        f"{path} may unpack to 100 times its {size} bytes, but it has more than {came};"
        " if this is intended, unpack it first"
    )
    assert peak < 2**20


def test_what_is_small_may_be_packed_as_tightly_as_it_likes(tmp_path):
    path = write_gzip(tmp_path, b"\n" * 2**20)
    assert path.stat().st_size < 2**20 / 500
    assert sum(1 for _ in read_raw_lines(path)) == 2**20


@pytest.mark.parametrize("cut", [3, 11, 17, -1, -5])
def test_a_gz_that_is_cut_off_is_no_end_of_file(tmp_path, cut):
    path = write_file(tmp_path, gzip.compress(b"one line\n" * 7)[:cut])
    with pytest.raises(Misfit, match=r"file starts like a \.gz, but it cannot be unpacked \(.+\); take another copy$"):
        list(read_numbered_lines(path))


@pytest.mark.parametrize("place", range(0, 40, 3))
def test_a_flipped_bit_in_a_gz_is_found(tmp_path, place):
    content = bytearray(gzip.compress(b"one line\n" * 7, mtime=0))
    content[10 + place % (len(content) - 10)] ^= 4
    with pytest.raises(Misfit, match="cannot be unpacked"):
        list(read_numbered_lines(write_file(tmp_path, bytes(content))))


def test_what_is_no_file_is_said(tmp_path):
    missing = tmp_path / "nowhere"
    raises_misfit(
        f"{missing} should be a file, but it cannot be opened: No such file or directory; check the path",
        require_file,
        missing,
    )
    raises_misfit(f"{tmp_path} should be a regular file, but it is a folder; name the file", require_file, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    raises_misfit(
        f"{tmp_path / 'pipe'} should be a regular file, but it is something else; name the file",
        require_file,
        tmp_path / "pipe",
    )
    raises_misfit(
        "a\0b should be a file, but it cannot be opened: embedded null byte; check the path",
        require_file,
        "a\0b",
    )


def test_what_may_not_be_read_is_said(tmp_path, monkeypatch):
    path = write_file(tmp_path, b"secret")

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refused)
    with pytest.raises(Misfit) as caught, open_bounded(path):
        pass
    assert str(caught.value) == f"{path} cannot be opened: Permission denied; let this user read it"
