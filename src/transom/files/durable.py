"""Files and folders that appear whole or not at all, and a manifest that tells a flipped bit.

A power cut or a kill may come between any two lines here: what was under a name before stays under it until all of
its successor has reached the disk.
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

from transom.files.documents import Malformed, decode_distinct_json
from transom.names import Misfit

MANIFEST = "manifest.json"
LONGEST_MANIFEST = 2**22  # bytes; a folder of ten thousand files has about one and a half million
LONGEST_NAME = 255  # bytes; what file systems take
PARTIAL, ASIDE = ".partial", ".aside"  # what a name ends with while it is being written, and while it is replaced
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one file must be."""

    size: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a folder, by their plain names."""

    files: dict[str, Entry]


@contextmanager
def complaining(path: Path) -> Iterator[None]:
    """Trouble with the disk as a Misfit that says what to do about it."""
    try:
        yield
    except OSError as error:
        way_out = (
            "free some space, or choose another folder"
            if error.errno in FULL
            else "choose a folder that this user may write to"
            if error.errno in FORBIDDEN
            else "choose another folder"
        )
        raise Misfit(f"{path} could not be written: {error.strerror or error}; {way_out}") from error


def write_file(path: Path, data: bytes) -> None:
    """Write `data` under a temporary name, bring it to the disk, and only then give it its own."""
    partial = beside(path, PARTIAL)
    with complaining(path):
        try:
            with partial.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
            sync(path.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """A temporary folder to write into: at the end of the block it gets its manifest and takes the place of `folder`.

    If the block fails, nothing is left of it and `folder` is as it was. A folder that is already there is replaced; a
    kill between its two renames leaves the old one aside, and `tidied` puts it back.
    """
    partial = beside(folder, PARTIAL)
    with complaining(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.mkdir()
            yield partial
            write_manifest(partial)
            put(partial, folder)
        except Misfit as error:  # about a file by the name it will not get
            raise Misfit(str(error).replace(partial.name, folder.name)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def put(partial: Path, folder: Path) -> None:
    """Give a finished folder its name, in place of what may have it already."""
    aside = beside(folder, ASIDE)
    replaced = folder.exists()
    if replaced:
        folder.rename(aside)
    partial.rename(folder)
    sync(folder.parent)
    if replaced:
        shutil.rmtree(aside)


def remove(folder: Path) -> None:
    """Take a folder away at once: a kill on the way leaves no half of it under its name."""
    with complaining(folder):
        going = beside(folder, PARTIAL)
        folder.rename(going)
        shutil.rmtree(going)


def beside(path: Path, ending: str) -> Path:
    """A hidden name in the same folder, and so on the same file system, that no other process picks."""
    return path.parent / f".{path.name}.{secrets.token_hex(4)}{ending}"


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def tidied(parent: Path) -> list[str]:
    """Put right what a kill left in a folder, which nobody else may be writing to; gives a line for each thing done."""
    notes = []
    for left in sorted(parent.glob(".*")):
        name = parent / left.name[1:].rsplit(".", 2)[0]
        with complaining(left):
            if left.name.endswith(ASIDE) and not name.exists():
                left.rename(name)
                notes.append(f"put back {name}, which a run that was stopped had set aside")
            elif left.name.endswith((ASIDE, PARTIAL)):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
                notes.append(f"removed {left}, which a run that was stopped had left half-done")
    if notes:
        sync(parent)
    return notes


def write_manifest(folder: Path) -> None:
    """Size and SHA-256 of every file of a folder; written last, so that a folder with one was finished."""
    files = {}
    for path in sorted(folder.iterdir()):
        sync(path)
        files[path.name] = Entry(path.stat().st_size, digest(path))
    data = msgspec.json.format(msgspec.json.encode(Manifest(files)), indent=2)
    write_file(folder / MANIFEST, data + b"\n")


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checked(folder: Path) -> Manifest:
    """The manifest of a folder, once every file in it is found to be what it says."""
    manifest = read_manifest(folder / MANIFEST)
    for name, entry in manifest.files.items():
        check_file(folder / name, entry)
    return manifest


def read_manifest(path: Path) -> Manifest:
    way_out = "take another copy of the folder"
    try:
        found = decode_distinct_json(read_plain(path, LONGEST_MANIFEST), most=LONGEST_MANIFEST)
        manifest = msgspec.convert(found, Manifest)
    except OSError as error:
        raise Misfit(
            f"{path} must list the folder's files, but it cannot be read: {error.strerror}; {way_out}"
        ) from error
    except (Malformed, msgspec.ValidationError) as error:
        raise Misfit(f"{path} must list the folder's files, but it is damaged: {error}; {way_out}") from error
    for name in manifest.files:
        check_plain(path, name)
    return manifest


def read_plain(path: Path, most: int) -> bytes:
    """The first `most` bytes of a plain file, and one more if it has more; of anything else, an OSError."""
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, a device might never end
        raise OSError(errno.EINVAL, "it is no plain file")
    with path.open("rb") as file:
        return file.read(most + 1)


def check_plain(path: Path, name: str) -> None:
    """A name read from a file is one of a file beside it, and no way out of the folder."""
    if not is_plain(name):
        raise Misfit(
            f"{path} must name plain files of its folder, but it names {name[:LONGEST_NAME]!r};"
            " take another copy of the folder"
        )


def is_plain(name: str) -> bool:
    """Whether a file of a folder may have this name."""
    try:
        fits = 0 < len(name.encode("utf-8")) <= LONGEST_NAME
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return fits and name not in {".", "..", MANIFEST} and not {"/", "\\", "\0"} & set(name)


def check_file(path: Path, entry: Entry) -> None:
    """A file has the size and the SHA-256 that its manifest gives."""
    way_out = "take another copy of the folder"
    if not path.is_file():
        raise Misfit(f"{path} is in the manifest, but not in the folder; {way_out}")
    size = path.stat().st_size
    if size != entry.size:
        raise Misfit(f"{path} must have {entry.size} bytes, but it has {size}; {way_out}")
    found = digest(path)
    if found != entry.sha256:
        raise Misfit(f"{path} must have SHA-256 {entry.sha256}, but it has {found}: it was damaged; {way_out}")
