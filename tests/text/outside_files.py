"""Files for the tests of text: written, packed, and complained about."""

import gzip
import os
import re
from pathlib import Path

import pytest

from transom import Misfit

# Real corpora, where they are on hand; tests that want them are skipped without.
DATA = Path(os.environ.get("TRANSOM_DATA", Path(__file__).parents[3] / "shared" / "data"))


def written(folder: Path, content: bytes | str, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def packed(folder: Path, content: bytes | str, name: str = "file.gz") -> Path:
    return written(folder, gzip.compress(content if isinstance(content, bytes) else content.encode("utf-8")), name)


def read_out(found) -> None:
    if hasattr(found, "__next__"):
        list(found)


def complains(words: str, act, /, *given, **settings) -> None:
    """The whole message; `act` may be a reader, which complains when it is read."""
    with pytest.raises(Misfit, match=f"^{re.escape(words)}$"):
        read_out(act(*given, **settings))


def given_data(*parts: str) -> Path:
    path = DATA.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{'/'.join(parts)} is not on hand; TRANSOM_DATA names its folder")
    return path
