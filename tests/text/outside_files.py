"""Files for the tests of text, real corpora, and a check of whole messages."""

import gzip
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from transom import Misfit

# Real corpora, if they are installed; tests that need them are skipped otherwise.
DATA = Path(os.environ.get("TRANSOM_DATA", Path(__file__).parents[3] / "shared" / "data"))


def write_file(folder: Path, content: bytes | str, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def write_gzip(folder: Path, content: bytes | str, name: str = "file.gz") -> Path:
    return write_file(folder, gzip.compress(content if isinstance(content, bytes) else content.encode("utf-8")), name)


def raises_misfit(message: str, call, /, *args, **kwargs) -> None:
    """`call` raises a Misfit with this whole message; a reader raises it when it is read."""
    with pytest.raises(Misfit, match=f"^{re.escape(message)}$"):
        exhaust(call(*args, **kwargs))


def exhaust(result: object) -> None:
    if isinstance(result, Iterator):
        list(result)


def require_data(*parts: str) -> Path:
    path = DATA.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{'/'.join(parts)} is not installed; TRANSOM_DATA names its folder")
    return path
