"""Atomic writing of files and folders, and a manifest of checksums that reveals a flipped bit.

A power cut or a kill may come between any two lines here. The old file or folder stays under its name until the new one
has reached the disk.
"""

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec

from transom.files.documents import MalformedDocument, decode_distinct_json
from transom.names import Misfit

MANIFEST = "manifest.json"
LONGEST_MANIFEST = 2**22  # bytes; that of a folder with ten thousand files has about 1.5 million
LONGEST_NAME = 255  # bytes; the limit of most file systems
PARTIAL, ASIDE = ".partial", ".aside"  # endings of names: while written, and while replaced
ANOTHER_COPY = "take another copy of the folder"
WAYS_OUT = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space, or choose another folder"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose a folder that this user may write to"),
}


class ManifestEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size and checksum that one file must have."""

    size: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a folder, by their plain names."""

    files: dict[str, ManifestEntry]


@contextmanager
def write_errors_as_misfit(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a Misfit that says what to do."""
    try:
        yield
    except OSError as error:
        way_out = WAYS_OUT.get(error.errno or 0, "choose another folder")
        raise Misfit(f"{path} could not be written: {error.strerror or error}; {way_out}") from error


def write_file(path: Path, data: bytes) -> None:
    """Write `data` under a temporary name, bring it to the disk, then rename the file to `path`."""
    partial = temporary_path(path, PARTIAL)
    with write_errors_as_misfit(path):
        try:
            with partial.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
            fsync(path.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to write into; at the end of the block it gets a manifest and replaces `folder`.

    If the block fails, the temporary folder is removed and `folder` is unchanged. A kill between the two renames of a
    replacement leaves the old folder under a hidden name, and `recover_folder` puts it back.
    """
    partial = temporary_path(folder, PARTIAL)
    with write_errors_as_misfit(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.mkdir()
            yield partial
            write_manifest(partial)
            replace_folder(partial, folder)
        except Misfit as error:  # it names a file of the temporary folder
            raise Misfit(str(error).replace(partial.name, folder.name)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def replace_folder(partial: Path, folder: Path) -> None:
    """Rename a finished folder, replacing the folder that may have the name already."""
    aside = temporary_path(folder, ASIDE)
    replaced = folder.exists()
    if replaced:
        folder.rename(aside)
    partial.rename(folder)
    fsync(folder.parent)
    if replaced:
        shutil.rmtree(aside)


def remove_folder(folder: Path) -> None:
    """Remove a folder; a kill in between leaves no half of it under its name."""
    with write_errors_as_misfit(folder):
        doomed = temporary_path(folder, PARTIAL)
        folder.rename(doomed)
        shutil.rmtree(doomed)


def temporary_path(path: Path, ending: str) -> Path:
    """A hidden name that no other process picks, in the same folder and so on the same file system."""
    return path.parent / f".{path.name}.{secrets.token_hex(4)}{ending}"


def fsync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def recover_folder(parent: Path) -> list[str]:
    """Clean up what a kill left in a folder, and say in a line each what was done; nobody else may be writing to it."""
    notes = []
    for leftover in sorted(parent.glob(".*")):
        path = parent / leftover.name[1:].rsplit(".", 2)[0]
        with write_errors_as_misfit(leftover):
            if leftover.name.endswith(ASIDE) and not path.exists():
                leftover.rename(path)
                notes.append(f"put back {path}, which a run that was stopped had set aside")
            elif leftover.name.endswith((ASIDE, PARTIAL)):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
                notes.append(f"removed {leftover}, which a run that was stopped had left half-done")
    if notes:
        fsync(parent)
    return notes


def write_manifest(folder: Path) -> None:
    """Write size and SHA-256 of every file of a folder; last of all, so a folder with a manifest is complete."""
    files = {}
    for path in sorted(folder.iterdir()):
        fsync(path)
        files[path.name] = ManifestEntry(path.stat().st_size, sha256_of(path))
    save_manifest(folder, files)


def save_manifest(folder: Path, files: dict[str, ManifestEntry]) -> None:
    """Write a manifest of files whose sizes and checksums are known."""
    data = msgspec.json.format(msgspec.json.encode(Manifest(files)), indent=2)
    write_file(folder / MANIFEST, data + b"\n")


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, after every file in it was checked."""
    manifest = read_manifest(folder / MANIFEST)
    for name, entry in manifest.files.items():
        check_manifest_entry(folder / name, entry)
    return manifest


def read_manifest(path: Path) -> Manifest:
    try:
        content = read_regular_file(path, LONGEST_MANIFEST)
        manifest = msgspec.convert(decode_distinct_json(content, max_bytes=LONGEST_MANIFEST), Manifest)
    except OSError as error:
        reason = f"it cannot be read: {error.strerror}"
        raise Misfit(f"{path} must list the folder's files, but {reason}; {ANOTHER_COPY}") from error
    except (MalformedDocument, msgspec.ValidationError) as error:
        raise Misfit(f"{path} must list the folder's files, but it is damaged: {error}; {ANOTHER_COPY}") from error
    for name in manifest.files:
        check_plain_name(path, name)
    return manifest


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """The first `max_bytes` bytes of a regular file, and one more if it has more; anything else is an OSError."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait, and a device might never end
        raise OSError(errno.EINVAL, "it is not a regular file")
    with path.open("rb") as file:
        return file.read(max_bytes + 1)


def check_plain_name(path: Path, name: str) -> None:
    """A name in the file at `path` must belong to a file beside it: it may not lead out of the folder."""
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:  # half of a surrogate pair
        length = 0
    if not 0 < length <= LONGEST_NAME or name in {".", "..", MANIFEST} or {"/", "\\", "\0"} & set(name):
        raise Misfit(
            f"{path} must name plain files of its folder, but it names {name[:LONGEST_NAME]!r}; {ANOTHER_COPY}"
        )


def check_manifest_entry(path: Path, entry: ManifestEntry) -> None:
    """A file must have the size and the SHA-256 of its entry in the manifest."""
    if not path.is_file():
        raise Misfit(f"{path} is in the manifest, but not in the folder; {ANOTHER_COPY}")
    size = path.stat().st_size
    if size != entry.size:
        raise Misfit(f"{path} must have {entry.size} bytes, but it has {size}; {ANOTHER_COPY}")
    sha256 = sha256_of(path)
    if sha256 != entry.sha256:
        raise Misfit(f"{path} must have SHA-256 {entry.sha256}, but it has {sha256}: it was damaged; {ANOTHER_COPY}")
