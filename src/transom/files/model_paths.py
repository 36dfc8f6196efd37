"""What lies at a path that should be a model's folder; a file is recognised by its first bytes and never loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from transom.names import Misfit

FIRST_BYTES = 4096  # of a file, by which its kind is recognised
GGUF = b"GGUF"  # the first bytes of llama.cpp's files
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


class FileKind(NamedTuple):
    """A kind of file: a test of its first bytes, what it is, and what to name instead."""

    matches: Callable[[bytes], bool]
    what: str
    way_out: str


def is_safetensors(first: bytes) -> bool:
    """The length of a header in eight bytes, and the header, which is JSON."""
    return len(first) > 9 and first[8:9] == b"{" and 2 <= int.from_bytes(first[:8], "little") < 2**32


def is_pickle(first: bytes) -> bool:
    """A pickle of protocol 2 to 5, alone or in the archive that torch.save writes."""
    return (first[:1] == b"\x80" and first[1:2] in b"\x02\x03\x04\x05") or (is_zip(first) and b"data.pkl" in first)


def is_zip(first: bytes) -> bool:
    return first.startswith(b"PK\x03\x04")


def is_archive(first: bytes) -> bool:
    """gzip, xz, bzip2, zstd, 7-Zip, tar."""
    packed = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c")
    return first.startswith(packed) or first[257:262] == b"ustar"


UNPACK = "unpack it, and name the folder that comes out"
SAVE_AS_SAFETENSORS = "save the model as safetensors, and name that folder"
# The first that matches counts: a file of torch.save is a zip archive too.
KINDS = (
    FileKind(lambda first: first.startswith(GGUF), "a GGUF file", "turn it into a folder with transom import"),
    FileKind(
        is_safetensors, "a safetensors file: parameters alone", "name the folder that has its config.json as well"
    ),
    FileKind(
        is_pickle,
        "a file of pickled objects, which can run code when it is read, so Transom never does",
        SAVE_AS_SAFETENSORS,
    ),
    FileKind(is_zip, "a zip archive", UNPACK),
    FileKind(is_archive, "an archive", UNPACK),
    FileKind(
        lambda first: first.startswith(b"\x89HDF\r\n"),
        "an HDF5 file, as Keras writes them",
        SAVE_AS_SAFETENSORS,
    ),
)


def check_model_folder(path: Path, config: str) -> None:
    """Raise an error that says what the path is instead, unless it is a folder with a config of that name."""
    expected = f"{path} should be the folder of a model, but"
    if not path_exists(path):
        raise Misfit(f"{expected} there is no such folder; check the path")
    if path.is_file():
        what, way_out = describe_file(path)
        raise Misfit(f"{expected} it is {what}; {way_out}")
    if not path.is_dir():
        raise Misfit(f"{expected} it is neither a folder nor a file; check the path")
    if (path / config).is_file():
        return
    try:
        names = sorted(entry.name for entry in path.iterdir())
    except OSError as error:
        raise Misfit(f"{path} should be readable, but it is not ({error.strerror}); see who may read it") from error
    if not names:
        raise Misfit(f"{expected} it is empty; is the copy complete?")
    if (path / "model" / config).is_file():
        raise Misfit(f"{expected} the model is in a folder in it; name {path / 'model'}")
    for name in names:
        kind = detect_kind(path / name)
        if kind is not None:
            raise Misfit(
                f"{path} should hold {config}, but it does not; it holds {name!r}, {kind.what}; {kind.way_out}"
            )
    raise Misfit(f"{path} should hold {config}, but it does not; is it the folder of a model?")


def path_exists(path: Path) -> bool:
    """Whether the path exists; False also for a name that no file can have."""
    try:
        return path.exists()
    except OSError:
        return False


def is_gguf(path: Path) -> bool:
    """Whether the path is a file that begins as a GGUF file does."""
    if not path_exists(path) or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(GGUF)) == GGUF


def check_no_pickle(folder: Path) -> None:
    """Raise an error if a folder without safetensors has its parameters in a file of pickled objects."""
    if any(folder.glob("*.safetensors")):
        return
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in PICKLED and path.is_file():
            raise Misfit(
                f"{folder} should hold model.safetensors, but its parameters are in {path.name!r}, pickled objects,"
                " which can run code when they are read, so Transom never does; save the model with save_pretrained of"
                " transformers, which writes safetensors"
            )


def describe_file(path: Path) -> tuple[str, str]:
    """What a file is, and what to name instead."""
    kind = detect_kind(path)
    if kind is not None:
        return kind.what, kind.way_out
    if path.suffix.lower() in PICKLED:
        what = f"a file, and by its name ({path.suffix}) one of pickled objects, which Transom never reads"
        return what, SAVE_AS_SAFETENSORS
    return "a file", f"name the folder that it lies in, {path.parent}, if that is the folder of a model"


def detect_kind(path: Path) -> FileKind | None:
    """The kind of a file; None if it is no file, or of no kind in `KINDS`."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            first = file.read(FIRST_BYTES)
    except OSError as error:
        raise Misfit(f"{path} should be readable, but it is not ({error.strerror}); see who may read it") from error
    return next((kind for kind in KINDS if kind.matches(first)), None)
