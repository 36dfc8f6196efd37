"""What lies at a path that should be the folder of a model: told by its first bytes, and none of it is opened."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from transom.names import Misfit

LOOKED_AT = 4096  # bytes
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


class Kind(NamedTuple):
    """A kind of file: how its first bytes tell it, what it is, and what to name instead."""

    told_by: Callable[[bytes], bool]
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
# The first that fits is meant: a file of torch.save is a zip archive too.
KINDS = (
    Kind(
        lambda first: first.startswith(b"GGUF"),
        "a GGUF file, which Transom does not read yet",
        "convert it with transformers (from_pretrained with gguf_file=…, then save_pretrained), and name that folder",
    ),
    Kind(is_safetensors, "a safetensors file: parameters alone", "name the folder that has its config.json as well"),
    Kind(
        is_pickle,
        "a file of pickled objects, which can run code when it is read, so Transom never does",
        "save the model as safetensors, and name that folder",
    ),
    Kind(is_zip, "a zip archive", UNPACK),
    Kind(is_archive, "an archive", UNPACK),
    Kind(
        lambda first: first.startswith(b"\x89HDF\r\n"),
        "an HDF5 file, as Keras writes them",
        "save the model as safetensors, and name that folder",
    ),
)


def check_model_folder(path: Path, config: str) -> None:
    """Complain, with what there is instead, unless the path is a folder that has a config of that name."""
    should = f"{path} should be the folder of a model, but"
    if not is_there(path):
        raise Misfit(f"{should} there is no such folder; check the path")
    if path.is_file():
        what, way_out = kind_of_file(path)
        raise Misfit(f"{should} it is {what}; {way_out}")
    if not path.is_dir():
        raise Misfit(f"{should} it is neither a folder nor a file; check the path")
    if (path / config).is_file():
        return
    try:
        names = sorted(entry.name for entry in path.iterdir())
    except OSError as error:
        raise Misfit(f"{path} should be readable, but it is not ({error.strerror}); see who may read it") from error
    if not names:
        raise Misfit(f"{should} it is empty; is the copy complete?")
    if (path / "model" / config).is_file():
        raise Misfit(f"{should} the model is in a folder in it; name {path / 'model'}")
    for name in names:
        kind = known_kind(path / name)
        if kind is not None:
            raise Misfit(
                f"{path} should hold {config}, but it does not; it holds {name!r}, {kind.what}; {kind.way_out}"
            )
    raise Misfit(f"{path} should hold {config}, but it does not; is it the folder of a model?")


def is_there(path: Path) -> bool:
    """Whether there is anything of that name; a name that no file could have is none."""
    try:
        return path.exists()
    except OSError:
        return False


def kind_of_file(path: Path) -> tuple[str, str]:
    """What a file is, and what to name instead."""
    kind = known_kind(path)
    if kind is not None:
        return kind.what, kind.way_out
    if path.suffix.lower() in PICKLED:
        return f"a file, and by its name ({path.suffix}) one of pickled objects, which Transom never reads", KINDS[
            2
        ].way_out
    return "a file", f"name the folder that it lies in, {path.parent}, if that is the folder of a model"


def known_kind(path: Path) -> Kind | None:
    """The kind of a file; None for what is no file, or none of these kinds."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            first = file.read(LOOKED_AT)
    except OSError as error:
        raise Misfit(f"{path} should be readable, but it is not ({error.strerror}); see who may read it") from error
    return next((kind for kind in KINDS if kind.told_by(first)), None)
