"""The header of a safetensors file, checked before anything of the file is loaded."""

import stat
from pathlib import Path
from typing import Any

from transom.files.documents import Malformed, decode_distinct_json
from transom.names import Misfit

MOST_TENSORS = 100_000


def header(path: Path, most: int) -> dict[str, Any]:
    """What a safetensors file says it holds; `most` bytes of header are read at all, for they take 30 each parsed.

    A complaint speaks of "its header", without the path: the caller knows what the file should have been.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise Misfit("it is no plain file")
    size = about.st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise Misfit(f"its header is cut off at {size} bytes")
        if length > most:
            raise Misfit(f"its header has {length} bytes, but {most} are the most")
        content = file.read(length)
    try:
        found = decode_distinct_json(content, most=most)
    except Malformed as error:
        raise Misfit(f"its header cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise Misfit(f"its header should be a JSON object, but it is a {type(found).__name__}")
    tensors = len(found.keys() - {"__metadata__"})
    if tensors > MOST_TENSORS:
        raise Misfit(f"it holds {tensors} tensors, but {MOST_TENSORS} are the most")
    return found
