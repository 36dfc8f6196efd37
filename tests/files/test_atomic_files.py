"""Files and folders that appear whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from transom.files.atomic_files import atomic_folder, recover_folder, remove_folder, verify_manifest, write_file
from transom.names import Misfit


@pytest.fixture
def full(monkeypatch):
    """A disk on which nothing can be brought to rest any more."""

    def refused(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refused)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_takes_the_place_of_another(tmp_path):
    path = tmp_path / "a.txt"
    for content in (b"one", b"another"):
        write_file(path, content)
        assert path.read_bytes() == content
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, request):
    path = tmp_path / "a.txt"
    write_file(path, b"one")
    request.getfixturevalue("full")
    with pytest.raises(Misfit) as caught:
        write_file(path, b"another")
    assert str(caught.value) == (
        f"{path} could not be written: No space left on device; free some space, or choose another folder"
    )
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_appears_with_its_manifest(tmp_path):
    folder = tmp_path / "new" / "model"
    with atomic_folder(folder) as partial:
        (partial / "a.txt").write_bytes(b"abc")
        assert not folder.exists()
    assert names(folder) == ["a.txt", "manifest.json"]
    assert names(folder.parent) == ["model"]
    entry = verify_manifest(folder).files["a.txt"]
    # SHA-256 of "abc" as FIPS 180-4 gives it.
    assert (entry.size, entry.sha256) == (3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")


def test_a_folder_takes_the_place_of_another(tmp_path):
    folder = tmp_path / "model"
    for name in ("a.txt", "b.txt"):
        with atomic_folder(folder) as partial:
            write_file(partial / name, b"abc")
    assert names(folder) == ["b.txt", "manifest.json"]
    assert names(tmp_path) == ["model"]


def write_and_fail(folder: Path, error: type[BaseException]) -> None:
    with atomic_folder(folder) as partial:
        write_file(partial / "b.txt", b"half")
        raise error


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_folder_that_fails_leaves_the_old_one_and_no_litter(tmp_path, error):
    folder = tmp_path / "model"
    with atomic_folder(folder) as partial:
        write_file(partial / "a.txt", b"abc")
    with pytest.raises(error):
        write_and_fail(folder, error)
    assert names(tmp_path) == ["model"]
    assert [*verify_manifest(folder).files] == ["a.txt"]


def test_a_folder_is_of_the_user_s_usual_mode(tmp_path):
    (tmp_path / "plain").mkdir()
    with atomic_folder(tmp_path / "model") as partial:
        write_file(partial / "a.txt", b"abc")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_removed_is_gone_and_tidied_finds_nothing(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a.txt").write_bytes(b"abc")
    remove_folder(tmp_path / "model")
    assert names(tmp_path) == []
    assert recover_folder(tmp_path) == []
