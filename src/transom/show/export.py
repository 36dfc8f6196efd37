"""A picture into a file, by the ending of its name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from transom.files.durable import write_file
from transom.names import Misfit
from transom.show.picture import Picture

PIXELS = 144  # to the inch of a PNG: twice what the SVG says, for paper and for dense screens


def typeset(picture: Picture, kind: Literal["pdf", "png"]) -> bytes:
    """PDF or PNG of the figure, by typst: text stays text, and of its fonts only the signs used go into a PDF."""
    try:
        import typst
    except ModuleNotFoundError as missing:
        raise Misfit(
            f"{kind.upper()} needs the package typst, but it is not installed;"
            " pip install 'transom[export]', or save .svg"
        ) from missing
    source = b'#set page(width: auto, height: auto, margin: 0pt)\n#image("figure.svg")'
    files: Any = {"main.typ": source, "figure.svg": picture.svg().encode()}
    made = typst.compile(files, format=kind, ppi=PIXELS if kind == "png" else None)
    assert isinstance(made, bytes)
    return made


# How a picture becomes the bytes of a file, by the ending of the file's name.
WRITERS: dict[str, Callable[[Picture], bytes]] = {
    ".txt": lambda picture: picture.text().encode(),
    ".svg": lambda picture: picture.svg().encode(),
    ".html": lambda picture: picture.html().encode(),
    ".json": lambda picture: picture.json().encode(),
    ".mmd": lambda picture: picture.mermaid().encode(),
    ".dot": lambda picture: picture.dot().encode(),
    ".pdf": lambda picture: typeset(picture, "pdf"),
    ".png": lambda picture: typeset(picture, "png"),
}


def saved(picture: Picture, path: Path) -> Path:
    """Write the picture as the file's ending says."""
    if path.suffix.lower() not in WRITERS:
        came = f"{path.suffix!r}" if path.suffix.strip(".") else "a name without one"
        name = path.stem.rstrip(".") or "picture"
        raise Misfit(f"a picture is saved by its ending, one of {' '.join(WRITERS)}, but got {came}; try {name}.svg")
    write_file(path, WRITERS[path.suffix.lower()](picture))
    return path
